"""Whether two texts are one schema: registries rewrite what they are given, and may do so differently after an upgrade."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from distributary.errors import BadSchema
from distributary.registry.base import Schema
from distributary.registry.protobuf.text import compile_text


def same_schema(left: Schema, right: Schema) -> bool:
    """Whether records of the one are records of the other, byte for byte.

    Spaces, comments, the order of JSON's keys and of a Protobuf message's fields do not count, nor whether a Protobuf schema
    is text or a base64 descriptor; names, types, numbers, defaults and the order of messages do. What is neither JSON nor
    Protobuf is the same as its own text alone.
    """
    if left.type != right.type:
        return False
    # As nearly always: to take their layout away reads both.
    if left.text == right.text and left.imports == right.imports:
        return True
    if _plain(left) == _plain(right):
        return True
    return left.type == "PROTOBUF" and _same_descriptors(left, right)


def _plain(schema: Schema) -> tuple[str, dict[str, str]]:
    imports = {name: _without_layout(text) for name, text in schema.imports.items()}
    return _without_layout(schema.text), imports


def _without_layout(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        # Only a compiler knows which spaces say nothing: where a line ends decides what a comment takes away.
        return text.strip()


def _same_descriptors(left: Schema, right: Schema) -> bool:
    try:
        return _files(left.text, left.imports) == _files(right.text, right.imports)
    except BadSchema:
        return False


def _files(text: str, imports: Mapping[str, str]) -> list[FileDescriptorProto]:
    """The own file last; the files before it by name, since their order says nothing."""
    *needed, own = FileDescriptorSet.FromString(compile_text(text, imports)).file
    return [_canonical_file(file) for file in (*sorted(needed, key=lambda file: file.name), own)]


def _canonical_file(file: FileDescriptorProto) -> FileDescriptorProto:
    known = FileDescriptorProto()
    known.CopyFrom(file)
    known.ClearField("source_code_info")
    # Left out and "proto2" are the same.
    known.syntax = known.syntax or "proto2"
    dependencies = sorted(known.dependency)
    del known.dependency[:], known.public_dependency[:], known.weak_dependency[:]
    known.dependency.extend(dependencies)
    for message in known.message_type:
        _make_canonical(message)
    _sort(known.enum_type)
    _sort_fields(known.extension)
    return known


def _make_canonical(message: DescriptorProto) -> None:
    """Fields by number, enums by name. Messages keep their order: records point to them by their place."""
    arms = [arm.name for arm in message.oneof_decl]
    for field in message.field:
        if field.HasField("oneof_index"):
            # By the arm's name, in a place of text that nothing else uses here: its index follows the fields' order.
            field.json_name = f"oneof {arms[field.oneof_index]}"
            field.ClearField("oneof_index")
        else:
            field.ClearField("json_name")
    del message.oneof_decl[:]
    _sort_fields(message.field)
    _sort(message.enum_type)
    for nested in message.nested_type:
        _make_canonical(nested)


def _sort_fields(fields: Iterable[FieldDescriptorProto]) -> None:
    fields.sort(key=lambda field: field.number)  # type: ignore[attr-defined]


def _sort(enums: Iterable[EnumDescriptorProto]) -> None:
    enums.sort(key=lambda enum: enum.name)  # type: ignore[attr-defined]
