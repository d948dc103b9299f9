"""Which message of a Protobuf schema Glue's serializers mean by a number.

All messages of the schema's own file, nested ones and the entries of maps among them, in the order of their full names
(https://github.com/awslabs/aws-glue-schema-registry, MessageIndexFinder).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

from distributary.codecs.base import RecordPath
from distributary.errors import BadSchema
from distributary.registry.base import Schema
from distributary.registry.bounded_cache import BoundedCache
from distributary.registry.protobuf.text import compile_text

_FIRST = (0,)

# No record is the entry of a map, which is numbered all the same.
_paths: BoundedCache[bytes, tuple[RecordPath | None, ...]] = BoundedCache(256)


def record_path(schema: Schema, number: RecordPath) -> RecordPath:
    """Where the message of this number is in the schema; of no number, the first one. Raises BadSchema."""
    if not number:
        return _FIRST
    descriptors = compile_text(schema.text, schema.imports)
    paths = _paths.get(descriptors)
    if paths is None:
        own = FileDescriptorSet.FromString(descriptors).file[-1]
        named = dict(_named(own.message_type, "", ()))
        paths = tuple(named[name] for name in sorted(named))
        _paths.put(descriptors, paths)
    found = paths[number[0]] if number[0] < len(paths) else None
    if found is None:
        raise BadSchema(f"the schema has no message of number {number[0]}, which the record's body names")
    return found


def _named(
    messages: Iterable[DescriptorProto], above: str, path: RecordPath
) -> Iterator[tuple[str, RecordPath | None]]:
    for place, message in enumerate(messages):
        name = f"{above}.{message.name}"
        yield name, None if message.options.map_entry else (*path, place)
        yield from _named(message.nested_type, name, (*path, place))
