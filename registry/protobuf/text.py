"""Protobuf schemas as a registry keeps them, turned into the descriptors that decoders take.

A registry's text is a .proto file, or a descriptor in base64. protoc compiles it, after two looks of our own: `option map_entry`, which some
serializers write and protoc refuses, is marked and put back; and the names of imports, which become files, are checked.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from distributary.errors import BadSchema
from distributary.registry.bounded_cache import BoundedCache
from distributary.registry.protobuf import protoc
from distributary.registry.protobuf.lost_options import with_aliases, with_map_entries
from distributary.registry.references import MAX_IMPORTS

MAX_BYTES = 4 * 1024 * 1024

_compiled: BoundedCache[bytes, bytes] = BoundedCache(1_000)

# What a .proto file of more than an empty statement cannot do without, and base64 never has.
_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/=\s]")


def compile_text(text: str, imports: Mapping[str, str] | None = None) -> bytes:
    """A serialized FileDescriptorSet of the schema: dependencies before dependants, the schema's own file last.

    Text and imports may be .proto text (proto2, proto3, editions) or a base64 FileDescriptorProto. The
    well-known types, `google/type` and Confluent's own imports need not be given. Raises BadSchema with
    protoc's own message; the schema's own file is called `schema.proto` there.
    """
    imports = imports or {}
    key = _digest(text, imports)
    compiled = _compiled.get(key)
    if compiled is None:
        compiled = _compile(text, imports).SerializeToString()
        _compiled.put(key, compiled)
    return compiled


def _compile(text: str, imports: Mapping[str, str]) -> FileDescriptorSet:
    _check_size(text, imports)
    for name in imports:
        checked_import_name(name)
    descriptors = {name: file for name, body in imports.items() if (file := _descriptor(body, name))}
    texts = {name: body for name, body in imports.items() if name not in descriptors}
    own_name = _free_name(imports)
    own = _descriptor(text, own_name)
    if own is None:
        files = _compile_texts(own_name, {**texts, own_name: text}, descriptors)
    else:
        files = _around(own, texts, descriptors)
    _check_links(files)
    return files


def _compile_texts(
    root: str, texts: Mapping[str, str], descriptors: Mapping[str, FileDescriptorProto]
) -> FileDescriptorSet:
    plain = {name: marked(text) for name, text in texts.items()}
    files = _with_aliases(root, plain, descriptors)
    if plain != texts:
        restore(files)
    return files


def _with_aliases(
    root: str, texts: Mapping[str, str], descriptors: Mapping[str, FileDescriptorProto]
) -> FileDescriptorSet:
    """What protoc makes of the texts, where it refuses them with the aliases allowed that a registry's text has lost the word of."""
    try:
        return protoc.compile_files(root, texts, descriptors)
    except BadSchema:
        allowed = {name: with_aliases(text) for name, text in texts.items()}
        if allowed == texts:
            raise
    return protoc.compile_files(root, allowed, descriptors)


def with_named_entries(text: str, imports: Mapping[str, str]) -> str:
    """The text with its maps where a registry has lost that they are maps: see `lost_options`. Other schemas stay as they are."""
    if "Entry" not in text or _descriptor(text, "schema.proto") is not None:
        return text
    try:
        return with_map_entries(text, FileDescriptorSet.FromString(compile_text(text, imports)))
    except BadSchema:  # whoever decodes with it says so
        return text


def _around(
    own: FileDescriptorProto, texts: Mapping[str, str], descriptors: Mapping[str, FileDescriptorProto]
) -> FileDescriptorSet:
    """A descriptor with what it depends on: compiled as the imports of a file that holds nothing else."""
    for name in own.dependency:
        checked_import_name(name)
    lines = ['syntax = "proto3";', *(f'import "{name}";' for name in own.dependency if '"' not in name)]
    root = _free_name({**texts, **descriptors, own.name: ""})
    files = _compile_texts(root, {**texts, root: "\n".join(lines)}, descriptors)
    del files.file[-1]
    files.file.append(own)
    return files


def _descriptor(text: str, name: str) -> FileDescriptorProto | None:
    """The FileDescriptorProto that this is the base64 form of, under the given name; None for .proto text.

    The name inside is the producer's own or missing, while dependants know the file by its import name.
    """
    if not text.strip() or _NO_BASE64.search(text):
        return None
    try:
        file = FileDescriptorProto.FromString(base64.b64decode("".join(text.split()), validate=True))
    except (binascii.Error, DecodeError):
        return None  # protoc says what is wrong with it, if it is needed at all
    file.name = name
    return file


def _check_links(files: FileDescriptorSet) -> None:
    """Refuse what a decoder could not load: protoc vouches for texts, nobody for base64 descriptors."""
    pool = DescriptorPool()
    for file in files.file:
        try:
            pool.Add(file)
            pool.FindFileByName(file.name)
        except (TypeError, KeyError) as error:
            raise BadSchema(f"{file.name} does not fit together with its imports: {error}") from None


def _check_size(text: str, imports: Mapping[str, str]) -> None:
    if len(imports) > MAX_IMPORTS:
        raise BadSchema(f"the schema has {len(imports)} imports; at most {MAX_IMPORTS} are compiled")
    size = len(text) + sum(map(len, imports.values()))
    if size > MAX_BYTES:
        raise BadSchema(
            f"the schema and its imports have {size} characters; at most {MAX_BYTES} are compiled"
        )
    if any(_levels(one) > _MOST_LEVELS for one in (text, *imports.values())):
        raise BadSchema(f"the schema or an import nests more than {_MOST_LEVELS} levels; protoc takes 32")


# protoc needs memory by the square of them before it refuses them.
_MOST_LEVELS = 500

_OPENS, _CLOSES = "{[(<", "}])>"

# Brackets, and what holds brackets that are none: comments, and texts, which end with their line.
_BRACKETS = re.compile(
    r"""//[^\n]*|/\*(?:.*?\*/|.*)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|[][{}()<>]""", re.DOTALL
)


def _levels(text: str) -> int:
    """How many brackets at most are open at once."""
    most = level = 0
    for found in _BRACKETS.finditer(text):
        bracket = found[0]
        if len(bracket) == 1:
            level += (bracket in _OPENS) - (bracket in _CLOSES)
            most = max(most, level)
    return most


def _free_name(taken: Mapping[str, object]) -> str:
    name = "schema.proto"
    while name in taken:
        name = f"own_{name}"
    return name


def _digest(text: str, imports: Mapping[str, str]) -> bytes:
    digest = sha256()
    for part in (text, *(part for item in sorted(imports.items()) for part in item)):
        # Lengths between the parts, so that no two schemas run together to the same bytes.
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded) + encoded)
    return digest.digest()


_OPTION = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")

# Stands for the option until protoc is done; an empty message is allowed in every syntax, and changes nothing else.
_MARK = "DistributaryMarksMapEntry"


def marked(text: str) -> str:
    """The text in a form that protoc takes."""
    return _OPTION.sub(f"message {_MARK} {{}}", text) if "map_entry" in text else text


def restore(files: FileDescriptorSet) -> None:
    """Make map entries of what `marked` has marked."""
    for file in files.file:
        _restore(file.message_type)


def _restore(messages: Iterable[DescriptorProto]) -> None:
    for message in messages:
        mark = next((place for place, one in enumerate(message.nested_type) if one.name == _MARK), None)
        if mark is not None:
            del message.nested_type[mark]
            message.options.map_entry = True
        _restore(message.nested_type)


_LONGEST_NAME = 1024

_LONGEST_PART = 255

_MOST_PARTS = 32


def checked_import_name(name: str) -> str:
    """The name itself, if it is a plain relative path with forward slashes; raises BadSchema otherwise.

    protoc takes no other names either, so nothing that compiles elsewhere is refused here.
    """
    trouble = _trouble(name)
    if trouble:
        raise BadSchema(f"import name {name[:100]!r} {trouble}; an import must be a plain relative path")
    return name


def _trouble(name: str) -> str:
    parts = name.split("/")
    if not name.isprintable() or "\\" in name:
        return "holds a backslash or an unprintable character"
    if "" in parts:
        return "is empty, absolute, or has an empty part"
    if "." in parts or ".." in parts:
        return "has a part '.' or '..'"
    if ":" in parts[0]:
        return "looks like a drive or an address"
    encoded = [len(part.encode()) for part in parts]
    if max(encoded) > _LONGEST_PART or sum(encoded) > _LONGEST_NAME or len(parts) > _MOST_PARTS:
        return "is too long"
    return ""
