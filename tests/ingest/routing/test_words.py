"""What can be told of a routing expression by its text: no alarm about what Spark's parser takes, the worst named at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.routing.test_expression import EXPRESSIONS

from distributary import cli
from distributary.errors import ConfigError
from distributary.ingest.routing.words import check_text

SYNTAX = [
    ("concat(game_name, ", "the ( at character 7 is not closed"),
    ("concat(game_name,)", "something is missing before the ) at character 18"),
    ("concat(a,, b)", "something is missing before the , at character 10"),
    ("lower(a))", "the ) at character 9 closes nothing"),
    ("lower(a]", "the ] at character 8 closes nothing"),
    ("concat(a, 'b)", "the ' at character 11 is not closed"),
    ("`a || b", "the ` at character 1 is not closed"),
    ("a ||", "it ends where something must follow"),
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
OF_SPARK = [
    "regexp_replace(a, '\\\\(', '')",
    "transform(tags, (x, i) -> x.id)[0]",
    "cast(a as array<int>)[0]",
    "extract(year from d)",
    "r'\\' || a",
    "a /* ( */ -- '",
    "count(*)",
    "1.",
]


@pytest.mark.parametrize("text", [*EXPRESSIONS, "cast(a as decimal(3, 1))", "a in(1) and(b) or not(c)"])
def test_what_workers_may_know_is_let_pass(text: str) -> None:
    check_text(text, native=True)


@pytest.mark.parametrize("text", OF_SPARK)
def test_what_spark_s_parser_takes_is_let_pass_where_spark_evaluates_it(text: str) -> None:
    check_text(text, native=False)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("text", "why"), SYNTAX)
def test_what_is_left_open_is_named_with_its_place(text: str, why: str, native: bool) -> None:
    with pytest.raises(ConfigError) as refused:
        check_text(text, native=native)
    assert str(refused.value) == f"route.expression is no Spark SQL expression: {why}"


@pytest.mark.parametrize(("text", "why"), BEYOND)
def test_what_workers_cannot_call_is_named(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_text(text, native=True)
    assert str(refused.value).startswith(f"route.expression: {why}")
    check_text(text, native=False)


@pytest.mark.parametrize(("text", "code"), [(SYNTAX[0][0], 2), (BEYOND[0][0], 2), ("lower(game)", 0)])
def test_settings_with_such_an_expression_cannot_run(
    text: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "games.yaml"
    file.write_text(
        "name: games\nsource: {kafka: {bootstrap.servers: '127.0.0.1:1'}, topics: [t]}\ncheckpoint: ./c\n"
        "registry: {url: 'http://127.0.0.1:1'}\ndecode: {format: avro}\nsink: {root: ./lake}\n"
        f'route: {{by: expression, expression: "{text}"}}\n'
    )
    with pytest.raises(SystemExit) as ended:
        cli.main(["settings", "check", str(file)])
    printed = capsys.readouterr()
    assert ended.value.code == code
    assert ("can run" in printed.out, "route.expression" in printed.err) == (code == 0, code == 2)
