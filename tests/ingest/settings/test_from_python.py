"""Settings that a program gives: as a text, as a mapping, and for one pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from distributary.errors import ConfigError
from distributary.ingest.settings.model import Settings

TEXT = """\
name: games
source:
  kafka: {bootstrap.servers: "127.0.0.1:9092"}
  topics: [game-events]
registry: {url: "http://127.0.0.1:8081"}
route: {by: field, field: game_name, table: "{entity}"}
sink: {root: ./lake}
"""


def given(**more: Any) -> dict[str, Any]:
    return {**yaml.safe_load(TEXT), **more}


def test_a_file_a_text_and_a_mapping_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "games.yaml"
    file.write_text(TEXT, encoding="utf-8")
    expected = Settings.from_file(file)
    assert Settings.from_file(str(file)) == expected
    assert Settings.from_yaml(TEXT, tmp_path) == expected
    assert Settings.from_dict(given(), tmp_path) == expected
    assert expected.sink.root.path == tmp_path / "lake"


def test_relative_paths_are_below_the_working_folder_unless_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.from_yaml(TEXT).sink.root.path == tmp_path / "lake"


def test_a_text_is_filled_in_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPIC", "events")
    assert Settings.from_yaml(TEXT.replace("game-events", '"${TOPIC}"')).source.topics == ("events",)


def test_a_mapping_holds_values_as_they_are() -> None:
    url = {"url": "http://127.0.0.1:8081", "user": "ann", "password": "${not a variable}"}
    settings = Settings.from_dict(given(registry=url))
    assert str(settings.registry.password) == "${not a variable}"
    assert "not a variable" not in repr(settings) + str(settings.effective())


def test_a_mistake_in_a_text_is_told_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"settings:7:1: sinks: .*did you mean sink\?"):
        Settings.from_yaml(TEXT.replace("sink:", "sinks:"))


def test_all_mistakes_in_a_mapping_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        Settings.from_dict({"source": {"topics": []}, "named": "games"})
    said = str(raised.value).splitlines()
    assert said[0] == f"{len(said) - 1} settings cannot work:"
    assert "  settings: named: no setting is called so; did you mean name?" in said
    assert "  settings: source.topics: write at least 1 of them" in said


def test_settings_for_one_pass_differ_in_nothing_else() -> None:
    settings = Settings.from_dict(given(trigger={"interval_seconds": 5}))
    once = settings.once()
    assert (once.trigger.available_now, settings.trigger.available_now) == (True, False)
    assert once.model_copy(update={"trigger": settings.trigger}) == settings


def test_a_mapping_that_holds_itself_is_refused() -> None:
    around = given()
    around["source"]["again"] = [around]
    with pytest.raises(ConfigError, match="holds itself"):
        Settings.from_dict(around)


def test_masked_settings_are_refused_where_they_hold_a_mask() -> None:
    registry = {"url": "http://127.0.0.1:8081", "user": "ann", "password": "so"}
    kafka = {"bootstrap.servers": "127.0.0.1:9092", "ssl.truststore.password": "so"}
    shown = Settings.from_dict(given(registry=registry, source={"kafka": kafka, "topics": ["t"]})).effective()
    with pytest.raises(ConfigError) as caught:
        Settings.from_dict(shown)
    for name in ("source.kafka.ssl.truststore.password", "registry.password"):
        assert f"settings: {name}: ********** is only shown in place of a secret" in str(caught.value)
