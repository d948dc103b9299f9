"""What no column took of a row, as the text of one JSON object; two of them as one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def joined(first: pa.StringArray | None, second: pa.StringArray | None) -> pa.StringArray | None:
    """Per row the members of both objects, the first one's first; null where both are, None where all would be."""
    present = [texts for texts in (first, second) if texts is not None and texts.null_count < len(texts)]
    if len(present) < 2:
        return present[0] if present else None
    head, tail = pc.utf8_slice_codeunits(present[0], 0, -1), pc.utf8_slice_codeunits(present[1], 1)
    return pc.coalesce(pc.binary_join_element_wise(head, tail, ","), *present)
