"""What the settings say of what derived tables have beside the pipeline's own: tables that are looked up in, and where else rows go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

from distributary.codecs.writing.formats import FORMATS, JSON_TEXT
from distributary.ingest.storage.place import Place
from distributary.passed_on_options import ClientOptions
from distributary.values import Group, Name, Wrong, folder_of

# https://github.com/apache/kafka/blob/trunk/clients/src/main/java/org/apache/kafka/common/internals/Topic.java
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _place(value: Any, info: ValidationInfo) -> Place:
    if isinstance(value, Place):
        return value
    is_url = isinstance(value, str) and "://" in value
    return Place.parse(value if is_url else str(folder_of(value, info)))


SomePlace = Annotated[
    Place,
    PlainValidator(_place),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "format": "place"}),
]


class Static(Group):
    """A table that no record of the pipeline is in, to look things up in."""

    path: SomePlace
    """Where it is: the folder of a Delta table, or a file whose name ends in `.parquet` or `.csv`; a path, or a URL as for `sink.root`."""
    format: Literal["delta", "parquet", "csv"] | None = None
    """What it is; by default what the path's end says, and `delta` where it says nothing. A CSV file has its columns' names in the first line, and all of its values are texts."""

    @property
    def kind(self) -> str:
        """What it is."""
        ending = str(self.path).rpartition(".")[2].lower()
        return self.format or (ending if ending in ("parquet", "csv") else "delta")


class ToKafka(Group):
    """A topic that has the newest row of each key."""

    topic: Name
    """The topic. It must be there, and should be compacted (`cleanup.policy=compact`); nothing else is to write into it. `{entity}` in it is the entity."""
    keys: tuple[Name, ...] = ()
    """The columns that tell rows apart: the key of each record is a JSON object of them. By default what an aggregate groups by."""
    format: Name = JSON_TEXT
    """How rows are written: `json`, without a schema; `avro` or `protobuf`, whose schema is made of the columns and registered."""
    subject: Name | None = None
    """The subject that the schema is registered under; by default `<topic>-value`."""
    too_large: Literal["fail", "drop"] = "fail"
    """What becomes of a row that is larger than the topic takes (its `max.message.bytes`): `fail`, nothing newer goes there until that is mended, and each turn says so; `drop`, a record without a value takes its place, so that nobody takes an older row of its key for it, and the turn says how many there were."""
    kafka: ClientOptions = ClientOptions({})
    """Options of Kafka's clients that win over those of `source.kafka`, such as another cluster's `bootstrap.servers`; an empty one takes away what stands there."""

    def options(self, source: Mapping[str, str]) -> dict[str, str]:
        """Those of the clients that send, by those of the source's."""
        return {name: value for name, value in {**source, **self.kafka}.items() if self.kafka.get(name) != ""}

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if not _TOPIC.fullmatch(self.topic.replace("{entity}", "x")) or self.topic in (".", ".."):
            yield ("topic",), "a topic's name is up to 249 of a-z, A-Z, 0-9, ., _ and -"
        if self.format not in FORMATS:
            yield ("format",), f"write one of {', '.join(FORMATS)}"
        if self.subject is not None and self.format == JSON_TEXT:
            yield ("subject",), f"rows in {JSON_TEXT} have no schema; leave it out, or choose another format"


class ToFiles(Group):
    """Parquet files of each version of the table."""

    path: SomePlace
    """The folder, outside of `sink.root`; a path, or a URL as for `sink.root`; each table has a folder of its name in it."""


class BesideTable(Group):
    """Where a derived table's rows go, too."""

    kafka: ToKafka | None = None
    """A topic: the rows that changed, and a record without a value for each key that went. At least once."""
    files: ToFiles | None = None
    """A folder of Parquet files, named by the version of the table that they are of."""

    def wrong(self) -> Iterator[Wrong]:
        """What says nothing."""
        if self.kafka is None and self.files is None:
            yield (), "write kafka, files or both"


StaticTables = Annotated[Mapping[Name, Static], Field(min_length=1)]
