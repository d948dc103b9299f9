"""The .proto text of a game event, whole or with the messages inside of it imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from distributary.producer_sim.event_model import PACKAGE, TIMESTAMP, EventSchema, Field

TIMESTAMP_FILE = "google/protobuf/timestamp.proto"


def proto_text(schema: EventSchema, imported: bool = False) -> str:
    """The text of a schema; with `imported` its parts are imported instead of being in it."""
    messages = [schema.record] if imported else [*schema.messages]
    imports = [import_name(part) for part in schema.parts] if imported else []
    lines = _beginning(schema, messages, imports)
    for name in messages:
        lines += _message(name, schema)
    for name, symbols in schema.enums.items():
        lines += [f"enum {name} {{", *(f"  {symbol} = {i};" for i, symbol in enumerate(symbols)), "}", ""]
    return "\n".join(lines)


def part_text(part: str, schema: EventSchema) -> str:
    """The text of a file with one of the record's parts."""
    return "\n".join([*_beginning(schema, [part], []), *_message(part, schema)])


def import_name(part: str) -> str:
    """By which name a part's file is imported."""
    return f"{PACKAGE}/{part.lower()}.proto"


def _beginning(schema: EventSchema, messages: Sequence[str], imports: list[str]) -> list[str]:
    uses_timestamp = any(field.type == TIMESTAMP for name in messages for field in schema.messages[name])
    wanted = [TIMESTAMP_FILE, *imports] if uses_timestamp else imports
    lines = [f'import "{name}";' for name in wanted]
    return ['syntax = "proto3";', "", f"package {PACKAGE};", "", *lines, *([""] if lines else [])]


def _message(name: str, schema: EventSchema) -> list[str]:
    gone = schema.gone.get(name, ())
    reserved = [f'  reserved {field.number};\n  reserved "{field.name}";' for field in gone]
    return [f"message {name} {{", *reserved, *_declarations(schema.messages[name]), "}", ""]


def _declarations(fields: tuple[Field, ...]) -> Iterator[str]:
    """The lines of a message's body; the members of a oneof are neighbours."""
    for oneof, members in groupby(fields, key=lambda field: field.oneof):
        indent = "    " if oneof else "  "
        if oneof:
            yield f"  oneof {oneof} {{"
        for field in members:
            # proto3 knows no `required`: a field without a label always has a value.
            label = f"{field.label} " if field.label in ("optional", "repeated") else ""
            yield f"{indent}{label}{field.type} {field.name} = {field.number};"
        if oneof:
            yield "  }"
