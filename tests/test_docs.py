"""What the documentation says can be done: every command exists and takes the options shown, every link leads somewhere."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from distributary.cli import app
from distributary.ingest.settings.model import Settings, load
from distributary.producer_sim.traffic.simulation import Simulation

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SHOWN = re.compile(r"^ {4}(?:\$ )?(distributary .*)$", re.MULTILINE)
NAMED = re.compile(r"`(distributary [^`]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def found(pattern: re.Pattern[str]) -> list[Any]:
    return [
        pytest.param(command, id=f"{page.relative_to(ROOT)}: {command}")
        for page in PAGES
        for command in dict.fromkeys(pattern.findall(page.read_text(encoding="utf-8")))
    ]


@cache
def commands() -> Any:
    """All of them; to make them of their functions takes longer than to read what a page shows."""
    return typer.main.get_command(app)


@cache
def commands_without_work() -> Any:
    """The same with every callback replaced, so that they only read their arguments."""
    made = left = [typer.main.get_command(app)]
    while left:
        left = [each for command in left for each in getattr(command, "commands", {}).values()]
        made = [*made, *left]
    for command in made:
        command.callback = lambda **_: None
    return made[0]


def alternatives(text: str) -> list[list[str]]:
    """`stack up|down` as both commands it stands for."""
    ways: list[list[str]] = [[]]
    for word in shlex.split(text, comments=True)[1:]:
        ways = [[*way, choice] for way in ways for choice in word.split("|")]
    return ways


def unknown_words(words: list[str]) -> list[str]:
    """The words that are no command and no option where they stand; arguments in capitals are placeholders."""
    command = commands()
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    is_group = hasattr(command, "commands")
    return [word for word in words if word not in options and (is_group or word.startswith("-"))]


@pytest.mark.parametrize("command", found(SHOWN))
def test_a_command_shown_in_the_docs_can_be_typed(command: str) -> None:
    commands_without_work().main(shlex.split(command, comments=True)[1:], standalone_mode=False)


@pytest.mark.parametrize("command", found(NAMED))
def test_a_command_named_in_the_docs_exists(command: str) -> None:
    assert [word for way in alternatives(command) for word in unknown_words(way)] == []


@pytest.mark.parametrize(
    ("command", "unknown"),
    [
        ("distributary stack up|sideways", ["sideways"]),
        ("distributary stack up --nope", ["--nope"]),
        ("distributary nonsense", ["nonsense"]),
        ("distributary --help", []),
    ],
)
def test_a_command_that_does_not_exist_is_found(command: str, unknown: list[str]) -> None:
    assert [word for way in alternatives(command) for word in unknown_words(way)] == unknown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in targets if not (page.parent / link).exists()] == []


def test_each_page_is_found_from_the_documentation_s_first_one() -> None:
    docs = ROOT / "docs"
    linked = {
        (docs / link).resolve() for link in LINK.findall((docs / "README.md").read_text(encoding="utf-8"))
    }
    pages = {page for page in PAGES if docs in page.parents and page.parent.name != "adr"}
    missing = pages - linked - {docs / "README.md"}
    assert not {str(page.relative_to(docs)) for page in missing}, "give each a line in docs/README.md"


def blocks_shown() -> list[tuple[Path, str]]:
    return [
        (page, block)
        for page in PAGES
        for block in re.findall(
            r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
    ]


def settings_shown() -> list[Any]:
    return [
        pytest.param(block, id=str(page.relative_to(ROOT)))
        for page, block in blocks_shown()
        if set(Settings.model_fields) >= {"name", "source"} <= set(yaml.safe_load(block))
    ]


def simulations_shown() -> list[Any]:
    return [
        pytest.param(block, id=str(page.relative_to(ROOT)))
        for page, block in blocks_shown()
        if set(Simulation.model_fields) >= set(yaml.safe_load(block))
    ]


@pytest.mark.parametrize("text", settings_shown())
def test_a_whole_settings_file_shown_in_the_docs_can_run(text: str, tmp_path: Path) -> None:
    file = tmp_path / "shown.yaml"
    file.write_text(text, encoding="utf-8")
    assert load(file).name == yaml.safe_load(text)["name"]


PIPELINE = """
name: games
source: {kafka: {bootstrap.servers: "127.0.0.1:9092"}, topics: [game-events]}
registry: {url: "http://127.0.0.1:8081"}
decode: {format: auto}
route: {by: header, header: region}
sink: {root: ./lake}
"""


@pytest.mark.parametrize("text", simulations_shown())
def test_a_simulation_shown_in_the_docs_can_be_sent(text: str, tmp_path: Path) -> None:
    by_game = PIPELINE.replace("by: header, header: region", "field: game_name")
    (tmp_path / "games.yaml").write_text(PIPELINE if "region" in text else by_game, encoding="utf-8")
    file = tmp_path / "shown.yaml"
    file.write_text(text, encoding="utf-8")
    assert Simulation.from_file(file).total > 0
