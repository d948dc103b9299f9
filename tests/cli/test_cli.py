from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from distributary import __version__, cli
from distributary.errors import CheckFailed, ConfigError, DistributaryError, LeaseHeld
from distributary.ingest.spark.artifacts import spark_jars


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "distributary", *arguments], capture_output=True, text=True, check=False
    )


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Makes the command `jars` fail at its first step, as a machine without Java would."""

    def fail() -> None:
        raise error

    monkeypatch.setattr("distributary.ingest.spark.java.find_java", fail)


def exit_code(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    return ended.value.code


def test_version_is_the_packages() -> None:
    assert run("--version").stdout == f"distributary {__version__}\n"


def test_help_needs_neither_spark_nor_delta() -> None:
    program = (
        "import sys\n"
        "from distributary.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    sys.exit(len({'pyspark', 'deltalake', 'pyarrow', 'numpy'} & set(sys.modules)))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


def test_a_run_looks_for_whoever_holds_its_checkpoint_before_it_loads_what_it_runs_by(tmp_path: Path) -> None:
    """In a store that is watched for seconds, and loading takes one of them: behind it a killed run was away for longer."""
    file = tmp_path / "games.yaml"
    file.write_text(
        "{name: games, source: {kafka: {bootstrap.servers: '127.0.0.1:1'}, topics: [t]}, registry: {url: 'http://127.0.0.1:1'}, "
        "route: {field: game}, sink: {root: ./lake}}"
    )
    program = (
        "import sys\n"
        "from distributary.cli import main\n"
        "from distributary.ingest.lease import holding\n"
        "holding.looked_for = lambda *_: sys.exit(10 + len({'pyspark', 'deltalake'} & set(sys.modules)))\n"
        "main(['run', sys.argv[1]])\n"
    )
    command = [sys.executable, "-c", program, str(file)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 10


@pytest.mark.parametrize(
    "arguments", [["--nope"], ["no-such-command"], ["stack", "up", "--broker-port", "70000"], []]
)
def test_wrong_usage_ends_with_2_and_a_hint(arguments: list[str]) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2
    assert "Usage: distributary" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("error", "code"), [(DistributaryError, 1), (LeaseHeld, 1), (ConfigError, 2), (CheckFailed, 3)]
)
def test_an_error_of_ours_is_a_sentence_and_an_exit_code(
    error: type[DistributaryError],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    raising(monkeypatch, error("the thing [bold]at fault[/bold]; do this"))
    assert exit_code("jars") == code
    assert capsys.readouterr() == ("", "error: the thing [bold]at fault[/bold]; do this\n")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ConnectionError, ""),
        (
            PermissionError,
            "; let the user of this process read and write there or, in a store, the one whose keys it has",
        ),
        (OSError, ""),
    ],
)
def test_an_error_of_a_store_or_a_disk_is_a_sentence_too(
    error: type[OSError], remedy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, error("s3://lake/log: no answer from http://a:9/lake?sig=hush"))
    assert exit_code("jars") == 1
    said = f"error: {error.__name__}: s3://lake/log: no answer from http://a:9/lake?**********{remedy}\n"
    assert capsys.readouterr() == ("", said)


def test_what_delta_rs_may_not_read_is_told_with_what_to_do_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(
        monkeypatch,
        OSError("/lake/chess: Unable to open file /lake/chess/a: Permission denied (os error 13)"),
    )
    assert exit_code("jars") == 1
    assert "(os error 13); let the user of this process read and write there" in capsys.readouterr().err


def test_an_error_that_nobody_has_foreseen_is_a_sentence_that_quotes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, RuntimeError("ann@example.org is no number"))
    assert exit_code("jars") == 1
    said = capsys.readouterr().err
    assert said.startswith("error: it failed by RuntimeError in ")
    assert "distributary --debug" in said
    assert "Traceback" not in said
    assert "ann@" not in said


def test_debug_adds_the_stack_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, ConfigError("wrong"))
    try:
        assert exit_code("--debug", "jars") == 2
        assert logging.getLogger("distributary").level == logging.DEBUG
    finally:
        # Of this process, in which other tests follow.
        logging.getLogger("distributary").setLevel(logging.NOTSET)
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.endswith("error: wrong\n")


def test_an_error_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, ConfigError("table \x1b[2Jx\n  second line"))
    assert exit_code("jars") == 2
    assert capsys.readouterr().err == "error: table \N{REPLACEMENT CHARACTER}[2Jx\n  second line\n"


def test_an_interrupt_ends_with_130_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    assert exit_code("jars") == 130
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_while_the_command_line_is_loaded_says_nothing_either() -> None:
    program = (
        "import runpy, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'distributary.commands':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "runpy.run_module('distributary', run_name='__main__')\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_jars_are_printed_as_spark_submit_takes_them() -> None:
    assert run("jars", "--paths").stdout == ",".join(map(str, spark_jars())) + "\n"


def test_a_closed_pipe_is_no_stack_trace() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "distributary", "--help"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_a_letter_that_the_terminal_lacks_ends_no_command(
    encoding: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Half a character is what a path has whose bytes are of another encoding."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding))
    simulation = tmp_path / "\u68cb\udce9.yaml"
    simulation.write_text("target: {bootstrap_servers: 'a:1', registry: {url: 'http://b'}}\n")
    assert exit_code("simulations", "check", str(simulation)) == 0
    sys.stdout.flush()
    assert written.getvalue().decode(encoding).partition("/test_")[2].count("\\udce9.yaml: ") == 1


def test_main_ends_with_0_when_all_went_well() -> None:
    assert exit_code("--version") == 0


@pytest.mark.spark
def test_an_error_of_a_query_is_not_logged_by_pyspark_beside_what_we_say(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("--version") == 0
    with pytest.raises(AnalysisException):
        spark.sql("SELECT nowhere")
    assert "stacktrace" not in capfd.readouterr().err
