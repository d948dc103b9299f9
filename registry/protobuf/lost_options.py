"""Options that a registry lost of a Protobuf schema which was registered as a descriptor, and put back from what is left.

Such a registry prints the descriptor as text without them. Of an enum whose numbers repeat nothing else can be meant than aliases: protoc takes
it with the option alone. A map without its option is a list of messages, byte by byte the same on the wire, and only their name tells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorSet

_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_]\w*|\d\w*|\S", re.DOTALL
)

_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|\d+")

_Field = FieldDescriptorProto

# What keys of a map may be; neither a number with a fraction, nor bytes, an enum or a message.
_NO_KEYS = {
    *(_Field.TYPE_DOUBLE, _Field.TYPE_FLOAT, _Field.TYPE_BYTES, _Field.TYPE_ENUM),
    *(_Field.TYPE_MESSAGE, _Field.TYPE_GROUP),
}


def with_aliases(text: str) -> str:
    """The .proto text with the option `allow_alias` in each enum whose numbers repeat without it."""
    found = [
        one.begin for one in _blocks(text) if one.word == "enum" and one.repeats and not one.allows_alias
    ]
    return _inserted(text, found, " option allow_alias = true;")


def with_map_entries(text: str, files: FileDescriptorSet) -> str:
    """The .proto text with the option `map_entry` in each nested message that is named as protoc names a map's entry.

    That is a message `TagsEntry` with a `key = 1` and a `value = 2` and nothing else, in the one message that has a `repeated TagsEntry tags`,
    and used by nothing else. `files` is what the text compiles to, its own file last.
    """
    own = files.file[-1]
    above = f".{own.package}." if own.package else "."
    uses = Counter(name for message in own.message_type for name in _types_used(message))
    entries = {path for message in own.message_type for path in _entries(message, (), above, uses)}
    found = [one.begin for one in _blocks(text) if one.word == "message" and one.path in entries]
    return _inserted(text, found, " option map_entry = true;")


@dataclass(slots=True)
class _Block:
    """What stands between braces: behind which word and name, within which others or which statement, and what an enum says in it."""

    word: str
    path: tuple[str, ...]
    begin: int
    within: list[str]
    numbers: list[int] = field(default_factory=list)
    allows_alias: bool = False

    @property
    def repeats(self) -> bool:
        """Whether a number stands in it twice."""
        return len(set(self.numbers)) < len(self.numbers)

    def take(self, statement: list[str]) -> None:
        """Note a statement right in it."""
        if statement[:3] == ["option", "allow_alias", "="]:
            self.allows_alias = True
        elif len(statement) > 2 and statement[1] == "=" and statement[0] != "option":
            sign, digits = (-1, statement[3:4]) if statement[2] == "-" else (1, statement[2:3])
            if digits and _NUMBER.fullmatch(digits[0]):
                self.numbers.append(sign * _whole(digits[0]))


def _whole(digits: str) -> int:
    if digits[:2] in ("0x", "0X"):
        return int(digits, 16)
    return int(digits, 8) if digits[0] == "0" and re.fullmatch("[0-7]+", digits) else int(digits)


def _blocks(text: str) -> Iterator[_Block]:
    """The messages and enums of a text."""
    open_: list[_Block] = []
    statement: list[str] = []
    for match in _TOKEN.finditer(text):
        part = match[0]
        if part.startswith(("//", "/*")):
            continue
        if part == "{":
            named = len(statement) == 2
            word, name = statement if named else ("", "")
            above = open_[-1].path if open_ else ()
            # The value of an option stands between braces, too, in the middle of a statement.
            open_.append(_Block(word, (*above, name), match.end(), [] if named else statement))
            statement = []
        elif part == "}" and open_:
            block = open_.pop()
            statement = block.within
            if block.word in ("message", "enum"):
                yield block
        elif part == ";":
            if open_ and statement:
                open_[-1].take(statement)
            statement = []
        else:
            statement.append(part)


def _inserted(text: str, places: list[int], words: str) -> str:
    for place in sorted(places, reverse=True):
        text = text[:place] + words + text[place:]
    return text


def _entries(
    message: DescriptorProto, above: tuple[str, ...], package: str, uses: Mapping[str, int]
) -> Iterator[tuple[str, ...]]:
    path = (*above, message.name)
    nested = {one.name: one for one in message.nested_type}
    for one in message.field:
        name = _entry_name(one.name)
        entry = nested.get(name)
        whole = f"{package}{'.'.join((*path, name))}"
        if entry is None or one.type_name != whole or one.label != _Field.LABEL_REPEATED:
            continue
        if uses[whole] == 1 and not entry.options.map_entry and _is_entry(entry):
            yield (*path, name)
    for inner in message.nested_type:
        yield from _entries(inner, path, package, uses)


def _is_entry(message: DescriptorProto) -> bool:
    fields = [(one.name, one.number, one.label) for one in message.field]
    plain = DescriptorProto(name=message.name, field=message.field)
    if fields != [("key", 1, _Field.LABEL_OPTIONAL), ("value", 2, _Field.LABEL_OPTIONAL)] or message != plain:
        return False
    return message.field[0].type not in _NO_KEYS and not any(one.proto3_optional for one in message.field)


def _entry_name(of_field: str) -> str:
    """As protoc makes it."""
    return "".join(part[:1].upper() + part[1:] for part in of_field.split("_")) + "Entry"


def _types_used(message: DescriptorProto) -> Iterator[str]:
    yield from (one.type_name for one in (*message.field, *message.extension) if one.type_name)
    for inner in message.nested_type:
        yield from _types_used(inner)
