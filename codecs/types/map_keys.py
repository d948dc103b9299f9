"""Whether a map column names a key twice within one map, which Delta's readers do not expect."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Above this many entries in one map, keys are compared by hashing instead of each with each.
_FEW_KEYS = 8


def has_a_key_twice(maps: pa.MapArray) -> bool:
    """Whether any one map of the array has two equal keys."""
    sizes = np.diff(maps.offsets.to_numpy())
    most = int(sizes.max(initial=0))
    if most <= 1:
        return False
    owner = np.repeat(np.arange(len(sizes)), sizes)
    keys = maps.keys.slice(maps.offsets[0].as_py(), len(owner))
    if most > _FEW_KEYS:
        codes = keys.dictionary_encode()
        pairs = owner * len(codes.dictionary) + codes.indices.to_numpy()
        return bool(pc.count_distinct(pa.array(pairs)).as_py() != len(pairs))
    for step in range(1, most):
        same = pc.equal(keys[step:], keys[:-step]).to_numpy(zero_copy_only=False)
        if (same & (owner[step:] == owner[:-step])).any():
            return True
    return False
