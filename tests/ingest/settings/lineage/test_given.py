"""What settings may say of where runs are told of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from distributary.errors import ConfigError
from distributary.ingest.settings.lineage.given import Lineage
from distributary.ingest.settings.model import Settings

SETTINGS = """
name: games
debug_suffix: {suffix}
source: {{kafka: {{bootstrap.servers: "127.0.0.1:9092"}}, topics: [events]}}
registry: {{url: "http://127.0.0.1:8081"}}
route: {{by: topic}}
sink: {{root: ./lake}}
lineage: {{{lineage}}}
"""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "write file or url, one of both"),
        ({"file": "a.jsonl", "url": "http://127.0.0.1:5000"}, "write file or url, one of both"),
        ({"file": "a.jsonl", "token": "abc"}, "a file takes no token"),
        ({"url": "marquez:5000"}, "no http or https address"),
        ({"url": "http://127.0.0.1:5000?key=abc"}, "no http or https address"),
        ({"url": "http://me:secret@127.0.0.1:5000"}, "write lineage.token"),
    ],
)
def test_what_does_not_go_together_is_told_without_what_may_be_secret(
    given: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValidationError, match=why) as raised:
        Lineage.model_validate(given)
    assert "secret" not in "".join(error["msg"] for error in raised.value.errors())


def test_a_token_is_never_written_into_a_file_or_shown(tmp_path: Path) -> None:
    text = SETTINGS.format(suffix="''", lineage='url: "http://127.0.0.1:5000/", token: "abc-def"')
    file = tmp_path / "games.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"lineage.token.*secrets come from the environment"):
        Settings.from_file(file, {})
    file.write_text(text.replace("abc-def", "${TOKEN}"))
    settings = Settings.from_file(file, {"TOKEN": "abc-def"})
    assert settings.lineage is not None
    assert (settings.lineage.url, settings.lineage.token) == ("http://127.0.0.1:5000", "abc-def")
    assert "abc-def" not in f"{settings!r}{settings.effective()}"


def test_a_trial_tells_into_a_file_of_its_own(tmp_path: Path) -> None:
    settings = Settings.from_yaml(SETTINGS.format(suffix="_debug", lineage="file: runs.jsonl"), tmp_path)
    assert settings.lineage is not None
    assert settings.lineage.file == str(tmp_path / "runs.jsonl_debug")


def test_what_a_path_asks_for_is_not_shown_as_it_may_be_a_key(tmp_path: Path) -> None:
    text = SETTINGS.format(suffix="''", lineage='url: "http://127.0.0.1:5000", endpoint: "api/v1?code=hush"')
    settings = Settings.from_yaml(text, tmp_path)
    assert settings.lineage is not None
    assert settings.lineage.endpoint == "api/v1?code=hush"
    assert settings.effective()["lineage"]["endpoint"] == "api/v1?**********"
    assert "hush" not in repr(settings)
