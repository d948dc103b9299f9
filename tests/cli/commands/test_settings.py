"""`distributary settings check` where some of what it looks at is no condition."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.commands.test_expectations import run, settings


def test_of_what_was_erased_conditions_are_read_at_their_lines_and_keys_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = settings(tmp_path, [])
    text = file.read_text(encoding="utf-8")
    file.write_text(f'{text}erased:\n- {{key: p7}}\n- "player.id = 7"\n', encoding="utf-8")
    assert run(capsys, "settings", "check", file)[0] == 0
    file.write_text(f'{text}erased:\n- {{key: p7}}\n- "player.id ="\n', encoding="utf-8")
    code, _, err = run(capsys, "settings", "check", file)
    assert code == 2
    assert f"{file}:{len(text.splitlines()) + 3}:" in err
