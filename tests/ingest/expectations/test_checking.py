"""What becomes of records that do not meet what their table expects."""

from __future__ import annotations

import pyarrow as pa
import pytest

from distributary.ingest.expectations.checking import check
from distributary.ingest.expectations.given import Expectation, Otherwise
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal

ROWS = pa.RecordBatch.from_pydict(
    {"level": pa.array([1, 5, None, 9], pa.int32()), "name": ["a", None, "b", "c"]}
)

CONDITIONS = {
    "level < 6": ReadCondition(Call("<", (Field(("level",)), Literal(6)))),
    "name is not null": ReadCondition(Call("is not null", (Field(("name",)),))),
    "10 / (level - 5) > 0": ReadCondition(
        Call(">", (Call("/", (Literal(10), Call("-", (Field(("level",)), Literal(5))))), Literal(0)))
    ),
    "name > 1": ReadCondition(Call(">", (Field(("name",)), Literal(1)))),
}


def expecting(*given: tuple[str, Otherwise]) -> list[Expectation]:
    return [Expectation(f"e{n}", condition, otherwise) for n, (condition, otherwise) in enumerate(given)]


def test_a_condition_is_met_where_it_is_true_and_not_where_it_is_null() -> None:
    found = check(expecting(("level < 6", "drop")), CONDITIONS, ROWS)
    assert found.met["e0"].tolist() == [True, True, False, False]
    assert [one.rows.tolist() for one in found.unmet] == [[2, 3]]
    assert found.unmet[0].detail(2) == "expectation e0 is not met"


def test_what_is_only_warned_of_lands() -> None:
    found = check(expecting(("level < 6", "warn")), CONDITIONS, ROWS)
    assert found.unmet == []
    assert found.met["e0"].sum() == 2


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("drop", "quarantine"), [("quarantine", [1]), ("drop", [2, 3])]),
        (("quarantine", "drop"), [("quarantine", [2, 3]), ("drop", [1])]),
        (("quarantine", "fail"), [("fail", [1]), ("quarantine", [2, 3])]),
        (("drop", "warn"), [("drop", [2, 3])]),
    ],
)
def test_a_record_has_one_end_the_gravest(
    outcomes: tuple[Otherwise, Otherwise], expected: list[tuple[str, list[int]]]
) -> None:
    given = expecting(("level < 6", outcomes[0]), ("name is not null", outcomes[1]))
    found = check(given, CONDITIONS, ROWS)
    assert [(one.expectation.otherwise, one.rows.tolist()) for one in found.unmet] == expected
    # Each is counted by itself, whatever became of the record.
    assert {name: met.tolist() for name, met in found.met.items()} == {
        "e0": [True, True, False, False],
        "e1": [True, False, True, True],
    }


def test_one_that_meets_neither_of_two_is_in_one_place() -> None:
    given = expecting(("level < 6", "quarantine"), ("level < 6", "quarantine"))
    found = check(given, CONDITIONS, ROWS)
    assert [one.rows.tolist() for one in found.unmet] == [[2, 3]]


def test_what_fails_for_one_record_concerns_that_alone_and_says_why() -> None:
    found = check(expecting(("10 / (level - 5) > 0", "quarantine")), CONDITIONS, ROWS)
    (unmet,) = found.unmet
    assert unmet.rows.tolist() == [0, 1, 2]
    assert [unmet.detail(row) for row in (0, 1)] == [
        "expectation e0 is not met",
        "expectation e0 is not met: it divides by zero",
    ]


def test_types_that_do_not_go_with_it_are_told_of_every_record() -> None:
    (unmet,) = check(expecting(("name > 1", "quarantine")), CONDITIONS, ROWS).unmet
    assert unmet.rows.tolist() == [0, 1, 2, 3]
    assert "does not go with these records" in unmet.detail(3)
