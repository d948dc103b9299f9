"""What derived tables are made by, read by Spark's parser before anything runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.ingest.routing.test_read_ahead import SETTINGS, Command, command

__all__ = ["command"]


def settings_with(folder: Path, derive: dict[str, Any], **more: Any) -> str:
    path = folder / "games.yaml"
    route = {"field": "game", "table": "silver_{entity}"}
    rule = {"table": "gold_{entity}", **derive}
    path.write_text(
        yaml.safe_dump({**SETTINGS, "decode": {"format": "avro"}, "route": route, "derive": [rule], **more})
    )
    return str(path)


def aggregate(**said: Any) -> dict[str, Any]:
    return {"aggregate": {"by": ["day"], "columns": {"n": "count(*)"}, **said}}


def stream(**said: Any) -> dict[str, Any]:
    window = {"watermark": {"time": "at"}, "window": {"seconds": 60}, "columns": {"n": "count(*)"}}
    return {"stream": {**window, **said}}


BROKEN = {
    "sql": ({"sql": "SELECT * FORM {table}"}, "derive[0].sql: this is no Spark SQL query"),
    "sql_command": ({"sql": "DROP TABLE {table}"}, "derive[0].sql: this is no Spark SQL query"),
    "by": (aggregate(by=["date(at)) AS day"]), "derive[0].aggregate.by[0]: this is no Spark SQL expression"),
    "columns": (aggregate(columns={"n": "sum(a b)"}), "derive[0].aggregate.columns.n: this is no"),
    "where": (aggregate(where="a >"), "derive[0].aggregate.where: this is no Spark SQL expression"),
    "time": (stream(watermark={"time": "at +"}), "derive[0].stream.watermark.time: this is no"),
    "of_stream": (stream(columns={"n": "sum(a) +"}), "derive[0].stream.columns.n: this is no"),
}


@pytest.mark.spark
@pytest.mark.parametrize("case", BROKEN)
def test_what_spark_cannot_read_is_refused_with_its_line(case: str, command: Command, tmp_path: Path) -> None:
    derive, said = BROKEN[case]
    file = settings_with(tmp_path, derive)
    code, printed, told = command("settings", "check", file)
    assert (code, "can run" in printed) == (2, False)
    assert said in told
    assert "SYNTAX_ERROR" in told
    last = said.partition(":")[0].rpartition(".")[2].partition("[")[0]
    number = next(n for n, one in enumerate(Path(file).read_text().splitlines(), 1) if f"{last}:" in one)
    assert f"{file}:{number}" in told or f"{file}:{number + 1}" in told


@pytest.mark.spark
@pytest.mark.parametrize(
    "derive",
    [
        {"sql": "WITH a AS (SELECT *, {entity} AS game FROM {table}) SELECT * FROM a -- all of it"},
        {"sql": "FROM {table} |> WHERE a > 1;"},
        {"sql": "SELECT '$${spark.app.name}' AS a, $${b} FROM {table}"},
        {"sql": "SELECT * FROM {table} DISTRIBUTE BY a SORT BY b"},
        {"sql": "{table} JOIN players USING (id)"},
        {"inputs": ["{table}", "other_{entity}"], "sql": "TABLE other_{entity} UNION ALL TABLE {table}"},
        aggregate(by=["a.day", "date(at) AS d"], columns={"n": "count(*) FILTER (WHERE a = 'x')"}, where="a"),
        stream(by=["lower(city) AS city"], where="this.n > 1"),
    ],
)
def test_what_spark_can_read_is_not(derive: dict[str, Any], command: Command, tmp_path: Path) -> None:
    inputs = derive.pop("inputs", None)
    file = settings_with(tmp_path, derive if inputs is None else {**derive, "inputs": ["{table}"]})
    assert command("settings", "check", file)[0] == 0


@pytest.mark.spark
@pytest.mark.parametrize(
    "said",
    [
        {"derive": {"sql": "SELECT f(a, ${PEPPER} ${PEPPER}) FROM {table}"}},
        {"derive": aggregate(where="f(a, ${PEPPER} ${PEPPER})")},
        {"tables": [{"match": "*", "expect": {"peppered": "f(a, ${PEPPER} ${PEPPER})"}}]},
        {
            "route": {
                "by": "expression",
                "expression": "f(a, ${PEPPER} ${PEPPER})",
                "table": "silver_{entity}",
            }
        },
    ],
)
def test_what_was_filled_in_is_not_told(
    said: dict[str, Any], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEPPER", "hunter2")
    code, _, told = command(
        "settings", "check", settings_with(tmp_path, **{"derive": {"sql": "TABLE {table}"}, **said})
    )
    assert (code, "hunter2" in told, "near '${PEPPER}'" in told) == (2, False, True)


@pytest.mark.spark
def test_a_text_that_a_session_would_read_otherwise_is_left_to_it(command: Command, tmp_path: Path) -> None:
    derive = {"sql": "SELECT IN A LANGUAGE OF THEIR OWN"}
    spark = {"conf": {"spark.sql.extensions": "com.example.Parser"}}
    assert command("settings", "check", settings_with(tmp_path, derive, spark=spark))[0] == 0


def test_without_java_it_is_said_that_nobody_looked(tmp_path: Path) -> None:
    file = settings_with(tmp_path, {"sql": "SELEC"})
    ended = subprocess.run(
        [sys.executable, "-m", "distributary", "settings", "check", file],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "JAVA_HOME": str(tmp_path / "no-java"), "PYTHONPATH": ":".join(sys.path)},
    )
    assert (ended.returncode, "can run" in ended.stdout) == (0, True)
    assert "derive is not looked at, which takes Java: JAVA_HOME is" in ended.stderr
