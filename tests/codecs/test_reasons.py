"""The list of reason codes is closed, and documented."""

from __future__ import annotations

from pathlib import Path

from distributary.codecs import reasons

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "protobuf.md"


def test_every_code_has_a_sentence_and_a_line_in_the_reference() -> None:
    codes = {value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)}
    assert codes == set(reasons.SENTENCES)
    page = PAGE.read_text()
    assert all(f"| `{code}` |" in page for code in codes)
