"""`--env` and `--debug-suffix`, on every command that reads a pipeline's file for once in another way."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import typer.main

from distributary import cli
from distributary.ingest.settings.filling_in.switches import VARIABLE

SETTINGS = """
name: games
source: {kafka: {bootstrap.servers: "127.0.0.1:1"}, topics: [game-events]}
registry: {url: "http://127.0.0.1:1", user: ann, password: "${command:touch ran}"}
route: {field: game_name}
sink: {root: "./{env}/lake"}
"""


def options_of(command: object, name: str) -> dict[str, set[str]]:
    """The options of each command, by its whole name."""
    found = {name: {option for one in getattr(command, "params", ()) for option in one.opts}}
    for below, inner in getattr(command, "commands", {}).items():
        found |= options_of(inner, f"{name} {below}")
    return found


def test_every_command_that_takes_settings_for_once_takes_both() -> None:
    found = options_of(typer.main.get_command(cli.app), "distributary")
    taking = {name for name, options in found.items() if "--set" in options}
    assert {"distributary run", "distributary settings check", "distributary graph"} <= taking
    assert not {name for name in taking if not {"--env", "--debug-suffix"} <= found[name]}


def checked(file: Path, *options: str) -> dict[str, object]:
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as ended:
        cli.main(["settings", "check", str(file), "--json", *options])
    assert ended.value.code == 0
    found: dict[str, object] = json.loads(out.getvalue())
    return found


def test_a_file_is_read_for_an_environment_and_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "games.yaml"
    file.write_text(SETTINGS, encoding="utf-8")
    found = checked(file, "--env", "dev", "--debug-suffix", "_debug", "--set", "limits.batch_rows=7")
    assert (found["env"], found["debug_suffix"]) == ("dev", "_debug")
    assert found["sink"]["root"] == f"{tmp_path}/dev/lake_debug"  # type: ignore[index]
    assert found["limits"]["batch_rows"] == 7  # type: ignore[index]
    monkeypatch.setenv(VARIABLE, "test")
    assert checked(file)["env"] == "test"
    # What a file names is run by nobody who only checks it.
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["settings", "check", "--debug-suffix", ""],
        ["settings", "check", "--env", ""],
        ["graph", "--debug-suffix", ""],
        ["run", "--until", ""],
        ["run", "--until", " "],
        ["run", "--until", "null"],
    ],
)
def test_a_variable_of_the_shell_that_is_empty_is_refused(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def go_on(*_: object) -> None:
        raise AssertionError("the pipeline would run without an end")

    monkeypatch.setattr("distributary.ingest.lease.holding.looked_for", go_on)
    file = tmp_path / "games.yaml"
    file.write_text(SETTINGS.replace("${command:touch ran}", "${NONE:-x}"), encoding="utf-8")
    *command, option, value = words
    with pytest.raises(SystemExit) as ended:
        cli.main([*command, str(file), "--set", "env=dev", option, value])
    assert ended.value.code == 2
    assert f"error: {option} is empty; " in capsys.readouterr().err


def test_a_bound_that_is_none_is_told_as_of_until(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "games.yaml"
    file.write_text(SETTINGS.replace("${command:touch ran}", "${NONE:-x}"), encoding="utf-8")
    with pytest.raises(SystemExit):
        cli.main(["run", str(file), "--env", "dev", "--until", "garbage"])
    assert "error: --until: source.until: write a point in time" in capsys.readouterr().err
