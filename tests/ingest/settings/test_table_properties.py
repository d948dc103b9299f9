"""Properties of tables: those that this program can keep to are taken, of the others it is told why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.settings.test_model import SMALL, problems, settings_from

from distributary.ingest.settings.table_properties import known_properties

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/rules-a-table.md"


def with_property(text: str) -> str:
    return SMALL.replace("sink:\n", f"sink:\n  properties: {{{text}}}\n")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            "delta.checkpointIntervall: 3",
            "no property of Delta is called so; did you mean delta.checkpointInterval?",
        ),
        ("checkpointInterval: 3", "did you mean delta.checkpointInterval?"),
        ("delta.checkpointInterval: 0", "write a whole number of at least 1"),
        ("delta.appendOnly: sure", "write true or false"),
        ("delta.logRetentionDuration: 7 days", "write an interval without months, such as interval 7 days"),
        ("delta.logRetentionDuration: interval 2 months", "write an interval without months"),
        ("delta.logRetentionDuration: interval 5 nanoseconds", "write an interval without months"),
        ("delta.deletedFileRetentionDuration: interval 999999999 days", "at most a thousand years"),
        ("delta.targetFileSize: large", "write a size, such as 104857600 or 100mb"),
        ("delta.columnMapping.mode: name", "no table of ours gets it: files have columns by their names"),
        ("delta.constraints.x: level > 0", "rows that are there have to be checked for it"),
        ("delta.enableTypeWidening: true", "write policies.wider_type: widen"),
        ("delta.setTransactionRetentionDuration: interval 1 day", "would forget which batches are in it"),
        ("delta.feature.rowTracking: supported", "a table's protocol follows from what it uses"),
        ("DELTA.enableRowTracking: true", "rows would need what these appends do not write"),
        ("delta.somethingNew: 1", "this program knows no such property of Delta"),
        ("distributary.entity: chess", "these say whose the table is"),
        ("comment: hello", "write `comment:` beside `properties:`"),
        ("mine: [1]", "write a text, a number, true or false, or nothing to take the property away"),
    ],
)
def test_a_property_that_no_table_gets_is_told_with_the_reason(
    tmp_path: Path, given: str, expected: str
) -> None:
    (found,) = problems(tmp_path, with_property(given))
    line = SMALL[: SMALL.index("sink:")].count("\n") + 2
    assert found.startswith(f"{line}:")
    assert expected in found


def test_values_are_kept_as_delta_writes_them(tmp_path: Path) -> None:
    text = (
        "delta.appendOnly: true, delta.checkpointInterval: 50, delta.targetFileSize: 100mb, owner: games, gone:, "
        "delta.deletedFileRetentionDuration: interval 1 week 2 hours"
    )
    assert settings_from(tmp_path, with_property(text)).sink.properties == {
        "delta.appendOnly": "true",
        "delta.checkpointInterval": "50",
        "delta.targetFileSize": "100mb",
        "owner": "games",
        "gone": None,
        "delta.deletedFileRetentionDuration": "interval 1 week 2 hours",
    }


@pytest.mark.parametrize("name", known_properties())
def test_every_property_that_a_table_may_have_is_in_the_docs(name: str) -> None:
    assert f"| `{name}` |" in PAGE.read_text(encoding="utf-8")
