"""Maps written as the messages that they are on the wire, as older Confluent registries print them.

Until late 2024 those turned `map<string, int32> x = 1` into `repeated XEntry x = 1` with a nested message of
`option map_entry = true`, which protoc refuses in a text: https://github.com/confluentinc/schema-registry/pull/3444
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

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
