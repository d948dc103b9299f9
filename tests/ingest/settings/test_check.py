"""What is said of a settings file's mistakes: what was meant, each of them once, and nothing that may be secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.settings.test_model import SECRET, SMALL, settings_from

from distributary.errors import ConfigError

EXPECTING = """
tables:
  - match: chess
    expect:
      sane level: {condition: "level < 100", otherwise: drop}
"""


def told(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        settings_from(folder, text)
    return str(raised.value).splitlines()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("otherwise:", "otherwise_:", "did you mean tables.expect.otherwise?"),
        ("otherwise:", "else:", "tables.expect knows: condition, otherwise"),
    ],
)
def test_below_a_name_of_the_users_own_it_is_told_what_there_is(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    (line,) = told(tmp_path, SMALL + EXPECTING.replace(old, new))
    assert f"tables[0].expect.sane level.{new} no setting is called so" in line
    assert line.endswith(expected)


@pytest.mark.parametrize("topics", ["[game events]", "[5]", "['/a(/']"])
def test_of_a_list_without_a_sound_item_it_is_not_said_that_it_has_none(tmp_path: Path, topics: str) -> None:
    text = SMALL.replace("topics: [game-events]", f"topics: {topics}")
    assert text != SMALL
    (line,) = told(tmp_path, text)
    assert "source.topics[0]: " in line


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("field: game_name", "field: [game_name]", "route.field: it must be one text, and no list"),
        ("[game-events]", "[[game-events]]", "source.topics[0]: it must be one text, and no list"),
        ('"silver_{entity}_events"', "{entity}", "route.table: it must be a text; put it in quotes"),
    ],
)
def test_a_list_is_not_to_be_put_in_quotes(tmp_path: Path, old: str, new: str, expected: str) -> None:
    (line,) = told(tmp_path, SMALL.replace(old, new))
    assert line.endswith(expected)


@pytest.mark.parametrize("value", [f'"{SECRET}"', f"'{SECRET}'", SECRET])
def test_a_blank_that_lacks_behind_a_colon_is_told_without_what_stands_there(
    tmp_path: Path, value: str
) -> None:
    (line,) = told(
        tmp_path,
        SMALL + f'storage: {{hdfs: {{dfs.namenode: "a:1", ssl.client.keystore.password:{value}}}}}\n',
    )
    assert "storage.hdfs.ssl.client.keystore.password: a blank is missing behind the colon" in line
    assert SECRET not in line
