"""From a schema's text to the class that serialises its record."""

from __future__ import annotations

from functools import lru_cache

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from distributary.producer_sim.versions import PACKAGE, RECORD, schema_text
from distributary.registry.protobuf_text import compile_text


@lru_cache(maxsize=256)
def event_class(version: int) -> type[Message]:
    """The message class of the event at this version."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compile_text(schema_text(version))).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{RECORD}"))
