from __future__ import annotations

import base64
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_tools import _protoc_compiler

from distributary.errors import BadSchema
from distributary.registry.bounded_cache import BoundedCache
from distributary.registry.protobuf import protoc
from distributary.registry.protobuf.text import MAX_BYTES, compile_text
from distributary.registry.references import MAX_IMPORTS

INNER = 'syntax = "proto3"; package x; message Inner { int32 a = 1; }'
MIDDLE = 'syntax = "proto3"; package x; import "deep/inner.proto"; message Middle { Inner inner = 1; }'
OUTER = 'syntax = "proto3"; package x; import "middle.proto"; message Outer { Middle middle = 1; }'
IMPORTS = {"deep/inner.proto": INNER, "middle.proto": MIDDLE}


def files(text: str, imports: dict[str, str] | None = None) -> list[FileDescriptorProto]:
    found = FileDescriptorSet.FromString(compile_text(text, imports))
    # Only protoc's command line spells out JSON names that follow from the fields' names.
    for field in (field for file in found.file for message in file.message_type for field in message.field):
        field.ClearField("json_name")
    return list(found.file)


def names(text: str, imports: dict[str, str] | None = None) -> list[str]:
    return [file.name for file in files(text, imports)]


def in_base64(file: FileDescriptorProto, name: str | None = None) -> str:
    """What confluent-kafka's ProtobufSerializer registers, under the producer's own file name or none."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    copy.ClearField("name")
    if name is not None:
        copy.name = name
    return base64.b64encode(copy.SerializeToString()).decode()


def test_nested_imports_come_before_what_needs_them() -> None:
    assert names(OUTER, IMPORTS) == ["deep/inner.proto", "middle.proto", "schema.proto"]


def test_imports_that_nothing_needs_are_left_out() -> None:
    assert names(INNER, {"unused.proto": "this is not even Protobuf"}) == ["schema.proto"]


def test_a_decoder_can_load_the_set_in_its_order() -> None:
    pool = DescriptorPool()
    for file in files(OUTER, IMPORTS):
        pool.Add(file)
    assert [field.name for field in pool.FindMessageTypeByName("x.Outer").fields] == ["middle"]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("google/protobuf/timestamp.proto", "google.protobuf.Timestamp"),
        ("google/protobuf/wrappers.proto", "google.protobuf.Int64Value"),
        ("google/protobuf/struct.proto", "google.protobuf.Struct"),
        ("google/type/money.proto", "google.type.Money"),
        ("confluent/type/decimal.proto", "confluent.type.Decimal"),
    ],
)
def test_well_known_types_need_not_be_given(name: str, field: str) -> None:
    text = f'syntax = "proto3"; import "{name}"; message A {{ {field} f = 1; }}'
    assert name in names(text)


def test_a_registrys_own_copy_of_a_well_known_type_does_not_replace_it() -> None:
    imports = {"google/protobuf/empty.proto": 'syntax = "proto3"; package other; message Empty {}'}
    text = (
        'syntax = "proto3"; import "google/protobuf/empty.proto"; message A { google.protobuf.Empty e = 1; }'
    )
    assert names(text, imports) == ["google/protobuf/empty.proto", "schema.proto"]


def test_confluents_field_options_are_known() -> None:
    text = (
        'syntax = "proto3"; import "confluent/meta.proto"; '
        'message A { int32 a = 1 [(confluent.field_meta).doc = "x"]; }'
    )
    assert "confluent/meta.proto" in names(text)


@pytest.mark.parametrize(
    ("text", "syntax"),
    [
        ('syntax = "proto2"; message A { required int32 a = 1; }', ""),
        ("// no syntax means proto2\n/* ** */ message A { optional int32 a = 1 [default = 3]; }", ""),
        ("\ufeffmessage A { optional int32 a = 1; }", ""),
        ("", ""),
        ('/* a */ // b\nsyntax = "proto3"; message A { optional int32 a = 1; }', "proto3"),
        ('edition = "2023"; message A { int32 a = 1; }', "editions"),
    ],
)
def test_every_syntax_compiles_and_nothing_is_printed(
    text: str, syntax: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert files(text)[-1].syntax == syntax
    assert capfd.readouterr() == ("", "")


def test_what_protoc_only_warns_of_but_no_decoder_loads_is_refused(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(BadSchema, match="duplicate json_name"):
        compile_text('syntax = "proto2"; message A { optional int32 a_b = 1; optional int32 aB = 2; }')
    assert capfd.readouterr() == ("", "")


def test_a_syntax_error_names_file_line_and_column_and_prints_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(BadSchema, match=r'schema\.proto:3:5: "Txt" is not defined'):
        compile_text('syntax = "proto3";\nmessage A {\n    Txt a = 1;\n}')
    with pytest.raises(BadSchema, match=r"middle\.proto:1:20: Expected top-level statement"):
        compile_text(OUTER, {"middle.proto": 'syntax = "proto3"; note A {}'})
    assert capfd.readouterr() == ("", "")


def test_an_import_that_is_not_given_is_named() -> None:
    with pytest.raises(BadSchema, match=r"middle\.proto: File not found"):
        compile_text(OUTER)


def test_a_schema_that_imports_itself_is_refused() -> None:
    with pytest.raises(BadSchema, match="recursively imports itself"):
        compile_text(
            'syntax = "proto3"; import "a.proto";', {"a.proto": 'syntax = "proto3"; import "a.proto";'}
        )


def test_an_import_may_have_the_name_of_the_schemas_own_file() -> None:
    text = 'syntax = "proto3"; package x; import "schema.proto"; message Own { Inner inner = 1; }'
    assert names(text, {"schema.proto": INNER}) == ["schema.proto", "own_schema.proto"]


@pytest.mark.parametrize("own_name", [None, "games_pb.proto", "middle.proto"])
def test_a_base64_descriptor_stands_for_the_text_whatever_its_own_name(own_name: str | None) -> None:
    inner, middle, outer = files(OUTER, IMPORTS)
    encoded = {
        "deep/inner.proto": in_base64(inner, own_name),
        "middle.proto": in_base64(middle, own_name),
    }
    expected = [inner, middle, outer]
    assert files(in_base64(outer, own_name), encoded) == expected
    assert files(in_base64(outer, own_name), IMPORTS) == expected
    assert files(OUTER, encoded) == expected
    assert files(OUTER, {**IMPORTS, "middle.proto": encoded["middle.proto"]}) == expected
    assert files(OUTER, {**IMPORTS, "deep/inner.proto": encoded["deep/inner.proto"]}) == expected


def test_errors_around_base64_imports_are_protocs_own_and_name_no_folder(
    capfd: pytest.CaptureFixture[str],
) -> None:
    _, middle, outer = files(OUTER, IMPORTS)
    with pytest.raises(BadSchema, match=r"^protoc: schema\.proto:2:1: Expected top-level") as caught:
        compile_text(
            'syntax = "proto3"; import "middle.proto";\nnote A {}',
            {**IMPORTS, "middle.proto": in_base64(middle)},
        )
    assert "distributary-protoc" not in str(caught.value)
    with pytest.raises(BadSchema, match=r"deep/inner\.proto: File not found"):
        compile_text(OUTER, {"middle.proto": in_base64(middle)})
    with pytest.raises(BadSchema, match=r"middle\.proto: File not found"):
        compile_text(in_base64(outer))
    assert capfd.readouterr() == ("", "")


def test_a_descriptor_that_does_not_fit_its_imports_is_refused() -> None:
    outer = files(OUTER, IMPORTS)[-1]
    with pytest.raises(BadSchema, match=r"schema\.proto does not fit"):
        compile_text(in_base64(outer), {"middle.proto": INNER})


def test_a_descriptors_hostile_dependency_is_refused() -> None:
    for name in ("../../x.proto", '"; option x = "', "/etc/passwd"):
        with pytest.raises(BadSchema):
            compile_text(in_base64(FileDescriptorProto(dependency=[name])))


@pytest.mark.parametrize("text", ["Zm9v", "AAAA", "nope", "\ud800;", "}{", "\x00", 'syntax = "proto4";'])
def test_what_is_no_protobuf_is_a_bad_schema(text: str) -> None:
    with pytest.raises(BadSchema):
        compile_text(text)


def test_hostile_import_names_are_refused_whether_given_or_imported() -> None:
    with pytest.raises(BadSchema, match=r"has a part '\.'"):
        compile_text(INNER, {"../../x.proto": INNER})
    with pytest.raises(BadSchema, match="virtual path"):
        compile_text('syntax = "proto3"; import "../../../../etc/hostname";')
    with pytest.raises(BadSchema, match=r"not found|virtual path"):
        compile_text('syntax = "proto3"; import "/etc/hostname";')
    with pytest.raises(BadSchema, match="a file and a folder"):
        compile_text(INNER, {"a": INNER, "a/b": INNER})


def test_size_and_number_of_imports_are_bounded() -> None:
    with pytest.raises(BadSchema, match="characters"):
        compile_text("/" * (MAX_BYTES + 1))
    with pytest.raises(BadSchema, match="imports"):
        compile_text(INNER, {f"{number}.proto": "" for number in range(MAX_IMPORTS + 1)})


def test_deep_nesting_is_refused_and_does_not_end_the_process() -> None:
    with pytest.raises(BadSchema):
        compile_text('syntax = "proto3"; ' + "message A { " * 20_000 + "}" * 20_000)


def test_many_threads_each_get_their_own_result() -> None:
    def compiled(number: int) -> str:
        imports = {"a.proto": f'syntax = "proto3"; message A{number} {{}}'}
        text = f'syntax = "proto3"; import "a.proto"; message B {{ A{number} a = 1; }}'
        if number % 3 == 0:
            with pytest.raises(BadSchema, match=f'"Nope{number}" is not defined'):
                compile_text(f'syntax = "proto3"; message B {{ Nope{number} a = 1; }}')
        return files(text, imports)[-1].message_type[0].field[0].type_name

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(compiled, range(120))) == [f".A{number}" for number in range(120)]


def test_the_same_schema_is_compiled_once() -> None:
    assert compile_text(OUTER, IMPORTS) is compile_text(OUTER, dict(reversed(IMPORTS.items())))


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto3";' + "message M {" * 2_000 + "}" * 2_000,
        "option (x) = " + "{a:" * 2_000 + "1" + "}" * 2_000 + ";",
    ],
)
def test_a_text_that_nests_too_deeply_is_refused_before_protoc_takes_all_memory_for_it(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protoc, "compile_files", lambda *_: pytest.fail("protoc was asked"))
    with pytest.raises(BadSchema, match="nests more than 500 levels"):
        compile_text(text)
    with pytest.raises(BadSchema, match="nests more than 500 levels"):
        compile_text('syntax = "proto3"; message M {}', {"deep.proto": text})


def test_brackets_in_comments_and_texts_nest_nothing() -> None:
    many = "{[(<" * 1_000
    text = f'syntax = "proto2"; // {many}\n/* {many} */ message M {{ optional string a = 1 [default = "\\"{many}"]; }}'
    assert compile_text(text)


def test_what_protoc_says_against_a_text_without_sense_is_short() -> None:
    with pytest.raises(BadSchema) as refused:
        compile_text("x;" * 20_000)
    assert len(str(refused.value)) < 20_000


PYTHON = sys.executable


def by_process(name: str) -> str:
    """A schema that only protoc's command line compiles, and nobody has asked for yet."""
    return f'syntax = "proto3"; import "confluent/meta.proto"; message {name} {{ int32 a = 1; }}'


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Has a shell's script run in the place of protoc, which is `"$@"` there."""

    def put(script: str) -> None:
        file = tmp_path / "protoc"
        file.write_text(f'#!/bin/sh\nset -- {PYTHON} "$@"\n{script}\n')
        file.chmod(0o700)
        monkeypatch.setattr("distributary.registry.protobuf.protoc.sys.executable", str(file))

    return put


def told_of_the_descriptor(why: str) -> str:
    """What protoc prints of the file that it writes."""
    return (
        f'for one; do case $one in --descriptor_set_out=*) echo "${{one#*=}}: {why}" >&2;; esac; done; exit 1'
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("kill -9 $$", "SIGKILL"),
        ("kill -2 $$", "SIGINT"),
        (told_of_the_descriptor("No space left on device"), "space"),
        (told_of_the_descriptor("Too many open files"), "open files"),
        # Of a Python that does not get as far as protoc.
        ('exec "$1" -S -I "$2" "$3"', "could not be begun"),
    ],
)
def test_what_happens_to_protoc_is_not_held_against_the_schema(
    instead: Callable[[str], None], script: str, said: str
) -> None:
    text = by_process("Blameless")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("distributary.registry.protobuf.text._compiled", BoundedCache(10))
        instead(script)
        with pytest.raises(OSError, match=said):
            compile_text(text)
        instead('exec "$@"')
        assert names(text)[-1] == "schema.proto"


@pytest.mark.parametrize("why", ["No space left on device", "a: No space left on device\\nb"])
def test_a_schema_that_imports_what_is_called_like_an_error_is_refused_and_stops_nobody(why: str) -> None:
    text = f'syntax = "proto3"; import "confluent/meta.proto"; import "{why}"; message M {{}}'
    with pytest.raises(BadSchema, match="space"):
        compile_text(text)


def test_a_file_that_protoc_may_not_open_is_not_held_against_the_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    get_protos, (soft, hard) = _protoc_compiler.get_protos, resource.getrlimit(resource.RLIMIT_NOFILE)

    def without_files(*asked: object) -> object:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            return get_protos(*asked)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    text = 'syntax = "proto3"; message OfNoFiles { int32 a = 1; }'
    with monkeypatch.context() as patch:
        patch.setattr(_protoc_compiler, "get_protos", without_files)
        with pytest.raises(OSError, match="Too many open files"):
            compile_text(text)
    assert names(text) == ["schema.proto"]
    with pytest.raises(BadSchema, match="nowhere"):
        compile_text('syntax = "proto3"; import "nowhere.proto"; message OfNothing { int32 a = 1; }')


def test_protoc_is_asked_once_more_where_it_stood_still(
    instead: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    instead(f'if [ -e {asked} ]; then exec "$@"; fi; touch {asked}; exec sleep 60')
    in_time = protoc._in_time

    def impatient(command: list[str]) -> object:
        monkeypatch.setattr(protoc, "_SECONDS", 60 if asked.exists() else 0.5)
        return in_time(command)

    monkeypatch.setattr(protoc, "_in_time", impatient)
    assert names(by_process("Patient"))[-1] == "schema.proto"


def test_a_schema_that_protoc_is_never_done_with_is_refused(
    instead: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    instead("exec sleep 60")
    monkeypatch.setattr(protoc, "_SECONDS", 0.1)
    with pytest.raises(BadSchema, match=r"not done after 0\.1 s"):
        compile_text(by_process("Endless"))
