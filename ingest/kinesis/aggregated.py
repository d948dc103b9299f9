"""Records in which the Kinesis Producer Library has put several: taken apart again.

https://github.com/awslabs/amazon-kinesis-producer/blob/master/aggregation-format.md
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

_MAGIC = b"\xf3\x89\x9a\xc2"

_DIGEST = 16

_FIELD = descriptor_pb2.FieldDescriptorProto


def taken_apart(key: str, data: bytes) -> Iterator[tuple[str, bytes, int | None]]:
    """The records in one of Kinesis's: key, value, and which of several it is; None where there is but one.

    What only looks like several, as its digest or its content says, is one.
    """
    found = list(_inner(data)) if data.startswith(_MAGIC) else None
    if found is None or None in found:
        yield key, data, None
        return
    yield from ((own[0], own[1], number) for number, own in enumerate(found) if own is not None)


def _inner(data: bytes) -> Iterator[tuple[str, bytes] | None]:
    """Key and value of each; a None where it is no such record after all."""
    body, digest = data[len(_MAGIC) : -_DIGEST], data[-_DIGEST:]
    if len(data) < len(_MAGIC) + _DIGEST or md5(body, usedforsecurity=False).digest() != digest:
        yield None
        return
    message = _MESSAGE()
    try:
        message.ParseFromString(body)
        yield from [
            (message.partition_key_table[one.partition_key_index], one.data) for one in message.records
        ]
    except (DecodeError, IndexError):
        yield None


def _message() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="distributary/aggregated.proto", package="distributary.aggregated", syntax="proto2"
    )
    record = file.message_type.add(name="Record")
    for number, (name, kind, label) in enumerate(
        [
            ("partition_key_index", _FIELD.TYPE_UINT64, _FIELD.LABEL_REQUIRED),
            ("explicit_hash_key_index", _FIELD.TYPE_UINT64, _FIELD.LABEL_OPTIONAL),
            ("data", _FIELD.TYPE_BYTES, _FIELD.LABEL_REQUIRED),
        ],
        1,
    ):
        record.field.add(name=name, number=number, type=kind, label=label)
    whole = file.message_type.add(name="AggregatedRecord")
    for number, name in enumerate(["partition_key_table", "explicit_hash_key_table"], 1):
        whole.field.add(name=name, number=number, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_REPEATED)
    whole.field.add(
        name="records",
        number=3,
        type=_FIELD.TYPE_MESSAGE,
        type_name=".distributary.aggregated.Record",
        label=_FIELD.LABEL_REPEATED,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("distributary.aggregated.AggregatedRecord")
    )


_MESSAGE = _message()
