from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.settings.test_model import SMALL, problems, settings_from

from distributary.ingest.settings.erased.given import Erased


def test_what_was_erased_is_told_by_conditions_and_by_keys(tmp_path: Path) -> None:
    text = f'{SMALL}\nerased: ["player.id = 7", {{key: p7}}, "name = \'x\'"]\n'
    book = settings_from(tmp_path, text).rule_book()
    assert [where for where, _ in book.asked()] == ["erased[0]", "erased[2]"]
    assert book.erased == Erased({"erased[0]": "player.id = 7", "erased[2]": "name = 'x'"}, frozenset(["p7"]))
    assert book.erased.keys == [b"p7"]
    assert Erased.of(["a", "b"], ["k"]).conditions == ["a", "b"]


@pytest.mark.parametrize("wrong", ['{key: ""}', "{keys: p7}", "{}", '""'])
def test_what_is_neither_is_refused(tmp_path: Path, wrong: str) -> None:
    assert any("erased" in one for one in problems(tmp_path, f"{SMALL}\nerased: [{wrong}]\n"))
