"""`distributary schema` over a real HTTP server with a registry's answers, and once on a real registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from tests.registry.conftest import AnswerServer, serving

from distributary import cli
from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

V1 = 'syntax = "proto3";\npackage p;\nmessage E {\n  int32 a = 1;\n  In in = 2;\n  message In { string x = 1; }\n}\n'
V2 = V1.replace("int32 a = 1;", "int64 a = 1;\n  repeated string tags = 3;").replace(
    "x = 1;", "x = 1; bool y = 2;"
)
CHANGES = [
    {"class": "widened", "column": "a", "before": "int", "after": "bigint"},
    {"class": "added", "column": "tags", "before": "", "after": "array<string>"},
    {"class": "added", "column": "in.y", "before": "", "after": "boolean"},
]
CHECK = "/compatibility/subjects/games-value/versions"


@pytest.fixture
def server() -> Any:
    """A registry with `games-value` (version 1 deleted, 2 and 3), `avro-value` and `other`."""
    running = serving(None)
    server = next(running)
    versions = {1: (10, V1), 2: (10, V1), 3: (11, V2)}
    for number, (schema_id, text) in versions.items():
        server.version("games-value", number, schema_id, schema=text, schemaType="PROTOBUF")
        server.on(f"/schemas/ids/{schema_id}", server.json({"schema": text, "schemaType": "PROTOBUF"}))
    server.latest("games-value", 3, 11, schema=V2, schemaType="PROTOBUF")
    server.on("/subjects/games-value/versions", server.json([2, 3]))
    server.on("/subjects/games-value/versions?deleted=true", server.json([1, 2, 3]))
    for subject, schema_id in (("avro-value", 12), ("other", 13)):
        server.on(f"/subjects/{subject}/versions", server.json([1]))
        server.on(f"/subjects/{subject}/versions?deleted=true", server.json([1]))
        server.version(subject, 1, schema_id, schema='"string"')
        server.latest(subject, 1, schema_id, schema='"string"')
        server.on(f"/schemas/ids/{schema_id}", server.json({"schema": '"string"'}))
    server.on("/subjects", server.json(["games-value", "avro-value", "other"]))
    server.on("/subjects?deleted=true", server.json(["games-value", "avro-value", "other", "gone"]))
    server.on("/subjects/gone/versions", server.unknown(40401))
    server.on("/subjects/gone/versions/latest", server.unknown(40401))
    server.on("/subjects/gone/versions?deleted=true", server.json([4]))
    server.version("gone", 4, 13, schema='"string"')
    server.on("/subjects/nope/versions", server.unknown(40401))
    server.on("/schemas/ids/99", server.unknown(40403))
    server.on("/config", server.json({"compatibilityLevel": "BACKWARD"}))
    server.on("/config/games-value", server.json({"compatibilityLevel": "FULL"}))
    yield server
    next(running, None)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(server: AnswerServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """What a command ends with and prints: exit code, standard output, standard error."""
    # What this server does not know it never will: nobody waits as long as commands do for a real one.
    none = {"retry_seconds": 0.0, "unknown_id_wait_seconds": 0.0}
    monkeypatch.setattr(RegistryOptions, "impatient", lambda self: self.model_copy(update=none))

    def command(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["schema", *map(str, arguments), "--registry", server.url])
        printed = capsys.readouterr()
        return int(str(ended.value.code)), printed.out, printed.err

    return command


@pytest.fixture
def answer(run: Run) -> Callable[..., Any]:
    """What a command prints as JSON; nothing else may be printed."""

    def command(*arguments: object, code: int = 0) -> Any:
        ended, out, err = run(*arguments, "--json")
        assert (ended, err) == (code, "")
        return json.loads(out)

    return command


def test_subjects_are_listed_with_what_they_hold(run: Run, answer: Callable[..., Any]) -> None:
    assert answer("list")[0] == {
        "subject": "avro-value",
        "type": "AVRO",
        "version": 1,
        "id": 12,
        "compatibility": "BACKWARD",
        "deleted": False,
    }
    code, out, _ = run("list")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["subject", "type", "version", "id", "compatibility"],
        ["avro-value", "AVRO", "1", "12", "BACKWARD"],
        ["games-value", "PROTOBUF", "3", "11", "FULL"],
        ["other", "AVRO", "1", "13", "BACKWARD"],
    ]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("games", ["games-value"]),
        ("*-value", ["avro-value", "games-value"]),
        ("oth?r", ["other"]),
        ("value", []),
    ],
)
def test_a_list_is_filtered_here_by_prefix_or_pattern(
    answer: Callable[..., Any], pattern: str, found: list[str]
) -> None:
    assert [row["subject"] for row in answer("list", pattern)] == found


def test_deleted_subjects_are_listed_when_asked_for(run: Run, answer: Callable[..., Any]) -> None:
    gone = [row for row in answer("list", "--deleted") if row["deleted"]]
    assert [(row["subject"], row["version"], row["id"], row["type"]) for row in gone] == [
        ("gone", 4, 13, "AVRO")
    ]
    assert "4 (deleted)" in run("list", "--deleted")[1]


def test_a_schema_is_shown_with_the_columns_it_gives(run: Run, answer: Callable[..., Any]) -> None:
    shown = answer("show", "games-value")
    assert (shown["version"], shown["id"], shown["type"], shown["record"]) == (3, 11, "PROTOBUF", "p.E")
    assert shown["text"] == V2
    assert shown["columns"] == [
        {"name": "a", "type": "bigint"},
        {"name": "tags", "type": "array<string>"},
        {"name": "in", "type": "struct<x:string,y:boolean>"},
    ]
    code, out, _ = run("show", "games-value", "--version", 1)
    assert code == 0
    assert out.startswith("games-value version 1, schema id 10, PROTOBUF, deleted\n")
    assert "columns of p.E:\n  a   int\n  in  struct<x:string>\n" in out


def test_a_schema_is_shown_by_its_id(answer: Callable[..., Any]) -> None:
    shown = answer("show", "--id", 10)
    assert (shown["subject"], shown["id"], shown["text"]) == (None, 10, V1)


def test_where_no_codec_gives_columns_the_text_is_shown_and_why(
    server: AnswerServer, run: Run, answer: Callable[..., Any]
) -> None:
    server.on("/schemas/ids/20", server.json({"schema": "message {", "schemaType": "PROTOBUF"}))
    shown = answer("show", "--id", 20)
    assert (shown["columns"], shown["text"]) == (None, "message {")
    assert "protoc" in shown["why_no_columns"]
    assert "no columns: protoc" in run("show", "--id", 20)[1]


def test_imports_of_a_schema_are_shown(server: AnswerServer, run: Run) -> None:
    body = {
        "schema": '{"type":"array","items":"S"}',
        "references": [{"name": "S", "subject": "other", "version": 1}],
    }
    server.on("/schemas/ids/21", server.json(body))
    assert "imports S from other version 1" in run("show", "--id", 21)[1]


def test_a_difference_is_told_in_classes_and_in_text(run: Run, answer: Callable[..., Any]) -> None:
    told = answer("diff", "games-value", 2, 3)
    assert told["changes"] == CHANGES
    assert told["why_no_changes"] is None
    assert (told["from"]["version"], told["to"]["id"]) == (2, 11)
    assert "+  repeated string tags = 3;" in told["text"]
    code, out, _ = run("diff", "games-value", 3, 2)
    assert code == 0
    assert out.splitlines()[:4] == [
        "narrowed  a  bigint -> int",
        "dropped   in.y  boolean",
        "dropped   tags  array<string>",
        "",
    ]
    assert "the texts are the same" in run("diff", "games-value", 1, 2)[1]


def test_history_tells_what_each_version_changed_and_which_are_deleted(
    run: Run, answer: Callable[..., Any]
) -> None:
    told = answer("history", "games-value")
    assert [(step["version"], step["id"], step["deleted"]) for step in told] == [
        (1, 10, True),
        (2, 10, False),
        (3, 11, False),
    ]
    assert told[0]["changes"] is None
    assert told[1]["changes"] == []
    assert told[2]["changes"] == CHANGES
    code, out, _ = run("history", "games-value")
    assert code == 0
    assert out.splitlines()[:4] == [
        "version 1: id 10, PROTOBUF, deleted",
        "version 2: id 10, PROTOBUF",
        "  no field changed",
        "version 3: id 11, PROTOBUF",
    ]
    assert "  widened  a  int -> bigint" in out.splitlines()


def test_where_a_version_cannot_be_read_history_says_so_and_goes_on(
    server: AnswerServer, answer: Callable[..., Any], run: Run
) -> None:
    broken = "message {"
    server.on("/schemas/ids/10", server.json({"schema": broken, "schemaType": "PROTOBUF"}))
    told = answer("history", "games-value")
    assert [step["changes"] for step in told] == [None, None, None]
    assert all("protoc" in step["note"] for step in told)
    assert "  changes are not known: protoc" in run("history", "games-value")[1]
    assert "protoc" in answer("diff", "games-value", 1, 3)["why_no_changes"]


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    file = tmp_path / "next.proto"
    file.write_text(V2, encoding="utf-8")
    return file


def test_a_schema_that_fits_is_told_so(
    server: AnswerServer, run: Run, answer: Callable[..., Any], candidate: Path
) -> None:
    server.on(CHECK, server.json({"is_compatible": True}))
    told = answer("check", "games-value", candidate, "--reference", "c.proto=other:1")
    assert (told["compatible"], told["level"], told["type"]) == (True, "FULL", "PROTOBUF")
    assert (told["changes"], told["why_no_changes"]) == ([], None)
    sent = next(body for method, _, _, body in server.seen if method == "POST")
    assert json.loads(sent)["references"] == [{"name": "c.proto", "subject": "other", "version": 1}]
    assert run("check", "games-value", candidate)[1] == (
        f"no field changed\n{candidate} is compatible with games-value (FULL), held against every version that its level asks for\n"
    )


def test_a_schema_that_does_not_fit_ends_with_3_and_the_reasons(
    server: AnswerServer, run: Run, answer: Callable[..., Any], candidate: Path
) -> None:
    server.on(CHECK, server.json({"is_compatible": False, "messages": ["a changed its type"]}))
    candidate.write_text(V2.replace("int64 a", "string a"), encoding="utf-8")
    told = answer("check", "games-value", candidate, code=3)
    assert told["messages"] == ["a changed its type"]
    assert told["changes"] == [{"class": "changed", "column": "a", "before": "bigint", "after": "string"}]
    code, out, err = run("check", "games-value", candidate)
    assert (code, out) == (3, "changed  a  bigint -> string\n")
    assert "is not compatible with games-value (FULL)" in err
    assert "\n  a changed its type\n" in err


@pytest.mark.parametrize("status", [422, 200])
def test_a_file_that_holds_no_schema_is_told_by_what_is_wrong_with_it(
    server: AnswerServer, run: Run, candidate: Path, status: int
) -> None:
    """Registries refuse it, or say that it is not compatible."""
    told = {"error_code": 42201, "message": "invalid"} if status == 422 else {"is_compatible": False}
    server.on(CHECK, server.json(told, status))
    candidate.write_text("message {", encoding="utf-8")
    code, out, err = run("check", "games-value", candidate)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {candidate}: ")
    assert "Expected message name" in err
    assert "422" not in err


def test_a_schema_that_only_the_registry_cannot_read_is_told_in_its_words(
    server: AnswerServer, run: Run, candidate: Path
) -> None:
    server.on(CHECK, server.json({"error_code": 42201, "message": "not for me"}, 422))
    code, _, err = run("check", "games-value", candidate)
    assert code == 1
    assert err.startswith(f"error: {candidate}: ")
    assert "not for me" in err


def test_a_registry_without_a_check_says_so(run: Run, candidate: Path) -> None:
    code, _, err = run("check", "games-value", candidate)
    assert code == 1
    assert "does not offer a compatibility check" in err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show"], 2, "name a subject"),
        (["show", "--id", "1", "--guid", "x"], 2, "give one of them"),
        (["show", "games-value", "--version", "new"], 2, "a number or `latest`"),
        (["show", "games-value", "--version", "9"], 1, "has no version 9; it has 1, 2, 3"),
        (["show", "nope"], 1, "does not know the versions of subject 'nope'"),
        (["show", "gone"], 1, "all versions of subject 'gone' are deleted"),
        (["show", "--id", "99"], 1, "does not know schema id 99"),
        (["show", "--guid", str(uuid4())], 1, "does not offer schema GUID"),
        (["history", "nope"], 1, "nope"),
        (["check", "games-value", "no-such-file"], 2, "cannot be read"),
        (["check", "nope", __file__], 1, "nope"),
        (["check", "games-value", __file__, "--type", "XML"], 2, "AVRO, PROTOBUF, JSON"),
        (["check", "games-value", __file__, "--reference", "x"], 2, "NAME=SUBJECT:VERSION"),
        (["list", "--settings", "games.yaml"], 2, "give one of them"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(
    run: Run, arguments: list[str], code: int, words: str
) -> None:
    ended, out, err = run(*arguments)
    assert (ended, out) == (code, "")
    assert words in err
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1


def test_a_registry_that_does_not_answer_is_a_sentence(server: AnswerServer, run: Run) -> None:
    server.on("/subjects", server.raw(b"", 503))
    code, _, err = run("list")
    assert code == 1
    assert "no usable answer for the list of subjects" in err


def test_a_pipelines_settings_name_its_registry(
    server: AnswerServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "games.yaml"
    file.write_text(
        "name: games\nsource: {kafka: {bootstrap.servers: '127.0.0.1:1'}, topics: [t]}\n"
        f"registry: {{url: '{server.url}'}}\nroute: {{by: field, field: f, table: 't_{{entity}}'}}\nsink: {{root: ./lake}}\n",
        encoding="utf-8",
    )
    with pytest.raises(SystemExit) as ended:
        cli.main(["schema", "list", "other", "--json", "--settings", str(file)])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)[0]["subject"] == "other"


def test_names_from_a_registry_cannot_steer_the_terminal(server: AnswerServer, run: Run) -> None:
    name = "x\x1b[2J"
    server.on("/subjects", server.json([name]))
    path = f"/subjects/{quote(name, safe='')}/versions/latest"
    server.on(path, server.json({"subject": name, "version": 1, "id": 1, "schema": '"int"'}))
    assert "\x1b" not in run("list")[1]


@pytest.mark.stack
def test_a_real_registry_is_read_checked_and_told_apart(
    stack: LocalStack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = f"schema-{uuid4().hex}-value"
    with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as registry:
        registry.register(subject, V1, "PROTOBUF")
        registry.register(subject, V1.replace("a = 1;", "a = 1; bool b = 9;"), "PROTOBUF")

    def answer(*arguments: str, code: int = 0) -> Any:
        with pytest.raises(SystemExit) as ended:
            cli.main(["schema", *arguments, "--registry", stack.registry_url, "--json"])
        assert ended.value.code == code
        return json.loads(capsys.readouterr().out)

    assert [(row["subject"], row["compatibility"]) for row in answer("list", subject)] == [
        (subject, "BACKWARD")
    ]
    assert [(one["class"], one["column"]) for one in answer("diff", subject, "1")["changes"]] == [
        ("added", "b")
    ]
    assert len(answer("history", subject)) == 2
    fits, does_not = tmp_path / "fits.proto", tmp_path / "does-not.proto"
    fits.write_text(V1.replace("a = 1;", "a = 1; bool b = 9; bool c = 10;"), encoding="utf-8")
    does_not.write_text(V1.replace("int32 a = 1;", "In a = 1;"), encoding="utf-8")
    assert answer("check", subject, str(fits))["compatible"] is True
    assert answer("check", subject, str(does_not), code=3)["compatible"] is False
