from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ingest.batches import decided, demuxed, generation, settled
from tests.ingest.kafka_records import PINNED, TOPIC, folder, numbered, pins, rows_of, value

from distributary.ingest import pins as reasons
from distributary.ingest.checkpoint import manifest_pins as decisions
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifest_file import from_bytes, to_bytes
from distributary.ingest.pins import Pins, RecordKey, Verdict
from distributary.ingest.settings.groups import NamedTable, Policies
from distributary.ingest.tables.ledger import QUARANTINE_TABLE
from distributary.ingest.worker.report import TaskReport
from distributary.producer_sim.formats.corruption import framed

VALUES = st.sampled_from(
    [
        value(1, game_name="golf", score=1),
        value(2, game_name="golf", season="s"),
        value(3, game_name="Quest!"),
        value(1, game_name="denied"),
        value(2, score=3),
        framed(99, b""),
        framed(98, b""),
        b"\x7f",
        None,
    ]
)


def contents(by: Pins, report: TaskReport) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table; in the quarantine without what differs from pass to pass."""
    tables = {written.file.table for written in report.files}
    return {table: rows_of(by, report, table) for table in tables}


@given(
    st.lists(VALUES, min_size=1, max_size=12),
    st.booleans(),
    st.sets(st.integers(0, 11), max_size=2),
    st.integers(0, 4),
    st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_a_batch_is_written_again_just_the_same_from_its_manifest(
    values: list[bytes | None], named: bool, rejected: set[int], already: int, grow: bool
) -> None:
    """Even by a worker that by then knows more schemas and more tables."""
    with TemporaryDirectory() as name:
        root, records = Path(name), numbered(values)
        changes: dict[str, Any] = {
            "records": PINNED[:2],
            "refused": {(99, (0,)): reasons.unknown_schema(99)},
            "denied": frozenset({folder("denied")}),
            "rejected": {(TOPIC, 0, offset): Verdict("constraint", "x") for offset in rejected},
            "already": {folder("golf"): {TOPIC: {0: already}}, QUARANTINE_TABLE: {TOPIC: {0: already}}},
            "policies": Policies(no_entity=NamedTable(table="strays") if named else "quarantine"),
            "grow": grow,
        }
        first = settled(root, records, **changes)
        manifest = from_bytes(to_bytes(decided(root, first, {TOPIC: {0: (0, len(records))}})))
        later = pins(root, policies=first.pins.policies, batch_id=99, generation=generation(root).id)
        again = decisions.from_manifest(manifest, later)
        report = demuxed(again, records)
        assert contents(again, report) == contents(first.pins, first.report)
        assert (report.rows, report.quarantined) == (first.report.rows, first.report.quarantined)
        assert not report.aside_rows


def test_decisions_in_memory_are_read_like_those_from_a_file(tmp_path: Path) -> None:
    changes = {"already": {"t": {TOPIC: {0: 5}}}, "rejected": {(TOPIC, 0, 1): Verdict("constraint", "x")}}
    whole = settled(tmp_path, numbered([value(1, game_name="golf")]), **changes)
    manifest: Manifest = decided(tmp_path, whole, {TOPIC: {0: (0, 1)}})
    for one in (manifest, from_bytes(to_bytes(manifest))):
        again = decisions.from_manifest(one, pins(tmp_path))
        assert again.already == changes["already"]
        assert again.rejected == changes["rejected"]
        assert (again.batch_id, again.generation) == (whole.pins.batch_id, whole.pins.generation)


def test_refused_types_are_written_in_an_order_of_their_own() -> None:
    keys: list[RecordKey] = [("b", ()), (10, (1,)), (10, (0,)), ("a", ())]
    refused = {key: Verdict("r", "") for key in keys}
    assert [key for key, _ in decisions.sorted_refused(refused)] == [
        (10, (0,)),
        (10, (1,)),
        ("a", ()),
        ("b", ()),
    ]
