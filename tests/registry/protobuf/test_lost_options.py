"""Schemas that were registered as descriptors, as a registry prints them that loses `allow_alias` and `map_entry`."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from distributary.errors import BadSchema
from distributary.registry.protobuf.lost_options import with_aliases
from distributary.registry.protobuf.text import compile_text, with_named_entries

HEAD = 'syntax = "proto3"; package p;'


def own(text: str, imports: dict[str, str] | None = None) -> FileDescriptorProto:
    return FileDescriptorSet.FromString(compile_text(text, imports)).file[-1]


@pytest.mark.parametrize(
    ("written", "lost"),
    [
        ("enum E { option allow_alias = true; A = 0; B = 1; C = 1; }", "enum E { A = 0; B = 1; C = 1; }"),
        (
            "message M { enum E { option allow_alias = true; A = 0; B = 0x1; C = 01 [deprecated = true]; } E e = 1; }",
            "message M { enum E { A = 0; /* A = 1; */ B = 0x1; C = 01 [deprecated = true]; } E e = 1; }",
        ),
        (
            "enum E { option allow_alias = true; A = 0; B = -1; C = -1; } enum F { G = 0; H = 1; }",
            'enum E { A = 0; B = -1; C = -1; } enum F { // F = 0;\n G = 0; H = 1; } option java_package = "}{";',
        ),
    ],
)
def test_numbers_that_repeat_are_aliases(written: str, lost: str) -> None:
    made = own(HEAD + lost)
    made.ClearField("options")
    assert made == own(HEAD + written)


def test_options_of_a_number_do_not_hide_it() -> None:
    text = "enum E { A = 0; B = 1 [(o) = { x: 1; y { z: 2 } }]; C = 1; }"
    assert "allow_alias" in with_aliases(text)
    assert with_aliases(text.replace("C = 1", "C = 2")) == text.replace("C = 1", "C = 2")


def test_so_they_are_in_an_import() -> None:
    text = f'{HEAD}import "e.proto"; message O {{ E e = 1; }}'
    files = FileDescriptorSet.FromString(compile_text(text, {"e.proto": f"{HEAD}enum E {{ A = 0; B = 0; }}"}))
    assert next(file for file in files.file if file.name == "e.proto").enum_type[0].options.allow_alias


def test_what_is_wrong_in_another_way_is_refused_with_protoc_s_own_words() -> None:
    with pytest.raises(BadSchema, match='"Txt" is not defined'):
        own(f"{HEAD}message M {{ Txt a = 1; }}")
    with pytest.raises(BadSchema, match="already defined"):
        own(f"{HEAD}enum E {{ A = 0; A = 0; }}")


WRITTEN = "message M { map<string, N> some_tags = 1; message I { map<int32, bool> by = 1; } } message N { string a = 1; }"
LOST = """message M {
  repeated SomeTagsEntry some_tags = 1;
  message SomeTagsEntry { string key = 1; N value = 2; }
  message I { repeated .p.M.I.ByEntry by = 1; message ByEntry { int32 key = 1; bool value = 2; } }
}
message N { string a = 1; }"""


def test_messages_that_are_named_as_the_entries_of_maps_are_these() -> None:
    found = own(with_named_entries(HEAD + LOST, {}))
    assert found.message_type[0].nested_type[0].options.map_entry
    assert found.message_type[0].nested_type[1].nested_type[0].options.map_entry
    assert own(HEAD + LOST).message_type[0].nested_type[0].options.map_entry is False
    for of in (found, wanted := own(HEAD + WRITTEN)):
        for message in (of.message_type[0], of.message_type[0].nested_type[1]):
            message.nested_type.sort(key=lambda one: str(one.name))
            for field in (*message.field, *(field for one in message.nested_type for field in one.field)):
                field.ClearField("json_name")
    assert found == wanted


@pytest.mark.parametrize(
    "text",
    [
        "message M { repeated TagsEntry tags = 1; TagsEntry first = 2; message TagsEntry { string key = 1; N value = 2; } }",
        "message M { repeated TagsEntry tags = 1; message TagsEntry { string key = 1; N value = 2; bool more = 3; } }",
        "message M { repeated TagsEntry tags = 1; message TagsEntry { string key = 2; N value = 1; } }",
        "message M { repeated TagsEntry tags = 1; message TagsEntry { string key = 1; repeated N value = 2; } }",
        "message M { repeated TagsEntry tags = 1; message TagsEntry { double key = 1; N value = 2; } }",
        "message M { repeated TagsEntry tags = 1; message TagsEntry { optional string key = 1; N value = 2; } }",
        "message M { TagsEntry tags = 1; message TagsEntry { string key = 1; N value = 2; } }",
        "message M { repeated LabelEntry tags = 1; message LabelEntry { string key = 1; N value = 2; } }",
        "message M { repeated TagsEntry tags = 1; } message TagsEntry { string key = 1; N value = 2; }",
        "message M { repeated TagsEntry tags = 1; message TagsEntry { string key = 1; N value = 2; oneof o { bool a = 3; } } }",
        "message M { Entry is = 1; message Entry { nonsense }",
    ],
)
def test_no_other_message_is_an_entry(text: str) -> None:
    whole = f"{HEAD}{text} message N {{ string a = 1; }}"
    assert with_named_entries(whole, {}) == whole
