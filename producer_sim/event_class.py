"""From a schema's text to the class that serialises its record."""

from __future__ import annotations

from functools import lru_cache

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from distributary.producer_sim.event_model import PACKAGE, EventSchema
from distributary.producer_sim.event_proto_text import proto_text
from distributary.producer_sim.versions import event_schema
from distributary.registry.protobuf_text import compile_text


def event_class(version: int) -> type[Message]:
    """The message class of the event at this version."""
    return record_class(event_schema(version))


def record_class(schema: EventSchema) -> type[Message]:
    """The message class of a schema's record."""
    return _compiled(proto_text(schema), f"{PACKAGE}.{schema.record}")


@lru_cache(maxsize=256)
def _compiled(text: str, record: str) -> type[Message]:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compile_text(text)).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(record))
