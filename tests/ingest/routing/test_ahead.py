"""Routing expressions read without Spark: what a run makes of them, and what it says of those that it cannot read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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
from distributary.ingest.routing.ahead import read_ahead
from distributary.ingest.settings.model import load
for file in sys.argv[1:]:
    print(read_ahead(load(Path(file))))
"""


def test_an_expression_is_read_as_a_run_reads_it(tmp_path: Path) -> None:
    text = "concat(game, '_', lower(at.`in ner`), game)"
    files = [_file(tmp_path, text, engine) for engine in ("arrow", "spark")]
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, *files], capture_output=True, text=True, check=False
    )
    fields = "fields=(('game',), ('at', 'in ner')))"
    tree = (
        "Call(function='concat', arguments=(Field(path=('game',)), Literal(value='_'), Call(function='lower', "
        "arguments=(Field(path=('at', 'in ner')),), options=()), Field(path=('game',))), options=())"
    )
    assert (ended.stderr, ended.stdout.splitlines()) == (
        "",
        [f"ReadExpression(tree={tree}, {fields}", f"ReadExpression(tree=None, {fields}"],
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("concat(game, ", "is no Spark SQL expression: [PARSE_SYNTAX_ERROR] Syntax error at or near end of input"),
        ("regexp_replace(a, 1)", "it uses the function regexp_replace, which is not done natively"),
    ],
)  # fmt: skip
def test_a_plan_says_what_a_run_says_of_an_expression_before_it_asks_anybody(
    text: str, said: str, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "distributary", "plan", _file(tmp_path, text)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in " ".join(ended.stderr.split())


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
    assert "what route.expression needs of columns is not looked at: JAVA_HOME is" in ended.stderr


def _file(folder: Path, text: str, engine: str = "arrow") -> str:
    path = folder / f"{engine}.yaml"
    route = {"by": "expression", "expression": text}
    path.write_text(
        yaml.safe_dump({**SETTINGS, "decode": {"format": "avro", "engine": engine}, "route": route})
    )
    return str(path)
