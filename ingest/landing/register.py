"""Which files landed, and the number of each: entries put if absent, of which each says what the one before did not.

An entry is there for good before any batch reads what it names, so two runs and a repeat find the same files under the same
numbers. Once there are many entries they are brought together in a segment, and go: whoever stood still meanwhile and puts one of
their numbers again finds the segment behind it, and his entry counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.errors import CheckpointMismatch
from distributary.ingest.landing import entries
from distributary.ingest.landing.entries import READERS, SEGMENTS, Segment, entry_path
from distributary.ingest.landing.known import Known, Marks, digest, state_of
from distributary.ingest.landing.numbers import Landed
from distributary.ingest.storage.contract import Files

# So many entries come together in a segment, or with so many files.
_TOGETHER, _FILES_TOGETHER = 100, 50_000

# Of a segment that is read, so many files at once.
_LEARNT_TOGETHER = 250_000

# A segment takes in the ones before it that are not this much larger: so each file is written again a few times in all.
_LARGER = 4

# Nor does it become larger than this: what comes together is in memory meanwhile.
_LARGEST = 1_000_000


class Register:
    """The register of one folder that files land in. One process has one of it; several may have the same folder's."""

    def __init__(self, files: Files, place: str) -> None:
        """`files` is where it is kept; `place` is the folder, as people write it. Raises CheckpointMismatch for another folder's."""
        self.files, self.place = files, place
        self.paths, self.contents = Known(), Known(states=False)
        self.next_number = 0
        # The numbers of those whose place another took before they were read.
        self.replaced = Marks()
        # The numbers of those that are told as gone.
        self.gone = Marks()
        self.id = self._begun()
        # Of each segment and each entry: the numbers that it gave, from the first to before another.
        self._segments: list[tuple[Segment, range]] = []
        self._entries: dict[int, list[Landed]] = {}
        self._next = 0
        self._read_segments()
        self.refresh()

    def require_reader(self, pipeline: str) -> None:
        """Have this pipeline read by it. Raises CheckpointMismatch where another one does.

        One number stands for what one has read and the other has not: a file that changed in between would be read by one of them twice, or not at all.
        """
        try:
            found = self.files.read(READERS)
        except FileNotFoundError:
            self.files.put_new(READERS, entries.readers([pipeline]))
            found = self.files.read(READERS)
        names = entries.readers_of(found, f"{self.files}/{READERS}")
        if pipeline not in names:
            raise CheckpointMismatch(
                f"pipeline {', '.join(names)} reads the files in {self.place} by the register in {self.files}, and two cannot: give {pipeline} a "
                f"register of its own by source.files.name. If it is the same pipeline under another name, delete {self.files}/{READERS}"
            )

    def refresh(self) -> None:
        """Learn what others registered since."""
        while (found := self._entry(self._next)) is not None:
            if self._is_passed():
                self._read_anew()
            else:
                self._take(self._next, found)

    def learn_anew(self) -> None:
        """The same, also of what was brought together with others meanwhile."""
        self._read_anew()
        self.refresh()

    def append(self, files: Sequence[Landed]) -> bool:
        """Register files, numbered on from `next_number`; False where another was first, whose files are known then.

        Where it says True, and where it raises OSError, they may be relied on, or be there all the same, respectively.
        """
        if not self.files.put_new(entry_path(self._next), entries.as_entry(files)):
            self.refresh()
            return False
        if self._is_passed():
            # Another may have read it at once, and brought it together with others before this looked.
            self.learn_anew()
            return all(self._has(one) for one in files)
        self._take(self._next, list(files))
        return True

    def is_nobodys(self, number: int) -> bool:
        """Whether no file is read by a number: another took its place before, or it is told as gone. What comes, or comes back, is read by one of its own."""
        return number in self.replaced or number in self.gone

    def _has(self, file: Landed) -> bool:
        if file.kind == "gone":
            return file.number in self.gone
        return self.paths.get(digest(file.path)) == (file.number, state_of(file.size, file.tag))

    def between(self, first: int, end: int) -> list[Landed]:
        """The files with these numbers, in order. Raises CheckpointMismatch where one is not there."""
        try:
            return self._between(first, end)
        except FileNotFoundError:
            # It was brought together with others since.
            self.learn_anew()
            return self._between(first, end)

    def _between(self, first: int, end: int) -> list[Landed]:
        parts = (
            self._in_segment(segment, first, end) for segment, has in self._segments if _meet(has, first, end)
        )
        tail = (one for of in self._entries.values() for one in of)
        found = {
            one.number: one
            for one in chain(chain.from_iterable(parts), tail)
            if one.is_numbered and first <= one.number < end
        }
        if len(found) < end - first:
            lacking = next(number for number in range(first, end) if number not in found)
            raise CheckpointMismatch(
                f"the register of files in {self.files} has no number {lacking}: it was put back from an older copy, or files of it were "
                "deleted. Restore the newest one, with the tables"
            )
        return [
            replace(found[number], kind="gone") if number in self.gone else found[number]
            for number in range(first, end)
        ]

    def bring_together(self) -> None:
        """Have a segment in the place of many entries, once there are many. What fails is done the next time."""
        files = [one for of in self._entries.values() for one in of]
        if len(self._entries) < _TOGETHER and len(files) < _FILES_TOGETHER:
            return
        first, last = min(self._entries), max(self._entries)
        gone: list[str] = [entry_path(number) for number in self._entries if number]
        whole, numbers = entries.as_table(files), self._numbers_apart()
        with suppress(OSError):
            kept = list(self._segments)
            while kept:
                segment, has = kept[-1]
                before = self._opened(segment)
                # By its rows: those of files that are known by another name have no number.
                if before.metadata.num_rows > min(_LARGER * len(whole), _LARGEST - len(whole)):
                    break
                kept.pop()
                whole = entries.together([before.read(), whole])
                first, numbers = min(first, segment.first), range(has.start, numbers.stop)
                gone.append(segment.path)
            one = Segment(first, last)
            self.files.put_new(one.path, entries.as_segment(whole))
            self._segments, self._entries = [*kept, (one, numbers)], {}
            self.files.delete(path for path in gone if path != one.path)

    def _numbers_apart(self) -> range:
        """The numbers that no segment has."""
        return range(self._segments[-1][1].stop if self._segments else 0, self.next_number)

    def _begun(self) -> str:
        path = entry_path(0)
        try:
            first = self.files.read(path)
        except FileNotFoundError:
            self.files.put_new(path, entries.header(self.place))
            first = self.files.read(path)
        place, own = entries.header_of(first, f"{self.files}/{path}")
        if place != self.place:
            raise CheckpointMismatch(
                f"{self.files} has the register of the files in {place}, and this pipeline reads those in {self.place}: give it "
                "another name (`source.files.name`), or the folder that it had. If the folder was moved, that is a new name, too"
            )
        return own

    def _read_segments(self) -> None:
        while True:
            try:
                for segment in self._covering():
                    self._learn_segment(segment)
                return
            except FileNotFoundError:
                # It was brought together with others since it was listed.
                self._segments, self._next, self.next_number = [], 0, 0

    def _covering(self) -> Iterator[Segment]:
        """Segments that have everything, each the one that reaches farthest."""
        found = [one for name in self.files.names(SEGMENTS) if (one := Segment.of(name)) is not None]
        while reaching := [one for one in found if one.first <= self._next <= one.last]:
            yield max(reaching, key=lambda one: one.last)

    def _learn_segment(self, segment: Segment) -> None:
        low, high = self.next_number, self.next_number
        for batch in self._opened(segment).iter_batches(_LEARNT_TOGETHER):
            own = self._know_all(batch)
            if len(own):
                low, high = min(low, pc.min(own).as_py()), max(high, pc.max(own).as_py() + 1)
        self.next_number, self._next = high, segment.last + 1
        self._segments.append((segment, range(low, high)))

    def _read_anew(self) -> None:
        self._segments, self._entries, self._next, self.next_number = [], {}, 0, 0
        self._read_segments()

    def _is_passed(self) -> bool:
        """Whether a segment has what the next entry is, or would be: then others have gone on, and the entry may be one that came too late."""
        segments = (Segment.of(name) for name in self.files.names(SEGMENTS))
        return any(one is not None and one.last >= self._next for one in segments)

    def _entry(self, number: int) -> list[Landed] | None:
        path = entry_path(number)
        try:
            data = self.files.read(path)
        except FileNotFoundError:
            return None
        return entries.files_in(data, f"{self.files}/{path}")

    def _take(self, number: int, files: list[Landed]) -> None:
        own = [one.number for one in files if one.is_numbered]
        if own != list(range(self.next_number, self.next_number + len(own))):
            raise CheckpointMismatch(
                f"entry {number} of the register in {self.files} does not go on from the one before it: it was put there from "
                "another copy. Restore the newest one, with the tables"
            )
        self._know(files)
        self._entries[number] = files
        self._next, self.next_number = number + 1, self.next_number + len(own)

    def _know(self, files: Iterable[Landed]) -> None:
        for one in files:
            if one.kind == "gone":
                self.gone.add(one.number)
                continue
            self.paths.put(digest(one.path), one.number, state_of(one.size, one.tag))
            if one.instead_of is not None:
                self.replaced.add(one.instead_of)
            if one.kind != "rewritten":
                self.contents.put(digest(one.identity), one.number)

    def _know_all(self, files: pa.RecordBatch) -> pa.Array:
        """Know many files column by column, as `_know` does of one after the other; the numbers that are their own."""
        gone = pc.equal(files["kind"].cast(pa.string()), "gone")
        self.gone.update(files.filter(gone)["number"].to_pylist())
        files = files.filter(pc.invert(gone))
        numbers = files["number"].to_pylist()
        states = [
            state_of(size, tag)
            for size, tag in zip(files["size"].to_pylist(), entries.values_of(files["tag"]), strict=True)
        ]
        self.paths.put_many(list(map(digest, entries.values_of(files["path"]))), numbers, states)
        self.replaced.update(files["instead_of"].drop_null().to_pylist())
        known = files.filter(pc.not_equal(files["kind"].cast(pa.string()), "rewritten"))
        contents = list(map(digest, entries.values_of(known["identity"])))
        self.contents.put_many(contents, known["number"].to_pylist(), [0] * len(contents))
        return files["number"].filter(pc.not_equal(files["kind"].cast(pa.string()), "same"))

    def _opened(self, segment: Segment) -> pq.ParquetFile:
        info = self.files.info(segment.path)
        if info is None:
            raise FileNotFoundError(segment.path)
        return entries.opened(self.files.reader(segment.path, info.size), f"{self.files}/{segment.path}")

    def _in_segment(self, segment: Segment, first: int, end: int) -> Iterator[Landed]:
        file = self._opened(segment)
        groups = (file.metadata.row_group(place) for place in range(file.metadata.num_row_groups))
        wanted = [
            place
            for place, group in enumerate(groups)
            if (own := group.column(0).statistics) is None or (own.min < end and own.max >= first)
        ]
        for batch in file.iter_batches(row_groups=wanted) if wanted else ():
            yield from entries.files_of(batch)


def _meet(numbers: range, first: int, end: int) -> bool:
    return numbers.start < end and first < numbers.stop
