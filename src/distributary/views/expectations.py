"""How often expectations were met, as lines and as JSON values."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distributary.ingest.quality.rates import Expected, Rate


def lines(pipeline: str, found: Sequence[Expected]) -> Iterator[str]:
    """For each expectation its sums, and below these one line for each day that batches ended on, in UTC."""
    if not found:
        yield one_line(f"{pipeline}: the ledger tells of no expectation yet (`tables[].expect`)")
    for one in found:
        yield one_line(f"{one.table}: {one.name}: {_told(one.met, one.not_met)}")
        for day, rates in groupby(one.rates, key=lambda rate: rate.ended_at.date()):
            its = list(rates)
            yield f"  {day}  {_told(sum(rate.met for rate in its), sum(rate.not_met for rate in its))}"


def values(pipeline: str, found: Sequence[Expected]) -> dict[str, Any]:
    """The same for programs, batch by batch."""
    return {
        "pipeline": pipeline,
        "expectations": [
            {
                "table": one.table,
                "name": one.name,
                **_counts(one.met, one.not_met),
                "batches": [_batch(rate) for rate in one.rates],
            }
            for one in found
        ],
    }


def _batch(rate: Rate) -> dict[str, Any]:
    return {
        "generation": rate.generation,
        "first_batch": rate.first_batch,
        "last_batch": rate.last_batch,
        "ended_at": rate.ended_at.isoformat(),
        **_counts(rate.met, rate.not_met),
    }


def _counts(met: int, not_met: int) -> dict[str, Any]:
    rate = met / (met + not_met) if met + not_met else None
    return {"met": met, "not_met": not_met, "pass_rate": rate}


def _told(met: int, not_met: int) -> str:
    whole = met + not_met
    if not whole:
        return "no records"
    # What is not quite all of them is never told as all.
    hundredths = met * 10_000 // whole
    return f"{hundredths / 100:.2f} % of {whole:,} records, {not_met:,} not met"
