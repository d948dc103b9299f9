from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from distributary.registry.protobuf.text import compile_text

HEAD = 'syntax = "proto3"; package p;'
NEXT = "message Next { string a = 1; }"
# As a Confluent registry of before late 2024 prints `map<string, Next> x = 1` that was registered as a descriptor.
PRINTED = (
    f"{HEAD}message M {{\n  repeated .p.M.XEntry x = 1;\n\n  message XEntry {{\n    option map_entry = true;\n"
    f"    string key = 1;\n    Next value = 2;\n  }}\n}}\n{NEXT}"
)
WRITTEN = f"{HEAD}message M {{ map<string, Next> x = 1; }}{NEXT}"


def own(text: str, imports: dict[str, str] | None = None) -> FileDescriptorProto:
    files = FileDescriptorSet.FromString(compile_text(text, imports))
    for file in files.file:
        for message in file.message_type:
            for field in (*message.field, *(field for one in message.nested_type for field in one.field)):
                field.ClearField("json_name")
    return files.file[-1]


def test_a_map_printed_as_a_message_with_the_option_is_the_map() -> None:
    assert own(PRINTED) == own(WRITTEN)


@pytest.mark.parametrize("spelt", ["option  map_entry=true ;", "option\nmap_entry = true;"])
def test_however_the_option_is_spelt(spelt: str) -> None:
    assert own(PRINTED.replace("option map_entry = true;", spelt)) == own(WRITTEN)


def test_so_it_is_in_an_import() -> None:
    text = f'{HEAD}import "m.proto"; message O {{ M m = 1; }}'
    files = FileDescriptorSet.FromString(compile_text(text, {"m.proto": PRINTED}))
    imported = next(file for file in files.file if file.name == "m.proto")
    assert imported.message_type[0].nested_type[0].options.map_entry


def test_the_option_in_a_comment_makes_no_map() -> None:
    text = f"{HEAD}message M {{ // option map_entry = true;\n string a = 1; }}"
    assert not own(text).message_type[0].options.map_entry
