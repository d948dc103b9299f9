"""A whole client of boto3's against moto's Glue: what both do, which lists no versions."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from distributary.errors import SchemaNotFound
from distributary.registry.base import Guid
from distributary.registry.glue.options import GlueAccess
from distributary.registry.glue.registry import GlueRegistry
from distributary.registry.waits import Waits

pytestmark = pytest.mark.skipif(
    find_spec("boto3") is None or find_spec("pyparsing") is None or find_spec("moto") is None,
    reason="moto and boto3 are not there: they need an environment of their own (make test-heavy)",
)

AVRO = '{"type":"record","name":"R","fields":[{"name":"game","type":"string"}]}'


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[GlueRegistry]:
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - it is not in every environment

    for name, value in (("ACCESS_KEY_ID", "anybody"), ("SECRET_ACCESS_KEY", "anything")):
        monkeypatch.setenv(f"AWS_{name}", value)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    access = GlueAccess(region="eu-central-1", endpoint=f"http://127.0.0.1:{port}")
    waits = Waits(retry_seconds=0, unknown_id_wait_seconds=0, failing_id_wait_seconds=0)
    try:
        with GlueRegistry(access, waits) as opened:
            yield opened
    finally:
        server.stop()


def test_what_was_registered_is_had_by_its_uuid(registry: GlueRegistry) -> None:
    first = registry.register("game-events", AVRO, "AVRO")
    assert registry.register("game-events", AVRO, "AVRO") == first
    more = AVRO.replace("]}", ',{"name":"level","type":"int","default":0}]}')
    second = registry.register("game-events", more, "AVRO")
    assert second != first
    assert [(registry.by_ref(one).type, registry.by_ref(one).text) for one in (first, second)] == [
        ("AVRO", AVRO),
        ("AVRO", more),
    ]


def test_what_nobody_registered_is_not_found(registry: GlueRegistry) -> None:
    with pytest.raises(SchemaNotFound, match="does not know schema version"):
        registry.by_ref(Guid("5f1e5f1e-0000-4000-8000-000000000001"))
