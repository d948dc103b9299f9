"""Records kept as they came go with the rows that were erased, and with no others."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier

import numpy as np
import pyarrow as pa

from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.erasure.kept import AsTheyCame
from distributary.ingest.erasure.record import PURGED, Gone, all_erased, all_gone, keep
from distributary.ingest.quarantine.rows import TEXT
from distributary.ingest.replay.of_bronze import without_resolved
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import PosixFiles

ROWS = pa.table(
    {
        "kafka_topic": ["t"] * 6,
        "kafka_partition": pa.array([0] * 6, pa.int32()),
        "kafka_offset": list(range(6)),
        "kafka_ts": pa.array([None, *range(5)], pa.timestamp("us", "UTC")),
        "kafka_key": pa.array([b"k"] * 6),
    }
)


def kept(root: Files, name: str, table: str, offset: int, **more: bool) -> None:
    told = {"pipeline": "games", "id": name[0], "table": table, "gone": gone(offset).to_json()}
    keep(root, name, {**told, **more})


def gone(offset: int) -> Gone:
    return Gone.of(ROWS.slice(offset, 1).drop_columns(["kafka_key"]))


def meant(root: Files, rows: pa.Table = ROWS) -> list[int]:
    (batch,) = rows.combine_chunks().to_batches()
    which = AsTheyCame.of(root, Whose.of("games"), frozenset()).rows(lambda _: None)
    return list(np.flatnonzero(which.met(batch)))


def test_what_was_only_deleted_from_quarantine_stays(tmp_path: Path) -> None:
    """Most of it was brought back, and has a row in a table: that goes by nobody's wish."""
    root = files_at(tmp_path)
    kept(root, "a-00000", "quarantine", 0, **{PURGED: True})
    kept(root, "b-00000", "quarantine", 1, **{PURGED: False})
    kept(root, "b-00001", "golf", 2, **{PURGED: False})
    assert meant(root) == [1, 2]


def test_earlier_versions_did_not_say_which_it_was(tmp_path: Path) -> None:
    root = files_at(tmp_path)
    kept(root, "a-00000", "quarantine", 0)
    kept(root, "b-00000", "quarantine", 1)
    kept(root, "b-00001", "golf", 2)
    kept(root, "c-00000", "chess", 3)
    keep(root, "b", {"pipeline": "games", "id": "b", "where": "a digest"})
    assert meant(root) == [1, 2, 3]


def test_records_of_a_topic_that_was_made_anew_stay_where_others_at_their_offsets_were_erased(
    tmp_path: Path,
) -> None:
    root = files_at(tmp_path)
    for offset in (0, 3):
        kept(root, f"a-{offset:05}", "golf", offset, **{PURGED: False})
    later = pa.array([7] * 6, pa.timestamp("us", "UTC"))
    anew = ROWS.set_column(ROWS.schema.get_field_index("kafka_ts"), "kafka_ts", later)
    assert (meant(root), meant(root, anew)) == ([0, 3], [])
    assert meant(root, pa.concat_tables([anew, ROWS])) == [6, 9]


def test_earlier_versions_kept_no_times_of_records(tmp_path: Path) -> None:
    root = files_at(tmp_path)
    ((*part, text, _, _),) = gone(3).to_json()
    told = {"pipeline": "games", "id": "a", "table": "golf", "gone": [[*part, text]]}
    keep(root, "a-00000", told)
    assert meant(root) == [3]


def test_what_was_brought_back_and_then_deleted_from_quarantine_may_be_refused_there_again() -> None:
    done = pa.array(["g/3/t/0/5", "g/4/t/0/6"], TEXT)
    places = {("t", 0): np.array([5, 6])}
    (found,) = without_resolved(("g", 3, "t", 0), places, done).values()
    assert found.tolist() == [6]
    assert without_resolved(("g", 3, "t", 0), {("t", 0): np.array([5])}, done) == {}


class Far(PosixFiles):
    """A place where each file takes its time: as long as it takes until several are asked for."""

    remote = True

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.together = Barrier(4, timeout=30)

    def read(self, path: str) -> bytes:
        """As everywhere, then."""
        self.together.wait()
        return super().read(path)


def test_of_a_place_far_away_several_are_read_at_once(tmp_path: Path) -> None:
    for number in range(8):
        kept(files_at(tmp_path), f"{number}-00000", "golf", number % 6)
    assert len(list(all_gone(Far(str(tmp_path)), Whose.of("games")))) == 8
    assert len(list(all_erased(Far(str(tmp_path)), Whose.of("games")))) == 8
