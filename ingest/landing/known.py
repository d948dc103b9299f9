"""What is known of files, by digests of 16 bytes: a million of them in some 32 MB, a look at each in a microsecond or two."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

_DIGEST = 16

# So many are held apart, in a dict, before they are sorted in.
_APART = 50_000

_Words = npt.NDArray[np.uint64]
_Numbers = npt.NDArray[np.int64]


def digest(text: str) -> bytes:
    """Of a path, or of an identity."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def state_of(size: int, tag: str) -> int:
    """A number that is another one where size or tag is another; below 2^63."""
    return int.from_bytes(blake2b(f"{size} {tag}".encode(), digest_size=8).digest(), "little") >> 1


class Known:
    """For each digest a number and a state, both of 63 bits; what is put later counts."""

    def __init__(self) -> None:
        self._high, self._low = np.empty(0, np.uint64), np.empty(0, np.uint64)
        self._numbers, self._states = np.empty(0, np.int64), np.empty(0, np.int64)
        self._apart: dict[bytes, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._high) + len(self._apart)

    def put(self, key: bytes, number: int, state: int = 0) -> None:
        """Have this number and state for a digest."""
        self._apart[key] = (number, state)
        if len(self._apart) > _APART:
            self._sort_in()

    def put_many(self, keys: Sequence[bytes], numbers: Sequence[int], states: Sequence[int]) -> None:
        """The same for many of them, the later ones counting: sorted in at once, and nothing held of each."""
        self._sort_in()
        if keys:
            self._take_in(*_words(keys), np.array(numbers, np.int64), np.array(states, np.int64))

    def get(self, key: bytes) -> tuple[int, int] | None:
        """Number and state of a digest; None where it is not known."""
        number, state = self.get_all([key])
        return None if number[0] < 0 else (int(number[0]), int(state[0]))

    def get_all(self, keys: Sequence[bytes]) -> tuple[_Numbers, _Numbers]:
        """The numbers and states of these digests; a number of -1 for each that is not known."""
        high, low = _words(keys)
        at = _place(self._high, self._low, high, low)
        found = at >= 0
        numbers, states = np.full(len(keys), -1, np.int64), np.zeros(len(keys), np.int64)
        numbers[found], states[found] = self._numbers[at[found]], self._states[at[found]]
        if self._apart:
            for place, key in enumerate(keys):
                if (apart := self._apart.get(key)) is not None:
                    numbers[place], states[place] = apart
        return numbers, states

    def _sort_in(self) -> None:
        """Bring what is apart into the arrays."""
        if self._apart:
            numbers, states = (np.array(of, np.int64) for of in zip(*self._apart.values(), strict=True))
            self._take_in(*_words(list(self._apart)), numbers, states)
            self._apart = {}

    def _take_in(self, high: _Words, low: _Words, numbers: _Numbers, states: _Numbers) -> None:
        """Have these as well, in the place of what the arrays have of the same digests."""
        high, low = np.concatenate([self._high, high]), np.concatenate([self._low, low])
        # What is alike stays in the order in which it came, and the last of it counts.
        order = np.lexsort((low, high))
        high, low = high[order], low[order]
        last = np.ones(len(order), np.bool_)
        last[:-1] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        self._high, self._low = high[last], low[last]
        self._numbers = np.concatenate([self._numbers, numbers])[order][last]
        self._states = np.concatenate([self._states, states])[order][last]


def _words(keys: Sequence[bytes]) -> tuple[_Words, _Words]:
    words = np.frombuffer(b"".join(keys), np.uint64).reshape(len(keys), 2)
    return words[:, 0].copy(), words[:, 1].copy()


def _place(high: _Words, low: _Words, wanted: _Words, beside: _Words) -> _Numbers:
    """Where each wanted digest stands in the sorted ones; -1 where it does not."""
    at = np.searchsorted(high, wanted).astype(np.int64)
    found = np.full(len(wanted), -1, np.int64)
    looking = np.arange(len(wanted))
    # Two digests that agree in their first half stand side by side.
    while len(looking := looking[at[looking] < len(high)]):
        looking = looking[high[at[looking]] == wanted[looking]]
        hits = low[at[looking]] == beside[looking]
        found[looking[hits]] = at[looking[hits]]
        looking = looking[~hits]
        at[looking] += 1
    return found
