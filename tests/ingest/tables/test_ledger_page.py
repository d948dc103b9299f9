"""The reference page of quarantine and ledger tells of every column and every reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.codecs import reasons as codec_reasons
from distributary.ingest import pins as reasons
from distributary.ingest.tables.ledger import BATCHES_SCHEMA, CHANGES_SCHEMA, QUARANTINE_SCHEMA

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "reference/quarantine-and-ledger.md").read_text(encoding="utf-8")
CHANGES = (DOCS / "how-to/schema-evolution.md").read_text(encoding="utf-8")

# Of those that a policy may ask for; a field that a table lacks puts no record into quarantine.
BY_POLICY = ("incompatible_type", "wider_type")


def part(table: str) -> str:
    """What the page says of one table."""
    return next(text for text in PAGE.split("\n## ") if text.startswith(f"`{table}`"))


def rows(text: str) -> list[str]:
    """The first cells of its tables."""
    return [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("column", QUARANTINE_SCHEMA.names)
def test_every_column_of_the_quarantine_has_its_row(column: str) -> None:
    assert any(f"`{column}`" in cell for cell in rows(part("quarantine")))


@pytest.mark.parametrize("column", BATCHES_SCHEMA.names)
def test_every_column_of_a_batchs_row_has_its_row(column: str) -> None:
    assert any(f"`{column}`" in cell for cell in rows(part("ledger_batches")))


@pytest.mark.parametrize("column", CHANGES_SCHEMA.names)
def test_every_column_of_a_change_is_told(column: str) -> None:
    assert f"`{column}`" in part("ledger_changes") or any(f"`{column}`" in cell for cell in rows(CHANGES))


@pytest.mark.parametrize(
    "reason",
    [
        *codec_reasons.SENTENCES,
        *BY_POLICY,
        reasons.CONSTRAINT,
        reasons.SCHEMA_CHANGE,
        reasons.NO_ENTITY.reason,
        reasons.TABLE_LIMIT.reason,
        reasons.KILLED_WORKER.reason,
        reasons.UNKNOWN_SCHEMA,
        reasons.UNUSABLE_SCHEMA,
        reasons.unasked_schema(1).reason,
    ],
)
def test_every_reason_has_its_row(reason: str) -> None:
    _, _, told = part("quarantine").partition("### Reasons")
    assert any(f"`{reason}`" in cell for cell in rows(told))
