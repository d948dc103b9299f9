from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import ConfigError
from distributary.ingest.settings.filling_in.outside import Outside, fill_in
from distributary.ingest.settings.model import load
from distributary.ingest.settings.problems import Place
from distributary.ingest.settings.yaml_file import Document, Told, read


def document(folder: Path, text: str, **environment: str) -> Document:
    file = folder / "f.yaml"
    file.write_text(text, encoding="utf-8")
    return read(file, environment)


def test_every_key_and_value_has_its_place(tmp_path: Path) -> None:
    found = document(tmp_path, "a:\n  b: 1\n  c: [x, y]\n")
    assert found.settings == {"a": {"b": 1, "c": ["x", "y"]}}
    assert found.keys["a", "b"] == Place(2, 3)
    assert found.values["a", "b"] == Place(2, 6)
    assert found.place(("a", "c", 1)) == Place(3, 10)
    assert found.place(("a", "nothing", "here")) == Place(1, 1)


def test_variables_are_filled_in(tmp_path: Path) -> None:
    found = document(tmp_path, 'a: x${A}y\nb: ${B:-dflt}\nc: $${A}\nd: ["${A}"]\n', A="1")
    assert found.settings == {"a": "x1y", "b": "dflt", "c": "${A}", "d": ["1"]}
    assert found.from_environment == {("a",), ("b",), ("d", 0)}
    assert found.problems == []


def test_what_a_variable_holds_is_not_filled_in_again(tmp_path: Path) -> None:
    assert document(tmp_path, "a: ${A}", A="${B}").settings == {"a": "${B}"}


@given(st.text())
def test_a_text_without_variables_is_left_alone(text: str) -> None:
    if "${" not in text:
        assert fill_in(text, Outside({}, Path()), pytest.fail) == (text, frozenset())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: ${NO_SUCH}", "the environment has no variable NO_SUCH"),
        ("a: ${1}", "does not begin a variable"),
        ("a: ${A", "does not begin a variable"),
        ("a: 1\nb: 2\na: 3", "written twice, first in line 1"),
        ("a: {x: 1, x: 2}", "written twice"),
        ("1: x", "put it in quotes"),
        ("a: 2024-13-45", "put it in quotes"),
        ("? [a]\n: x", "put it in quotes"),
        ("b: &b {x: 1}\na:\n  <<: *b", "instead of merging"),
        ("a: &a [*a]", "this alias holds itself"),
    ],
)
def test_what_is_wrong_is_collected(tmp_path: Path, text: str, expected: str) -> None:
    found = document(tmp_path, text)
    assert [problem for problem in found.problems if expected in problem.message]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1", "f.yaml:1:6: not YAML"),
        ("a: b: c", "f.yaml:1:5: not YAML"),
        ("a: !!python/object:os.system x", "f.yaml:1:4: not YAML"),
        ("a: 1\n---\nb: 2", "f.yaml:2:1: not YAML"),
        ("a: {b: ${X}}", r"write \$\{VAR\} in quotes"),
        ("b: 1\na: \x01", r"f.yaml:2:4: YAML allows no character U\+0001"),
    ],
)
def test_what_is_no_yaml_is_located(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        document(tmp_path, text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no settings file"):
        read(tmp_path / "none.yaml", {})
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path, {})
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read(tmp_path / "latin.yaml", {})


def test_an_empty_file_is_nothing(tmp_path: Path) -> None:
    assert document(tmp_path, "# only a comment\n").settings is None


GAMES = """\
name: games
source:
  kafka: {bootstrap.servers: "a:1", x: "${NO_SUCH}"}
  topics: [events]
tables:
  - match: "*"
    mode: append
"""


def given_beside(folder: Path, *given: str, **environment: str) -> Document:
    file = folder / "f.yaml"
    file.write_text(GAMES, encoding="utf-8")
    return read(file, environment, given)


def test_what_is_given_stands_instead_of_what_the_file_says(tmp_path: Path) -> None:
    found = given_beside(
        tmp_path,
        "source.kafka.bootstrap.servers=b:${PORT}",
        'source.kafka."group.id"=trial',
        "source.kafka.x=1",
        "source.topics=[one, 'two=2']",
        "tables[0].mode=upsert",
        "sink.maintain.every_hours=6",
        "sink.root=",
        PORT="2",
    )
    assert found.settings == {
        "name": "games",
        "source": {
            "kafka": {"bootstrap.servers": "b:2", "x": 1, "group.id": "trial"},
            "topics": ["one", "two=2"],
        },
        "tables": [{"match": "*", "mode": "upsert"}],
        "sink": {"maintain": {"every_hours": 6}, "root": None},
    }
    assert found.from_environment == {("source", "kafka", "bootstrap.servers")}
    # What was wrong there is not said any more.
    assert found.problems == []
    assert found.where(("source", "topics", 1)) == "--set"
    assert found.where(("sink", "maintain", "every_hours")) == "--set"
    assert found.where(("tables", 0, "match")) == f"{tmp_path / 'f.yaml'}:6:5"


def test_the_last_that_is_given_holds(tmp_path: Path) -> None:
    found = given_beside(tmp_path, "sink={root: a, columns: {kafka_key: k}}", "sink.root=b")
    assert found.settings["sink"] == {"root": "b", "columns": {"kafka_key": "k"}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("sink.root", "--set sink.root: write KEY=VALUE"),
        ("=x", "write KEY=VALUE"),
        ("[0]=x", r"--set \[0\]: write KEY=VALUE"),
        (Told("name.first=x", "--env"), "--env name.first: name has no settings below it"),
        (Told("tables[1]=x", "--env"), r"--env tables\[1\]: tables has 1 items"),
        (Told("name=[", "--env"), "--env: name: not YAML"),
        ("sink..root=x", "write KEY=VALUE"),
        ("tables[1].mode=upsert", r"--set tables\[1\]: tables has 1 items, counted from 0"),
        ("name[0]=x", r"--set name\[0\]: name has no items"),
        ("name.first=x", "--set name.first: name has no settings below it"),
        ("name=[", "--set: name: not YAML"),
        ("name=\x07", r"--set: name: YAML allows no character U\+0007"),
    ],
)
def test_what_is_given_and_cannot_be_put_there_is_told(tmp_path: Path, given: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as told:
        given_beside(tmp_path, given)
    assert "=x" not in str(told.value).replace("KEY=VALUE", "")


@pytest.mark.parametrize("text", ["[a, b]\n", "5\n", "words\n"])
def test_nothing_is_put_into_a_file_that_has_no_settings_at_all(tmp_path: Path, text: str) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"f\.yaml:1:1: write a mapping of settings"):
        load(file, {}, ["name=x", "source.topics=[a]"])


@pytest.mark.parametrize(
    "given",
    [
        "source.kafka.x=!hunter2",
        "source.kafka.x=!hunter2!x 1",
        "source.kafka.x=*hunter2",
        "source.kafka.x=[&hunter2 a, &hunter2 b]]",
        "source.kafka.x: hunter2",
        "source.kafka.x hunter2",
        'source.kafka."x" @hunter2',
    ],
)
def test_what_may_be_a_secret_is_not_told(tmp_path: Path, given: str) -> None:
    with pytest.raises(ConfigError) as told:
        given_beside(tmp_path, given)
    assert "hunter" not in str(told.value)


@pytest.mark.parametrize("text", ["a: !!timestamp x", "a: !!int ''", "a: !!bool x", "a: !!int x"])
def test_what_a_tag_says_and_a_value_is_not_is_told(tmp_path: Path, text: str) -> None:
    assert [one.keys for one in document(tmp_path, text).problems] == [("a",)]


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000])
def test_what_is_nested_too_deeply_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        document(tmp_path, text)
    with pytest.raises(ConfigError, match="nested too deeply"):
        given_beside(tmp_path, f"tables={text}")


def test_what_is_wrong_with_what_is_given_is_collected(tmp_path: Path) -> None:
    found = given_beside(tmp_path, "source.kafka={x: '${A}'}", "name=2024-13-45")
    assert [(one.keys, found.where(one.keys)) for one in found.problems] == [
        (("source", "kafka", "x"), "--set"),
        (("name",), "--set"),
    ]
