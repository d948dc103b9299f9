"""Small files that are looked up in, read without a session."""

from __future__ import annotations

from pathlib import Path

from distributary.ingest.derivation.beside import Static
from distributary.ingest.derived.lookups import Lookup, lookups
from distributary.ingest.storage.options import StorageOptions


def test_a_line_may_end_within_quotes_wherever_in_a_file(tmp_path: Path) -> None:
    """Arrow reads a file by pieces of a megabyte, and took a line that ends within quotes at the end of one for the end of a row."""
    path = tmp_path / "devices.csv"
    text = "first\n" * 40
    path.write_text("device,about\n" + "".join(f'{number},"{text}"\n' for number in range(10_000)))
    found = lookups({"devices": Static.model_validate({"path": str(path)})}, StorageOptions())["devices"]
    assert isinstance(found, Lookup)
    assert found.table.num_rows == 10_000
    assert set(found.table["about"].to_pylist()) == {text}
