"""What is known of files, by digests of 16 bytes: a million of them in some 28 MB, a look at each in a microsecond or two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

_DIGEST = 16

# So many are held apart, in a dict, before they are sorted in.
_APART = 50_000

_Words = npt.NDArray[np.uint64]
_Numbers = npt.NDArray[np.int64]

# An offset is a number and 32 bits, so that no number has more than 31 of them.
_HELD = np.int32


def digest(text: str) -> bytes:
    """Of a path, or of an identity."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def state_of(size: int, tag: str) -> int:
    """A number that is another one where size or tag is another; below 2^63."""
    return int.from_bytes(blake2b(f"{size} {tag}".encode(), digest_size=8).digest(), "little") >> 1


class Marks(AbstractSet[int]):
    """Numbers that are marked, a bit for each up to the largest: as a set of numbers they would take some hundred times as much."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def __contains__(self, number: object) -> bool:
        at = number >> 3 if isinstance(number, int) else len(self._bits)
        return at < len(self._bits) and bool(self._bits[at] >> (number & 7) & 1)  # type: ignore[operator]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AbstractSet)
            and len(self) == len(other)
            and all(number in self for number in other)
        )

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[int]:
        return (number for number in range(len(self._bits) << 3) if number in self)

    def __len__(self) -> int:
        return int.from_bytes(self._bits, "little").bit_count()

    def add(self, number: int) -> None:
        """Mark one."""
        at = number >> 3
        if at >= len(self._bits):
            self._bits.extend(bytes(at + 1 - len(self._bits)))
        self._bits[at] |= 1 << (number & 7)

    def update(self, numbers: Iterable[int]) -> None:
        """Mark some."""
        for number in numbers:
            self.add(number)


class Known:
    """For each digest a number of 31 bits and a state of 63 bits; what is put later counts."""

    def __init__(self, *, states: bool = True) -> None:
        """Without `states` every one of them is 0, and takes no room."""
        self._high, self._low = np.empty(0, np.uint64), np.empty(0, np.uint64)
        self._numbers = np.empty(0, _HELD)
        self._states = np.empty(0, np.int64) if states else None
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
        numbers[found] = self._numbers[at[found]]
        if self._states is not None:
            states[found] = self._states[at[found]]
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
        """Have these as well, in the place of what the arrays have of the same digests.

        What is there stays in its order, and the new ones go in between, one array after the other: to sort all of them for each few thousand
        new ones takes minutes once there are many millions, and several times their memory.
        """
        # What is alike stays in the order in which it came, and the last of it counts.
        order = np.lexsort((low, high))
        high, low = high[order], low[order]
        last = np.ones(len(order), np.bool_)
        last[:-1] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        order, high, low = order[last], high[last], low[last]
        at = _place(self._high, self._low, high, low)
        known, new = at >= 0, at < 0
        spots = np.searchsorted(self._high, high[new])
        self._numbers[at[known]] = numbers[order][known]
        self._numbers = np.insert(self._numbers, spots, numbers[order][new])
        if self._states is not None:
            self._states[at[known]] = states[order][known]
            self._states = np.insert(self._states, spots, states[order][new])
        self._low = np.insert(self._low, spots, low[new])
        self._high = np.insert(self._high, spots, high[new])


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
