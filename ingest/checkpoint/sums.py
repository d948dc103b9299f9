"""Whether a manifest's numbers agree: what was read is what went into files, quarantine and counted drops."""

from __future__ import annotations

from collections.abc import Iterator

from distributary.errors import SumsDisagree
from distributary.ingest.bronze.rule import ALREADY
from distributary.ingest.checkpoint.manifest import Manifest, SpanRead


def check_sums(manifest: Manifest) -> None:
    """Raises SumsDisagree, with the numbers, unless every record read is in exactly one place."""
    found = [
        *_spans_out_of_range(manifest),
        *_tables_out_of_step(manifest),
        *_rows_astray(manifest),
        *_bronze_astray(manifest),
    ]
    if found:
        raise SumsDisagree(
            f"batch {manifest.batch_id}: the sums do not agree, so nothing of it was made visible:\n"
            + "\n".join(f"- {line}" for line in found)
            + "\nRun it again; if it happens again, this is a defect of distributary: keep the checkpoint and report it"
        )


def _spans_out_of_range(manifest: Manifest) -> Iterator[str]:
    for topic, spans in manifest.counts.read.items():
        for number, span in spans.items():
            planned = manifest.offsets.get(topic, {}).get(number)
            if planned is None:
                yield f"{topic}/{number}: {span.count} records were read, though the batch has no such partition"
            elif not _fits(span, *planned):
                yield (
                    f"{topic}/{number}: {span.count} records were read, the first at {span.first} and the last at "
                    f"{span.last}, though Spark planned the offsets from {planned[0]} to before {planned[1]}"
                )


def _fits(span: SpanRead, start: int, end: int) -> bool:
    if span.first is None or span.last is None:
        return span.count == 0 and span.first is span.last
    return start <= span.first <= span.last < end and 0 < span.count <= span.last - span.first + 1


def _tables_out_of_step(manifest: Manifest) -> Iterator[str]:
    counts = manifest.counts
    written: dict[str, int] = {}
    for table in manifest.tables:
        if table.role == "events":
            written[table.folder] = written.get(table.folder, 0) + table.rows
    for folder in sorted({*written, *counts.rows}):
        if written.get(folder, 0) != counts.rows.get(folder, 0):
            yield (
                f"table {folder}: its files hold {written.get(folder, 0)} rows, "
                f"the workers reported {counts.rows.get(folder, 0)}"
            )
    kept, said = _quarantine_rows(manifest), sum(counts.quarantined.values())
    if kept != said:
        yield f"the quarantine's files hold {kept} rows, the workers reported {said}"


def _bronze_astray(manifest: Manifest) -> Iterator[str]:
    """Every record read is kept as it came, where that is wanted: once, or an earlier checkpoint did so."""
    kept, wanted = manifest.counts.kept, manifest.pins.decisions.get("rules", {}).get("bronze")
    written = {table.folder: table.rows for table in manifest.tables if table.role == "bronze"}
    for folder in sorted({*written, *kept} - {ALREADY}):
        if written.get(folder, 0) != kept.get(folder, 0):
            yield (
                f"table {folder}: its files hold {written.get(folder, 0)} records as they came, the workers reported {kept.get(folder, 0)}"
            )
    if wanted and sum(kept.values()) != manifest.counts.total_read:
        yield f"{manifest.counts.total_read} records were read, and {sum(kept.values())} were kept as they came"


def _quarantine_rows(manifest: Manifest) -> int:
    return sum(table.rows for table in manifest.tables if table.role == "quarantine")


def _rows_astray(manifest: Manifest) -> Iterator[str]:
    counts = manifest.counts
    places = {
        "in tables": sum(counts.rows.values()),
        "in quarantine": sum(counts.quarantined.values()),
        "dropped": sum(counts.dropped.values()),
        "there already": counts.already,
    }
    if counts.total_read != sum(places.values()):
        account = ", ".join(f"{rows} {place}" for place, rows in places.items())
        yield f"{counts.total_read} records were read, {sum(places.values())} are accounted for: {account}"
    negative = [place for place, rows in places.items() if rows < 0]
    if negative:
        yield f"a count is negative: {', '.join(negative)}"
