"""`distributary graph` of a pipeline that never ran: whom it asks for nothing, and where it writes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from distributary import cli

SETTINGS = """
name: games
source: {kafka: {bootstrap.servers: "127.0.0.1:1"}, topics: [game-events, late-events]}
registry: {url: "http://127.0.0.1:1"}
route: {field: game_name, table: "silver_{entity}"}
sink: {root: "./lake"}
policies: {no_entity: {table: nobodys}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "games.yaml"
    path.write_text(SETTINGS, encoding="utf-8")
    return path


def graph(*arguments: str | Path) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["graph", *map(str, arguments)])
    assert ended.value.code == 0


def test_what_never_ran_is_drawn_as_it_is_meant(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph(file, "--json")
    found = json.loads(capsys.readouterr().out)
    assert [(one["kind"], one["name"]) for one in found["nodes"]] == [
        ("topic", "game-events"),
        ("topic", "late-events"),
        ("registry", "schema registry"),
        ("pipeline", "games"),
        ("pattern", "silver_{entity}"),
        ("table", "nobodys"),
        ("quarantine", "quarantine"),
        ("ledger", "ledger_batches"),
        ("ledger", "ledger_changes"),
    ]
    assert {edge["count"] for edge in found["edges"]} == {None}
    assert not (file.parent / "lake").exists()


def test_a_picture_goes_into_a_file(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "games.svg"
    graph(file, "--format", "svg", "--output", picture)
    assert capsys.readouterr().out == ""
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")  # noqa: S314


def test_a_file_without_a_name_cannot_be_written(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["graph", str(file), "--output", ""])
    assert ended.value.code == 2
    assert (
        "error: --output . cannot be written (it has no name); name another file" in capsys.readouterr().err
    )
