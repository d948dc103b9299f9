from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typing_extensions import Self

from distributary import cli
from distributary.commands.demo import _alone, _as_dict, _demonstrate, _empty, _print, _tables
from distributary.errors import ConfigError, SetupError
from distributary.ingest.progress import Summary
from distributary.ingest.supervision.outcome import Restart
from distributary.producer_sim.demo.scenario import Demo, Demonstration, DemoTable, write_settings
from distributary.producer_sim.verify.verdict import TableCount, Verdict

OUTCOME = Demonstration(
    tables=(DemoTable("silver_golf_events", 12_345, 20, 23, (1, 2)),),
    restarts=(Restart(("schema 2 brings season",), 10.0, 11.5),),
    summary=Summary(batches=4, rows=20_000),
    seconds=2.0,
    quarantine={"malformed": 3, "bad_magic": 1},
    verdict=Verdict(
        (), (TableCount("silver_golf_events", 19_996, 23, (1, 2)),), 4, rows_dropped=0, batches=4, sent=20_000
    ),
)


def test_only_what_a_demonstration_left_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with _alone(folder):
        _empty(folder)
    (folder / "lake").mkdir()
    stack: Any = SimpleNamespace(bootstrap_servers="127.0.0.1:1", registry_url="http://127.0.0.1:1")
    write_settings(Demo(folder=folder), stack)
    _empty(folder)
    assert not list(folder.iterdir())
    (folder / "thesis.txt").touch()
    with pytest.raises(ConfigError, match="name another --folder"):
        _empty(folder)
    assert (folder / "thesis.txt").exists()


def test_a_version_without_a_record_would_show_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distributary.producer_sim.stack.local.LocalStack", None)
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", "--folder", str(tmp_path / "out"), "--events", "2", "--versions", "3"])
    assert ended.value.code == 2
    said = (
        "error: --events 2: each of 3 versions takes one at the least; write 3 or more, or fewer --versions\n"
    )
    assert capsys.readouterr().err == said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "left",
    [
        {"games.yaml": "name: games\nsink: {root: ./lake}\n", "lake": None, "checkpoints": None},
        {"lake": None, "checkpoints": None},
        {"truth.json": "{}"},
    ],
)
def test_somebodys_pipeline_is_left_alone_though_the_pages_call_its_files_so(
    left: dict[str, str | None], tmp_path: Path
) -> None:
    for name, text in left.items():
        if text is None:
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="name another --folder"):
        _empty(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == set(left)


def test_somebodys_folder_that_is_called_stack_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "stack" / "broker").mkdir(parents=True)
    (tmp_path / "stack" / "thesis.txt").touch()
    with pytest.raises(ConfigError, match="name another --folder"):
        _empty(tmp_path)
    assert (tmp_path / "stack" / "thesis.txt").exists()


def test_a_file_in_the_folders_place_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(ConfigError, match="is no folder"), _alone(tmp_path / "out"):
        raise AssertionError


def test_a_folder_in_which_another_demonstration_is_at_work_is_left_alone(tmp_path: Path) -> None:
    with _alone(tmp_path), pytest.raises(ConfigError, match="is at work in"), _alone(tmp_path):
        raise AssertionError
    with _alone(tmp_path):
        _empty(tmp_path)


def test_what_a_killed_demonstration_left_running_ends_before_its_folder_goes(tmp_path: Path) -> None:
    broker = tmp_path / "stack" / "broker"
    broker.mkdir(parents=True)
    mark = f"-Ddistributary.service={broker}"
    with subprocess.Popen([sys.executable, "-c", "input()", mark], stdin=subprocess.PIPE) as left:
        _empty(tmp_path)
        left.wait(30)
    assert not list(tmp_path.iterdir())


def test_the_present_folder_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stack").mkdir()
    _empty(Path())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("s3", [False, True])
def test_what_takes_seconds_is_told_as_it_begins(
    s3: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    class Stack:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __enter__(self) -> Self:
            told.append(capsys.readouterr().err)
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def no_spark(_: str) -> None:
        told.append(capsys.readouterr().err)
        raise SetupError("no Spark")

    monkeypatch.setattr("distributary.producer_sim.stack.local.LocalStack", Stack)
    monkeypatch.setattr("distributary.ingest.spark.session.spark_session", no_spark)
    for silent in (False, True):
        with pytest.raises(SetupError):
            _demonstrate(Demo(folder=tmp_path, s3=s3), silent)
    services = "starting a broker, a registry and a store\n" if s3 else "starting a broker and a registry\n"
    assert told == [services, "starting Spark\n", "", ""]


def test_the_tables_show_how_they_grew() -> None:
    console = Console(width=200)
    with console.capture() as said:
        console.print(_tables(OUTCOME))
    (row,) = [line for line in said.get().splitlines() if "silver_golf_events" in line]
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "silver_golf_events",
        "12,345",
        "20",
        "23",
        "1, 2",
    ]


def test_restarts_throughput_quarantine_and_proof_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    long = Path("out" + "/x" * 60)
    _print(OUTCOME, long)
    printed = capsys.readouterr().out
    # In a file a line is whole, however long it is.
    assert "\nquarantine: 4 records (1 bad_magic, 3 malformed)\n" in printed
    assert printed.splitlines()[-1] == f"left for you to look at: {long} (lake, settings, truth)"
    said = " ".join(printed.split())
    assert "restart: schema 2 brings season (1.5 s)" in said
    assert "10,000 records/s, 4 batches, 1 restarts" in said
    assert "quarantine: 4 records (1 bad_magic, 3 malformed)" in said
    assert "verify: holds: 20,000 records sent = 19,996 in tables + 4 in quarantine + 0 dropped" in said


def test_where_the_tables_ended_with_their_store_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _print(OUTCOME, Path("out"), s3=True)
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "left for you to look at: out (settings, checkpoint, truth; the tables ended with their store)"
        in said
    )


def test_as_json_it_says_whether_the_proof_holds() -> None:
    told = _as_dict(OUTCOME)
    assert told["restarts"] == [
        {"changes": ("schema 2 brings season",), "met_at": 10.0, "decoding_at": 11.5, "gap_seconds": 1.5}
    ]
    verdict = told["verdict"]
    assert isinstance(verdict, dict)
    assert verdict["holds"] is True
