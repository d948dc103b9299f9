"""Files that land in a folder as a source: one topic of one partition, in which each file has a number and its records the rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from pyspark.sql import DataFrame, SparkSession

from distributary.codecs.containers.base import Merging, Naming, load_container
from distributary.errors import CheckpointMismatch
from distributary.ingest.inputs.by_ranges import ByRanges
from distributary.ingest.inputs.one_topic import OLDER, OneTopic
from distributary.ingest.inputs.waits import Waits
from distributary.ingest.interruptible import Stopped
from distributary.ingest.kafka.offsets import Offsets, Positions
from distributary.ingest.landing.archiving import Archive
from distributary.ingest.landing.gone import require_told
from distributary.ingest.landing.looking import Looking
from distributary.ingest.landing.numbers import (
    Landed,
    first_offset,
    is_as_registered,
    number_of,
    row_of,
)
from distributary.ingest.landing.reading import Landing, records, schema_if_readable, schema_of
from distributary.ingest.landing.register import Register
from distributary.ingest.reshaping.rule import NOTHING_BESIDE, Beside
from distributary.ingest.settings.groups import Route, Source
from distributary.ingest.settings.source.landing import FilesSource
from distributary.ingest.source.contract import Channels
from distributary.ingest.storage.contract import Files, Info
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.registry.base import SchemaRegistry

REGISTERS = ".distributary/landed"
"""Where the registers of files are, below the folder of tables."""

_THREADS_IN_STORES = 16

# Of files that a sample is taken from, beyond the first of them.
_SAMPLE_BYTES = 64 << 20

LOOKED_INTO = 100
"""Of files that are only looked into for their schemas, how many of the newest ones."""

_LOOKED_THROUGH = 10_000


@dataclass(frozen=True, slots=True)
class FileRecords(ByRanges):
    """The records of a folder's files, as a Spark session reads them."""

    spark: SparkSession
    source: Source
    folder: LandingFolder

    def range(self, offsets: Offsets) -> DataFrame:
        """The records of these files. A range that begins amid a file asks for about so many of the newest records."""
        found = list[Landed]()
        for ranges in offsets.values():
            for begin, end in ranges.values():
                found += self.folder.files_in(begin, end)
        return records(self.spark, self.folder.landing, found)

    def next_range(self, read: Positions, ends: Positions, most: int) -> Offsets:
        """The next files, as many as a batch has of files and bytes; how many records are in them nobody knows.

        Raises FilesGone where one of them is not there any more, and that is to stop the run.
        """
        topic = self.folder.topic
        begin, end = read.get(topic, {}).get(0, 0), ends.get(topic, {}).get(0, 0)
        last = self.folder.batch_end(number_of(begin), number_of(end))
        return {topic: {0: (begin, first_offset(last))}} if first_offset(last) > begin else {}

    def warm_up(self, channels: Channels) -> None:
        """Have workers started."""
        records(self.spark, self.folder.landing, []).write.format("noop").mode("overwrite").save()


class LandingFolder(OneTopic):
    """A folder that files land in, and the register of it beside the tables."""

    holder = "the register of files"
    ends_by_itself = False

    def __init__(  # noqa: PLR0913 - one value each of what a folder is opened with
        self,
        folder: Files,
        root: Files,
        chosen: FilesSource,
        *,
        skips_gone: bool,
        pipeline: str | None = None,
        waits: Waits | None = None,
    ) -> None:
        """Raises CheckpointMismatch for a register that is another folder's, or another pipeline's, OSError where neither place answers."""
        self._waits = waits or Waits()
        self.topic = chosen.topic
        place = root.below(f"{REGISTERS}/{self.topic}")
        self.landing = Landing(folder, self.topic, chosen.format, place, skips_gone)
        self._chosen, self._folder = chosen, folder
        self._register, self._root = Register(place, str(chosen.path)), root
        if pipeline is not None:
            self._register.require_reader(pipeline)
        self._looking = Looking(folder, chosen, self._register, stop=self._waits.stop)
        # Before which all files were given to batches; nobody knows before the log was asked.
        self._given: int | None = None
        # Where the newest batch begins, and before which no batch may have to be written again.
        self._begun, self._done = 0, 0
        # With which number the batch began that was asked for last; nobody knows yet what the run before failed at.
        self._asked: int | None = None
        # Before which this run has nothing to move any more of what it read itself.
        self._moved: int | None = None
        self._archive: Archive | None = None
        self._reads_again: Callable[[], bool] = lambda: False
        # What the files of these numbers bring together, as it was told last of a batch.
        self._told: tuple[range, str] | None = None

    def close(self) -> None:
        """Nothing is held."""

    def cluster_id(self) -> str:
        """The folder."""
        return f"files in {self._chosen.path}"

    def topic_ids(self) -> dict[str, str]:
        """The id of the register: its numbers are what offsets are made of."""
        return {self.topic: self._register.id}

    def was_away(self) -> bool:
        """Wait until the store answers that files land in; whether it did not at once."""
        return self._waits.were_silent([self._folder])

    def partitions(self) -> dict[str, Sequence[int]]:
        """One."""
        return {self.topic: (0,)}

    def earliest_offsets(self) -> Positions:
        """The first file's: what is gone of files is told when its turn comes."""
        return {self.topic: {0: 0}}

    def end_offsets(self) -> Positions:
        """Where the newest file ends, after a look at the folder. Raises what a look raises, and Stopped where the run is to end while it waits."""
        return self._waits.answer(self._looked, [self._folder])

    def _looked(self) -> Positions:
        self._looking.look(self._given)
        return self._ends()

    def ends(self) -> Positions:
        """Where the newest file ends that is registered."""
        self._register.refresh()
        return self._ends()

    def offsets_from(self, milliseconds: int) -> Positions:
        """The first file in the order of numbers that was last written to then or later; all of them are looked through, and settings name no time."""
        for first in range(0, self._register.next_number, _LOOKED_THROUGH):
            last = min(first + _LOOKED_THROUGH, self._register.next_number)
            for file in self._register.between(first, last):
                if file.modified >= milliseconds:
                    return {self.topic: {0: first_offset(file.number)}}
        return {self.topic: {}}

    def require_had(self, read: Positions) -> None:
        """Raises CheckpointMismatch where the register has not so many files: what lands next would count as read, and what was read would not.

        Nobody may have looked yet: a look numbers them anew.
        """
        had = number_of(read.get(self.topic, {}).get(0, 0))
        if had > self._register.next_number:
            # A run that is alive, or was when this one began, may have registered more since.
            self._register.learn_anew()
        if had > (known := self._register.next_number):
            raise CheckpointMismatch(
                f"the register of files in {self._register.files} knows {known} files, and {had} were read by it: {OLDER}"
            )

    def lag(self, read: Mapping[str, Mapping[int, int]], ends: Positions | None = None) -> Positions:
        """How many files are still to be read: of their records nobody knows how many there are."""
        begin = number_of(read.get(self.topic, {}).get(0, 0))
        self._was_given(begin)
        end = (self.end_offsets() if ends is None else ends).get(self.topic, {}).get(0, 0)
        return {self.topic: {0: max(0, number_of(end) - begin)}}

    def columns(self, ends: Positions | None = None) -> str | None:
        """What the files of the next batch bring, or now the newest ones, where they say that and no record does by itself."""
        container = load_container(self.landing.format)
        if not isinstance(container, Merging):
            return None
        end = number_of((self.end_offsets() if ends is None else ends).get(self.topic, {}).get(0, 0))
        numbers = range(self._begun if ends is not None else max(0, end - LOOKED_INTO), end)
        if ends is None:
            # What cannot be read now may be by the time that its batch comes.
            return container.merged(self._schemas(numbers, schema_if_readable))
        if self._told is None or self._told[0] != numbers:
            self._told = numbers, container.merged(self._schemas(numbers, schema_of))
        return self._told[1]

    def schemas(self) -> SchemaRegistry | None:
        """Those that files were written with, where each record names its own file's."""
        return self.landing.schemas() if isinstance(load_container(self.landing.format), Naming) else None

    def _schemas(self, numbers: range, of: Callable[[Landing, Landed], str | None]) -> list[str]:
        files = [
            file
            for file in self.files_in(first_offset(numbers.start), first_offset(numbers.stop))
            if file.kind == "new"
        ]
        with ThreadPoolExecutor(_THREADS_IN_STORES if self._folder.remote else 1) as pool:
            found = pool.map(partial(of, self.landing), files)
            return list(dict.fromkeys(one for one in found if one is not None))

    def records(
        self,
        spark: SparkSession,
        pipeline: str,
        source: Source,
        route: Route,
        beside: Beside = NOTHING_BESIDE,
    ) -> FileRecords:
        """The files' records; each has its path as a header."""
        return FileRecords(spark, source, self)

    def files_in(self, begin: int, end: int) -> list[Landed]:
        """The files of a range of offsets that are to be read."""
        last = number_of(end)
        if not row_of(begin):
            found = self._register.between(number_of(begin), last)
            return [file for file in found if file.number not in self._register.replaced]
        return list(self._sample(last, end - begin))

    def batch_end(self, first: int, end: int) -> int:
        """The number behind the files of the next batch, which begins with this one.

        Raises FilesGone, Stopped, CheckpointMismatch where some were archived from this number on before this run began, OSError where the archive does not answer.
        """
        self._was_given(first)
        self._require_unread(first)
        if first > self._begun:
            # What a store has taken stays; in a folder the newest batch may have to be written again, from its files.
            self._begun, self._done = first, first if self._root.remote else self._begun
        self._move_old()
        end = min(end, first + self._chosen.max_files_a_batch)
        files = self._register.between(first, end)
        held = list(accumulate(file.size for file in files))
        # The first one in any case.
        within = max(1, bisect_right(held, self._chosen.max_bytes_a_batch))
        # One that is asked for once more did not come about.
        refused = files[:within] if self._asked in (None, first) else []
        self._asked = first
        end = self._there(files[:within], min(end, first + within), refused)
        self._was_given(end)
        return end

    def archives_to(self, place: Files, reads_again: Callable[[], bool] = lambda: False) -> None:
        """Have files moved there once they are old enough, and a batch behind theirs is finished, too: the newest one may be written again.

        reads_again  whether what was read, and moved, before this pipeline's checkpoint began is read again
        """
        self._archive, self._reads_again = Archive(place, self._register.id), reads_again

    def _require_unread(self, first: int) -> None:
        """By the first batch alone, which holds the lease: beside a living run its log and its archive are of two moments."""
        archive = self._archive
        if archive is None or self._asked is not None:
            return
        # What reads all again goes on before what was moved, yet knows of all of it.
        known = self._register.next_number if self._reads_again() else first
        self._waits.answer(lambda: archive.require_unread(known, self._folder), [archive.files])

    def _move_old(self) -> None:
        if self._archive is None:
            return
        # By some numbers nothing was read: what has one of them waits for the next look.
        done = [
            one for one in self._looking.old if one[0] < self._done and not self._register.is_nobodys(one[0])
        ]
        later = [one for one in self._looking.old if one[0] >= self._done]
        left = self._archive.move(self._folder, [*done, *self._just_read()], self._waits.stop)
        # A run to an end may look but once. What are too many to be held is found by the look of another run.
        self._looking.old = [*left, *later][:_LOOKED_THROUGH]

    def _just_read(self) -> Iterator[tuple[int, Info]]:
        """Those that this run has read and no look has found since, where they are old enough and a batch has them for good."""
        first = self._begun if self._moved is None else self._moved
        self._moved = max(first, self._done)
        oldest = (self._looking.now() - self._chosen.archive_after) * 1000
        for file in self._register.between(first, self._done) if first < self._done else ():
            taken = file.kind == "new" and file.number not in self._register.replaced
            if taken and file.modified <= oldest:
                yield file.number, Info(file.path, file.size, file.tag, file.modified)

    def _there(self, files: Sequence[Landed], end: int, doubtful: Sequence[Landed]) -> int:
        """Where a batch ends whose files are looked at once more: those that changed are registered anew, those that are being written to wait.

        So do those that cannot be read, of the doubtful ones and of those that could not be before. Raises FilesGone, and Stopped where the run is to end.
        """
        changed = self._changed(files)
        if changed:
            self._looking.look(self._given, {file.number for file in changed})
            if self._waits.stop.is_set():
                # The look may have ended before it came to where they are now.
                raise Stopped
            changed = [file for file in self._changed(changed) if not self._register.is_nobodys(file.number)]
        infos = {file.number: self._info_of(file) for file in changed}
        gone = [file for file in changed if infos[file.number] is None]
        if gone:
            require_told(self._folder, gone, self._archive, told=self.landing.skips_gone)
            # What is only told of, as it was rewritten, is told so whether it is there or not.
            lost = [file for file in gone if file.kind == "new"]
            if lost and not self._looking.lose(lost):
                # What another run registered may be where they are now.
                return self._there(files, end, doubtful)
        # One that will not be taken, such as one that was emptied, is not waited for.
        waits = [
            file
            for file in changed
            if (info := infos[file.number]) is not None and self._looking.is_settling(info)
        ]
        apart = {file.number: file for file in [*waits, *self._unreadable(files, doubtful)]}
        waits = [apart[number] for number in sorted(apart)]
        if not waits or (self._holds_up(waits, files, end) and self._looking.postpone(waits)):
            return end
        return waits[0].number

    def _unreadable(self, files: Sequence[Landed], doubtful: Sequence[Landed]) -> list[Landed]:
        """Those that are there as they were registered, and cannot be read."""
        known = {file.number for file in doubtful}
        tried = [
            file
            for file in files
            if (file.number in known or file.path in self._looking.refused.paths)
            and file.kind == "new"
            and file.number not in self._register.replaced
        ]
        return self._looking.unreadable(tried)

    def _holds_up(self, waits: Sequence[Landed], files: Sequence[Landed], end: int) -> bool:
        """Whether others could be read that come behind those that wait, in their batch or in a later one: they may wait for long."""
        waiting = {one.number for one in waits}
        beside = (one for one in files if one.number > waits[0].number and one.number not in waiting)
        if any(one.number not in self._register.replaced for one in beside):
            return True
        return any(map(self._may_be_read, self._behind(end)))

    def _behind(self, number: int) -> Iterator[Landed]:
        """The registered files from this one on that are to be read."""
        end = self._register.next_number
        for first in range(number, end, _LOOKED_THROUGH):
            for file in self._register.between(first, min(first + _LOOKED_THROUGH, end)):
                if file.number not in self._register.replaced:
                    yield file

    def _may_be_read(self, file: Landed) -> bool:
        """Whether a file neither is one that could not be read before nor is being written to."""
        if file.path in self._looking.refused.paths:
            return False
        try:
            info = self._folder.info(file.path) if self._chosen.settle else None
        except PermissionError as error:
            self._looking.refused.add(file.path, error)
            return False
        return info is None or not self._looking.is_settling(info)

    def _changed(self, files: Sequence[Landed]) -> list[Landed]:
        """Those that are not as they were registered, as far as they may be asked about."""
        with ThreadPoolExecutor(_THREADS_IN_STORES if self._folder.remote else 1) as pool:
            changed = list(pool.map(self._has_changed, files))
        return [file for file, is_other in zip(files, changed, strict=True) if is_other]

    def _has_changed(self, file: Landed) -> bool:
        return not is_as_registered(file, self._info_of(file))

    def _info_of(self, file: Landed) -> Info | None:
        """What a file is now; what it was when it was registered where that may not be asked."""
        try:
            return self._folder.info(file.path)
        except PermissionError as error:
            # Who may not read one is not told of it either, in most stores: it is tried with those that cannot be read.
            self._looking.refused.add(file.path, error)
            return Info(file.path, file.size, file.tag, file.modified)

    def _sample(self, end: int, count: int) -> Iterator[Landed]:
        """The newest files, as many as there are to be records, yet few bytes."""
        held = 0
        for file in reversed(self.files_in(first_offset(max(0, end - count)), first_offset(end))):
            yield file
            held += file.size
            if held > _SAMPLE_BYTES:
                return

    def _was_given(self, number: int) -> None:
        self._given = max(self._given or 0, number)

    def _ends(self) -> Positions:
        return {self.topic: {0: first_offset(self._register.next_number)}}


@contextmanager
def open_landing(  # noqa: PLR0913 - one value each of what a folder is opened with
    source: Source,
    chosen: FilesSource,
    root: Files,
    storage: StorageOptions,
    *,
    pipeline: str | None = None,
    archives: bool = True,
    reads_again: Callable[[], bool] = lambda: False,
    waits: Waits | None = None,
) -> Iterator[LandingFolder]:
    """The folder that files land in, until the block ends. Raises what LandingFolder does.

    Without `archives` nothing is moved: whoever tries something leaves files to those who read them in earnest.
    """
    folder = open_files(chosen.path, storage)
    skips_gone = source.on_data_loss == "record"
    found = LandingFolder(folder, root, chosen, skips_gone=skips_gone, pipeline=pipeline, waits=waits)
    if archives and chosen.archive_to is not None:
        found.archives_to(open_files(chosen.archive_to, storage), reads_again)
    yield found
