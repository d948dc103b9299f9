"""Which record type of a schema a name means: a Protobuf schema holds several, and may import more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

from distributary.codecs.base import Codec, RecordPath, RecordReader
from distributary.errors import ConfigError
from distributary.registry.base import Schema
from distributary.registry.protobuf.text import compile_text


@dataclass(frozen=True, slots=True)
class RecordType:
    """One record type: the schema whose text has it, and where it is in that text.

    The header of a record can only name types of the schema's own text, so it says nothing of an `imported` one.
    """

    schema: Schema
    path: RecordPath
    imported: bool = False

    def reader(self, codec: Codec) -> RecordReader:
        """The reader for this type. Raises BadSchema."""
        return codec.reader(self.schema, self.path)


def record_type(codec: Codec, schema: Schema, name: str | None) -> RecordType:
    """The type that goes by this name, simple or full; without a name the first one of the schema.

    Raises BadSchema where the schema cannot be compiled, and ConfigError where it has no such type, or several.
    """
    if name is None:
        return RecordType(schema, codec.default_path)
    if schema.type != "PROTOBUF":
        raise ConfigError(f"a schema of type {schema.type} has one record type only; give no message name")
    return _message(schema, name)


def _message(schema: Schema, name: str) -> RecordType:
    known = list(_types(schema))
    for fits in (_is, _ends_with):
        found = [kind for full, kind in known if fits(full, name)]
        # A type of the schema's own hides an imported one of the same simple name.
        found = [kind for kind in found if not kind.imported] or found
        if len(found) > 1:
            raise ConfigError(
                f"several messages of schema id {schema.id} are called {name!r}; give the full name"
            )
        if found:
            return found[0]
    names = ", ".join(full for full, _ in known)
    raise ConfigError(f"schema id {schema.id} has no message {name!r}; it has: {names}")


def _is(full: str, name: str) -> bool:
    return full == name


def _ends_with(full: str, name: str) -> bool:
    return full.endswith(f".{name}")


def _types(schema: Schema) -> Iterator[tuple[str, RecordType]]:
    """Every message by its full name: those of the schema's own text, then those it imports."""
    files = list(FileDescriptorSet.FromString(compile_text(schema.text, schema.imports)).file)
    for full, path in _messages(files[-1]):
        yield full, RecordType(schema, path)
    for file in files[:-1]:
        if file.name in schema.imports:
            inside = replace(schema, text=schema.imports[file.name])
            for full, path in _messages(file):
                yield full, RecordType(inside, path, imported=True)


def _messages(file: FileDescriptorProto) -> Iterator[tuple[str, RecordPath]]:
    """Every message of a file by its full name, nested ones too, and its message index."""
    yield from _nested(file.message_type, f"{file.package}." if file.package else "", ())


def _nested(
    messages: Sequence[DescriptorProto], prefix: str, path: RecordPath
) -> Iterator[tuple[str, RecordPath]]:
    for index, message in enumerate(messages):
        if message.options.map_entry:
            continue
        yield prefix + message.name, (*path, index)
        yield from _nested(message.nested_type, f"{prefix}{message.name}.", (*path, index))
