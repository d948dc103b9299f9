"""The commands with the words that a user types, on a real broker and registry.

In this process, with the session that all tests share; what ends one is asked of a process of its own.
"""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import yaml
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from distributary import cli
from distributary.commands import run as commands_run
from distributary.ingest.settings.model import Settings
from distributary.producer_sim.stack.local import LocalStack

SETTINGS = """
name: games
source: {{kafka: {{bootstrap.servers: "{broker}"}}, topics: [{topic}]}}
registry: {{url: "{registry}"}}
decode: {{format: protobuf}}
route: {{by: field, field: game_name, table: "silver_{{entity}}_events"}}
sink: {{root: ./lake}}
"""


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "distributary", *map(str, arguments)]


class Printed(NamedTuple):
    """What a command printed."""

    stdout: str
    stderr: str


def run(*arguments: str | Path, code: int = 0) -> Printed:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        cli.main([*map(str, arguments)])
    printed = Printed(out.getvalue(), err.getvalue())
    assert ended.value.code == code, printed
    return printed


def answer(*arguments: str | Path, code: int = 0) -> Any:
    """What a command prints as JSON; nothing else may be on stdout."""
    return json.loads(run(*arguments, "--json", code=code).stdout)


@pytest.fixture
def settings(stack: LocalStack, topic: str, tmp_path: Path) -> Path:
    file = tmp_path / "games.yaml"
    text = SETTINGS.format(broker=stack.bootstrap_servers, registry=stack.registry_url, topic=topic)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def offline(tmp_path: Path) -> Path:
    """Settings whose broker and registry nobody asks."""
    file = tmp_path / "games.yaml"
    file.write_text(
        SETTINGS.format(broker="127.0.0.1:1", registry="http://127.0.0.1:1", topic="t"), encoding="utf-8"
    )
    return file


def simulation(settings: Path, **parts: Any) -> Path:
    """A simulation for the pipeline of these settings."""
    file = settings.with_name("traffic.yaml")
    file.write_text(json.dumps({"pipeline": settings.name, **parts}), encoding="utf-8")
    return file


def test_settings_that_can_work_are_told_so(offline: Path) -> None:
    assert run("settings", "check", offline).stdout == f"{offline}: games can run\n"
    assert answer("settings", "check", offline)["route"]["field"] == "game_name"
    given = answer("settings", "check", offline, "--set", "route.field=game", "--set", "name=trial")
    assert (given["route"]["field"], given["name"]) == ("game", "trial")
    said = run("settings", "check", offline, "--set", "route.fields=game", code=2).stderr
    assert "--set: route.fields: no setting is called so" in said


def test_settings_that_cannot_work_are_named_with_their_line(offline: Path) -> None:
    offline.write_text(offline.read_text().replace("protobuf", "xml"))
    said = run("settings", "check", offline, code=2).stderr
    assert said.startswith(f"error: {offline}:5:")
    assert "Traceback" not in said


def test_the_schema_of_the_settings_is_json_schema() -> None:
    schema = json.loads(run("settings", "schema").stdout)
    assert {"name", "source", "registry", "route", "sink"} <= set(schema["properties"])


def test_nothing_waits_for_a_decision_in_a_new_pipeline(offline: Path) -> None:
    assert run("resolve", offline).stdout == "nothing waits for a decision\n"
    assert answer("resolve", offline) == []


@pytest.mark.parametrize("command", [["derive"], ["reset", "--layer", "gold"]])
def test_where_no_table_is_made_of_others_it_is_said_and_no_session_is_made(
    command: list[str], offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distributary.commands.tables.rebuild.session", None)
    name, *options = command
    said = "games: its settings have no tables that are made of others (`derive`)\n"
    assert run(name, offline, *options).stdout == said
    assert answer(name, offline, *options) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--skip"], "name the table"),
        (["a_table", "--skip", "--recreate"], "exclude each other"),
        (["a_table", "--skip", "--skip-lost"], "exclude each other"),
        (["a_table", "--skip"], "a_table does not wait for a decision"),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused(options: list[str], words: str, offline: Path) -> None:
    assert words in run("resolve", offline, *options, code=2).stderr


def test_a_truth_is_not_overwritten(offline: Path, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    truth.write_text("{}")
    assert "--append" in run("simulate", simulation(offline), "--truth", truth, code=2).stderr
    assert truth.read_text() == "{}"


def test_where_nothing_is_there_it_is_said_and_where_to_look(offline: Path, tmp_path: Path) -> None:
    said = run("verify", offline, "--offline").stdout
    assert "no batch and no table" in said
    assert "`name`, `sink.root` and `checkpoint`" in said
    # Without Spark: it would be started for nothing.
    assert "(`derive`)" in run("derive", offline).stdout
    assert answer("derive", offline) == []
    assert "--output" in run("graph", offline, "--output", tmp_path, code=2).stderr


def test_a_truth_that_cannot_be_kept_is_refused_before_anything_is_sent(
    offline: Path, tmp_path: Path
) -> None:
    traffic = tmp_path / "traffic.yaml"
    traffic.write_text("pipeline: games.yaml", encoding="utf-8")
    said = run("simulate", traffic, "--truth", offline / "truth.json", code=2).stderr
    assert f"the truth cannot be written to {offline / 'truth.json'} (" in said


def test_a_client_secret_is_never_repeated(offline: Path, tmp_path: Path) -> None:
    file = simulation(offline, target={"kafka": {"sasl.password": "hush"}})
    said = run("simulate", file, "--truth", tmp_path / "t", code=2).stderr
    assert said.startswith(f"error: {file}:1:")
    assert "secrets come from the environment" in said
    assert "hush" not in said


def test_a_pipeline_s_settings_are_no_simulation(offline: Path, tmp_path: Path) -> None:
    said = run("simulate", offline, "--truth", tmp_path / "t", code=2).stderr
    assert "holds a pipeline's settings" in said
    assert "pipeline: games.yaml" in said


@pytest.mark.parametrize("versions", ["x", "1-", "-2", "3-1", "9"])
def test_versions_that_cannot_be_sent_are_refused(versions: str, offline: Path, tmp_path: Path) -> None:
    words: list[str | Path] = ["simulate", simulation(offline), f"--versions={versions}"]
    assert "version" in run(*words, "--truth", tmp_path / "t", code=2).stderr


def test_a_preset_can_be_listed_shown_checked_and_saved(tmp_path: Path) -> None:
    assert [line.partition(":")[0] for line in run("simulations", "list").stdout.splitlines()] == [
        "games",
        "harm",
        "skewed",
        "types",
    ]
    file = tmp_path / "mine.yaml"
    file.write_text(run("simulations", "show", "harm").stdout, encoding="utf-8")
    said = run("simulations", "check", file).stdout
    assert said == f"{file}: 60,000 records to game-events, versions 1 to 6\n"
    assert answer("simulations", "check", file)["pace"] == {"events": 10_000, "rate": None}
    assert "evolution" in json.loads(run("simulations", "schema").stdout)["properties"]


def test_a_stack_that_does_not_run_says_so(tmp_path: Path) -> None:
    assert answer("stack", "status", "--folder", tmp_path)["running"] is False
    assert run("stack", "status", "--folder", tmp_path).stdout.count("does not run") == 2


@pytest.mark.stack
def test_status_tells_where_the_stack_runs(stack: LocalStack) -> None:
    told = answer("stack", "status", "--folder", stack.folder)
    assert told["running"] is True
    assert told["broker"]["address"] == stack.bootstrap_servers
    assert stack.registry_url in run("stack", "status", "--folder", stack.folder).stdout


@pytest.mark.stack
def test_simulating_twice_adds_up(settings: Path, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    file = simulation(settings, evolution={"versions": 3}, faults={"corrupt": 0.1})
    first = answer("simulate", file, "--truth", truth, "--events", "500", "--versions", "1")
    assert first["records"] == 500
    assert first["good"] + sum(first["corrupt"].values()) == 500
    later = ["--append", "--versions", "2-3", "--events", "100"]
    assert answer("simulate", file, "--truth", truth, *later)["records"] == 200
    assert json.loads(truth.read_text())["records"] == 700


@pytest.mark.stack
def test_an_interrupted_simulation_keeps_its_truth(settings: Path, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    options: list[str | Path] = ["--truth", truth, "--events", "1000000", "--rate", "500"]
    with subprocess.Popen(
        command("simulate", simulation(settings), *options), stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        # The first line is printed when the sending begins.
        assert "sending to" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
        assert running.wait(60) == 130
    assert "Traceback" not in said
    assert json.loads(truth.read_text())["records"] < 1_000_000


# A JVM a signal: Ctrl-C ends a command in test_an_interrupted_simulation_keeps_its_truth, SIGTERM a run in test_signals.
@pytest.mark.heavy
@pytest.mark.stack
@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_while_spark_starts_leaves_no_jvm(number: signal.Signals, settings: Path) -> None:
    with subprocess.Popen(command("run", settings), stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        jvm = the_jvm_of(running.pid)
        running.send_signal(number)
        said = running.stderr.read()
        assert running.wait(60) == 128 + number
    assert "Traceback" not in said
    assert "Exception" not in said
    assert psutil.wait_procs([jvm], 60)[1] == []


# One alone ends a command that has no hold on signals; of two that come together the second finds no patience.
@pytest.mark.spark
@pytest.mark.parametrize(
    ("numbers", "program"),
    [
        ((signal.SIGINT, signal.SIGTERM), "with interrupts(): spark_session('interrupted')"),
        ((signal.SIGINT,), "spark_session('interrupted')"),
    ],
)
def test_a_start_of_spark_that_is_interrupted_leaves_no_jvm(
    numbers: tuple[signal.Signals, ...], program: str
) -> None:
    source = (
        "from distributary.commands.interrupts import interrupts\n"
        "from distributary.ingest.spark.session import spark_session\n"
        f"{program}\n"
    )
    with subprocess.Popen([sys.executable, "-c", source], stderr=subprocess.PIPE, text=True) as running:
        jvm = the_jvm_of(running.pid)
        for number in numbers:
            running.send_signal(number)
        _, said = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "KeyboardInterrupt" in said
    assert psutil.wait_procs([jvm], 60)[1] == []


@retry(
    retry=retry_if_exception_type(LookupError), stop=stop_after_delay(60), wait=wait_fixed(0.05), reraise=True
)
def the_jvm_of(process: int) -> psutil.Process:
    for child in psutil.Process(process).children(recursive=True):
        if child.name() == "java":
            return child
    raise LookupError("the JVM is not there yet")


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in the session that all tests share, and may not stop it."""

    @contextmanager
    def session(_settings: Settings) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(commands_run, "session", session)


# In a process and a JVM of its own the command runs in tests/ingest/e2e/test_crashes.py.
@pytest.mark.stack
@pytest.mark.spark
@pytest.mark.usefixtures("shared")
def test_what_is_sent_is_run_and_verified(settings: Path, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    parts = {"players": {"games": 3}, "evolution": {"versions": 2}, "faults": {"corrupt": 0.01}}
    sent = answer("simulate", simulation(settings, **parts), "--truth", truth, "--events", "2000")
    outcome = answer("run", settings, "--available-now")
    assert outcome["rows"] == sent["records"]
    assert outcome["written"] == sent["good"]
    assert outcome["quarantined"] == sum(sent["corrupt"].values())
    verdict = answer("verify", settings, "--truth", truth)
    assert verdict["holds"] is True
    assert run("verify", settings, "--truth", truth).stdout.startswith("holds: ")


# Lighter: test_a_schema_that_grows_keeps_what_it_has (test_infer.py) looks; a run then is as any other.
@pytest.mark.heavy
@pytest.mark.stack
@pytest.mark.spark
@pytest.mark.usefixtures("shared")
def test_a_run_that_looks_at_the_schema_anew_has_it_grow_first(settings: Path, tmp_path: Path) -> None:
    text = settings.read_text(encoding="utf-8").replace("protobuf", "json")
    settings.write_text(f"{text}trigger: {{available_now: false, interval_seconds: 0}}\n", encoding="utf-8")
    topic = yaml.safe_load(text)["source"]["topics"][0]
    broker = yaml.safe_load(text)["source"]["kafka"]["bootstrap.servers"]

    def send(event: dict[str, Any]) -> None:
        producer = Producer({"bootstrap.servers": broker})
        producer.produce(topic, json.dumps({"game_name": "go", **event}).encode(), b"k", partition=0)
        assert producer.flush(30) == 0

    send({"score": 1})
    first = answer("run", settings, "--once", "--update-schema", "--debug-suffix", "_debug")
    assert (first["rows"], first["inferred"]["version"]) == (1, 1)
    send({"level": 3})
    second = run("run", settings, "--once", "--update-schema", "--debug-suffix", "_debug").stderr
    assert "level" in second
    assert "3 fields: version 2 in " in second
    rows = DeltaTable(tmp_path / "lake_debug/silver_go_events").to_pyarrow_table().to_pylist()
    assert sorted((row["score"] or 0, row["level"] or 0) for row in rows) == [(0, 3), (1, 0)]
    assert not (tmp_path / "lake").exists()
    third = answer("run", settings, "--once", "--update-schema", "--debug-suffix", "_debug")
    assert (third["rows"], third["inferred"]["version"]) == (0, 2)


@pytest.mark.stack
def test_what_is_missing_is_named_and_the_code_is_3(settings: Path, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    answer("simulate", simulation(settings), "--truth", truth, "--events", "100")
    said = run("verify", settings, "--truth", truth, code=3).stderr
    assert "error: " in said
    assert answer("verify", settings, "--truth", truth, code=3)["holds"] is False
