"""Glue's answers as its API reference has them, given without boto3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from distributary.registry.glue.options import GlueAccess
from distributary.registry.glue.registry import GlueRegistry
from distributary.registry.waits import Waits

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))

IMPATIENT = Waits(retry_seconds=0, unknown_id_wait_seconds=0, failing_id_wait_seconds=0)

GAMES = GlueAccess(registry="games", region="eu-central-1")


class ClientError(Exception):
    """As botocore's."""

    def __init__(self, code: str, status: int = 400) -> None:
        super().__init__(f"An error occurred ({code}): hush")
        told = {"Code": code, "Message": "hush"}
        self.response = {"Error": told, "ResponseMetadata": {"HTTPStatusCode": status}}


class RecordedGlue:
    """What boto3's client for Glue answers, from a file; `fails` gives what it raises before that."""

    def __init__(self, **fails: Exception) -> None:
        self.fails = fails
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.closed = False

    def get_schema_version(self, **asked: Any) -> dict[str, Any]:
        self._ask("get_schema_version", asked)
        held: dict[str, Any] = self._known(RECORDED["get_schema_version"], asked["SchemaVersionId"])
        return held

    def list_schema_versions(self, **asked: Any) -> dict[str, Any]:
        self._ask("list_schema_versions", asked)
        assert asked["SchemaId"]["RegistryName"] == "games"
        pages: list[dict[str, Any]] = self._known(
            RECORDED["list_schema_versions"], asked["SchemaId"]["SchemaName"]
        )
        return pages["NextToken" in asked]

    def list_schemas(self, **asked: Any) -> dict[str, Any]:
        self._ask("list_schemas", asked)
        page: dict[str, Any] = RECORDED["list_schemas"]["NextToken" in asked]
        return page

    def get_schema_by_definition(self, **asked: Any) -> dict[str, Any]:
        self._ask("get_schema_by_definition", asked)
        raise ClientError("EntityNotFoundException")

    def register_schema_version(self, **asked: Any) -> dict[str, Any]:
        self._ask("register_schema_version", asked)
        return {"SchemaVersionId": "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c70", "Status": "FAILURE"}

    def create_schema(self, **asked: Any) -> dict[str, Any]:
        self._ask("create_schema", asked)
        raise AssertionError("it is there")

    def close(self) -> None:
        self.closed = True

    def _ask(self, name: str, asked: dict[str, Any]) -> None:
        self.asked.append((name, asked))
        if name in self.fails:
            raise self.fails[name]

    def _known(self, of: dict[str, Any], key: str) -> Any:
        if key not in of:
            raise ClientError("EntityNotFoundException")
        return of[key]


def recorded(glue: RecordedGlue) -> GlueRegistry:
    """A registry that asks it, without any patience."""
    return GlueRegistry(GAMES, IMPATIENT, glue)
