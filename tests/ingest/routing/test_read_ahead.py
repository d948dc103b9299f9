"""Routing expressions read without Spark: what a run makes of them, and what it says of those that it cannot read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
import yaml
from pyspark import SparkContext
from pyspark.sql import SparkSession

from distributary import cli
from distributary.errors import ConfigError, SetupError
from distributary.ingest.routing.parser import Item
from distributary.ingest.routing.read_ahead import read_ahead

Command = Callable[..., tuple[int, str, str]]

SETTINGS = {
    "name": "games",
    "source": {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "topics": ["t"]},
    "registry": {"url": "http://127.0.0.1:1", "retry_seconds": 0.1},
    "sink": {"root": "./lake"},
    "checkpoint": "./checkpoint",
}
SCRIPT = """
import sys
from pathlib import Path
from distributary.errors import ConfigError
from distributary.ingest.routing.read_ahead import read_ahead
from distributary.ingest.settings.model import load
settings = load(Path(sys.argv[1]))
print(read_ahead(settings.route.expression, native=settings.decode.engine == "arrow"))
"""


@pytest.mark.usefixtures("spark")
def test_an_expression_is_read_as_a_run_reads_it(tmp_path: Path) -> None:
    text = "concat(game, '_', lower(at.`in ner`), game)"
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, _file(tmp_path, text)],
        capture_output=True,
        text=True,
        check=False,
    )
    fields = "reads=(('game',), ('at', 'in ner')))"
    tree = (
        "Call(function='concat', arguments=(Field(path=('game',)), Literal(value='_', kind=''), Call(function='lower', "
        "arguments=(Field(path=('at', 'in ner')),), options=()), Field(path=('game',))), options=())"
    )
    assert (ended.stderr, ended.stdout.strip()) == ("", f"ReadExpression(tree={tree}, {fields}")
    # One JVM reads it as another one does, and what Spark evaluates is not read further.
    assert str(read_ahead(text, native=True)) == f"ReadExpression(tree={tree}, {fields}"
    assert str(read_ahead(text, native=False)) == f"ReadExpression(tree=None, {fields}"


@pytest.fixture
def command(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs one in this process, whose JVM reads the expression: one of its own takes seconds, and is tested above."""

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main([*words])
        printed = capsys.readouterr()
        return int(str(ended.value.code)), printed.out, " ".join(printed.err.split())

    return run


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("concat(game, ", "is no Spark SQL expression: [PARSE_SYNTAX_ERROR] Syntax error at or near end of input"),
        ("regexp_replace(a, 1)", "it uses the function regexp_replace, which is not done natively"),
    ],
)  # fmt: skip
def test_a_plan_says_what_a_run_says_of_an_expression_before_it_asks_anybody(
    text: str, said: str, command: Command, tmp_path: Path
) -> None:
    code, printed, told = command("plan", _file(tmp_path, text))
    assert (code, printed) == (2, "")
    assert said in told


def test_a_java_that_dies_while_it_reads_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_by_the_dying(parser: Any, text: str) -> Any:
        for child in psutil.Process().children():
            if "py4j.GatewayServer" in child.cmdline():
                child.kill()
                child.wait(60)
        return parser.parseExpression(text)

    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr("distributary.ingest.routing.read_ahead.parsed_by", read_by_the_dying)
    with pytest.raises(SetupError, match=r"Java died while it read an expression; try again"):
        read_ahead("lower(game)", native=True)


def test_a_plan_without_java_says_what_it_cannot_look_at_and_is_made(tmp_path: Path) -> None:
    decode = {"format": "json", "schema_location": str(tmp_path / "schemas")}
    route = {"by": "expression", "expression": "lower(game)"}
    path = tmp_path / "games.yaml"
    settings = {name: group for name, group in SETTINGS.items() if name != "registry"}
    path.write_text(yaml.safe_dump({**settings, "decode": decode, "route": route}))
    ended = subprocess.run(
        [sys.executable, "-m", "distributary", "plan", str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAVA_HOME": str(tmp_path / "no-java")},
    )
    assert (ended.returncode, "all will be created" in ended.stdout) == (0, True)
    assert (
        "route.expression is not looked at, nor what changes do to it, which takes Java: JAVA_HOME is"
        in ended.stderr
    )


SYNTAX = [
    "concat(game_name, ",
    "concat(a,, b)",
    "lower(a))",
    "lower(a]",
    "concat(a, 'b)",
    "`a || b",
    "a ||",
    "",
]
BEYOND = [
    ("regexp_replace(a, 1)", "it uses the function regexp_replace, which is not done natively"),
    ("concat(a, date_format (d, 'yyyy'))", "it uses the function date_format,"),
    ("db.lower(a)", "it uses the function db.lower,"),
    ("ltrim('x', a)", "it uses the function ltrim in a way,"),
    ("lower(a, b)", "lower does not take 2 arguments"),
    ("substring(a)", "substring does not take 1 arguments"),
    ("coalesce()", "coalesce does not take 0 arguments"),
]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("text", SYNTAX)
def test_what_is_no_expression_is_refused_whoever_evaluates_it(text: str, native: bool) -> None:
    with pytest.raises(ConfigError, match=r"^route\.expression is no Spark SQL expression: \["):
        read_ahead(text, native=native)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("text", "why"), BEYOND)
def test_what_workers_cannot_call_is_named_where_they_evaluate_it(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_ahead(text, native=True)
    assert str(refused.value).startswith(f"route.expression: {why}")
    assert read_ahead(text, native=False).tree is None


@pytest.mark.spark
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("(" * 3000 + "a" + ")" * 3000, "Spark's parser ends with StackOverflowError", id="parentheses"),
        pytest.param("||".join(["a"] * 500), "is nested too deeply", id="operators"),
        pytest.param("'\ud800'", "cannot be given to Spark", id="half a character"),
    ],
)  # fmt: skip
def test_what_is_beyond_the_parser_is_refused_in_a_sentence(text: str, said: str, native: bool) -> None:
    with pytest.raises(ConfigError, match=rf"^route\.expression.*{said}"):
        read_ahead(text, native=native)


ID = pa.struct([("id", pa.string()), ("value", pa.int64())])
NESTED = pa.schema(
    [("tags", pa.list_(ID)), ("props", pa.map_(pa.string(), ID)), ("at", ID), ("id", pa.string())]
)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "reads", "touched", "untouched"),
    [
        ("lower(ID)", {("ID",)}, ["id"], ["at.id", "tags.element.id"]),
        ("tags[0].id", {("tags", Item(None), Item("id"))}, ["tags", "tags.element.id"], ["tags.element.value", "id"]),
        ("tags.id[0]", {("tags", "id", Item(None))}, ["tags.element.id"], ["tags.element.value"]),
        ("to_json(tags[0])", {("tags", Item(None))}, ["tags.element", "tags.element.value"], ["at"]),
        ("element_at(`tags`, 1)['id']", {("tags",)}, ["tags.element.id"], ["id"]),
        ("props['game'].id", {("props", Item("game"), Item("id"))}, ["props.key", "props.value.id"], ["props.value.value", "id"]),
        ("props.game.id", {("props", "game", "id")}, ["props.value.id"], ["props.value.value"]),
        ("props[lower(at.id)].value", {("props", Item(None), Item("value")), ("at", "id")}, ["at.id", "props.value.value"], ["at.value"]),
        ("transform_values(props, (k, v) -> v.id)['game']", {("props",)}, ["props.value.id"], ["id"]),
        ('at["id"]', {("at", Item("id"))}, ["at", "at.id"], ["at.value", "id"]),
        ("concat(id, 'at.value')", {("id",)}, ["id"], ["at.value"]),
        ("gone[0].id", {("gone", Item(None), Item("id"))}, ["gone", "gone.element.id"], ["id", "tags"]),
        ("gone.a", {("gone", "a")}, ["gone", "gone.a"], ["gone.b"]),
    ],
)  # fmt: skip
def test_what_an_expression_reads_is_known_field_by_field(
    text: str, reads: set[object], touched: list[str], untouched: list[str], spark: SparkSession
) -> None:
    read = read_ahead(text, native=False)
    assert set(read.reads) == reads
    assert [path for path in touched if not read.touches(tuple(path.split(".")), NESTED)] == []
    assert [path for path in untouched if read.touches(tuple(path.split(".")), NESTED)] == []


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("concat(game_name, ", "is no Spark SQL expression: [PARSE_SYNTAX_ERROR]"),
        ("regexp_replace(a, 1)", "it uses the function regexp_replace, which is not done natively"),
        ("lower(game)", ""),
    ],
)
def test_settings_with_an_expression_that_cannot_be_read_are_refused_with_its_line(
    text: str, said: str, command: Command, tmp_path: Path
) -> None:
    file = _file(tmp_path, text)
    code, printed, told = command("settings", "check", file)
    lines = Path(file).read_text().splitlines()
    line = next(number for number, one in enumerate(lines, 1) if "expression:" in one)
    assert (code, "can run" in printed) == ((2, False) if said else (0, True))
    assert (f"{file}:{line}:3: route.expression" in told, said in told) == (bool(said), True)


def test_settings_are_checked_without_java_which_is_said_of_the_expression(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "distributary", "settings", "check", _file(tmp_path, "concat(game, ")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAVA_HOME": str(tmp_path / "no-java")},
    )
    assert (ended.returncode, "can run" in ended.stdout) == (0, True)
    assert "route.expression is not looked at, which takes Java: JAVA_HOME is" in ended.stderr


def _file(folder: Path, text: str, engine: str = "arrow") -> str:
    path = folder / f"{engine}.yaml"
    route = {"by": "expression", "expression": text}
    path.write_text(
        yaml.safe_dump({**SETTINGS, "decode": {"format": "avro", "engine": engine}, "route": route})
    )
    return str(path)
