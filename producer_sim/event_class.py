"""From a schema's text to the class that serialises its record, the way a producer outside of us would do it."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from grpc_tools import protoc

from distributary.errors import BadSchema
from distributary.producer_sim.versions import PACKAGE, RECORD, schema_text


@lru_cache(maxsize=256)
def event_class(version: int) -> type[Message]:
    """The message class of the event at this version."""
    pool = descriptor_pool.DescriptorPool()
    for file in _compiled(schema_text(version)).file:
        pool.Add(file)  # type: ignore[no-untyped-call]
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{RECORD}"))


def _compiled(text: str) -> descriptor_pb2.FileDescriptorSet:
    """The descriptors of this text and of what it imports."""
    with tempfile.TemporaryDirectory(prefix="distributary-proto-") as folder:
        Path(folder, "event.proto").write_text(text, encoding="utf-8")
        well_known = files("grpc_tools") / "_proto"
        arguments = [
            f"-I{folder}",
            f"-I{well_known}",
            "--include_imports",
            f"--descriptor_set_out={folder}/out",
        ]
        if protoc.main(["protoc", *arguments, "event.proto"]) != 0:
            raise BadSchema("the simulator's own event schema does not compile; protoc says why on stderr")
        return descriptor_pb2.FileDescriptorSet.FromString(Path(folder, "out").read_bytes())
