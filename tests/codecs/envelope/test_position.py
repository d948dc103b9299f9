from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.debezium import SOURCES, Row

from distributary.codecs.envelope.position import POSITION_FIELDS, position


def positions(*sources: Row) -> list[str | None]:
    def field(name: str) -> pa.StringArray:
        values = [None if (one := source.get(name)) is None else str(one) for source in sources]
        return pa.array(values, pa.string())

    assert set(POSITION_FIELDS) >= {"connector", "ts_ms"}
    found: list[str | None] = position(field).to_pylist()
    return found


@pytest.mark.parametrize("connector", SOURCES)
def test_later_changes_have_greater_texts(connector: str) -> None:
    found = positions(*(SOURCES[connector](at, "customers") for at in range(200)))
    assert None not in found
    assert len(set(found)) == len(found)
    assert found == sorted(found, key=str)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=5))
def test_positions_of_postgresql_compare_as_numbers(lsns: list[int]) -> None:
    found = positions(*({"connector": "postgresql", "lsn": lsn} for lsn in lsns))
    assert sorted(range(len(lsns)), key=lambda n: (lsns[n], n)) == sorted(
        range(len(lsns)), key=lambda n: (str(found[n]), n)
    )


@given(
    st.lists(
        st.tuples(st.integers(1, 2_000_000), st.integers(4, 2**32 - 1), st.integers(0, 5)),
        min_size=2,
        max_size=5,
    )
)
def test_positions_of_mysql_compare_by_the_files_number(places: list[tuple[int, int, int]]) -> None:
    sources = [
        {"connector": "mysql", "file": f"binlog.{file:06}", "pos": pos, "row": row}
        for file, pos, row in places
    ]
    found = positions(*sources)
    assert sorted(range(len(places)), key=lambda n: (places[n], n)) == sorted(
        range(len(places)), key=lambda n: (str(found[n]), n)
    )


def test_a_snapshots_read_of_sql_server_comes_before_what_its_transaction_changed() -> None:
    lsn = "00000027:00000758:0005"
    read = {"connector": "sqlserver", "commit_lsn": lsn, "change_lsn": None, "event_serial_no": None}
    change = {**read, "change_lsn": "00000027:00000758:0003", "event_serial_no": 1}
    later = {**change, "commit_lsn": "00000027:000007AA:0001"}
    found = positions(read, change, later)
    assert found == sorted(found, key=str)
    assert None not in found


def test_transactions_of_oracle_are_ordered_by_their_commits() -> None:
    first = {"connector": "oracle", "scn": "90", "commit_scn": "120"}
    second = {"connector": "oracle", "scn": "100", "commit_scn": "110"}
    read = {"connector": "oracle", "scn": "105", "commit_scn": None}
    assert sorted(positions(first, second, read), key=str) == positions(read, second, first)


@pytest.mark.parametrize(
    "source",
    [
        {"connector": "postgresql", "lsn": None},
        {"connector": "postgresql", "lsn": -1},
        {"connector": "postgresql", "lsn": "1" * 21},
        {"connector": "mysql", "file": "binlog", "pos": 4, "row": 0},
        {"connector": "mysql", "file": "binlog.000001", "pos": None, "row": 0},
        {"connector": "sqlserver", "commit_lsn": "NULL", "change_lsn": None},
        {"connector": "vitess", "ts_ms": None},
        {},
    ],
)
def test_a_source_that_lacks_its_position_has_none(source: Row) -> None:
    assert positions(source) == [None]
    assert positions(source, SOURCES["mongodb"](1, "customers"))[0] is None


def test_connectors_of_one_batch_each_have_their_own_and_unknown_ones_the_time() -> None:
    sources = [SOURCES[connector](3, "customers") for connector in SOURCES]
    unknown = {"connector": "vitess", "ts_ms": 1_700_000_000_000}
    alone = [positions(one)[0] for one in (*sources, unknown)]
    assert positions(*sources, unknown) == alone
    assert alone[-1] == "001700000000000:0000000000"
