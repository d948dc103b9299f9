"""Files that land in a folder, as a source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from distributary.codecs.containers.base import Merging, Naming, decoded_as, load_container
from distributary.ingest.settings.places import OptionalPlace, PlaceOfTables
from distributary.values import Bytes, Group, Name, Seconds, Wrong


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ValueError(
            "it names a folder and a topic: use letters, digits, dot, _ and -, up to 100 of them"
        )
    return name


class FilesSource(Group):
    """Files that land in a folder, or below a prefix of a bucket."""

    path: PlaceOfTables
    """The folder: a path, or a URL as for `sink.root`. Files in folders below it count, too; those whose names, or whose folders' names, begin with a dot or `_` do not, nor do empty ones."""
    name: Annotated[str, AfterValidator(_checked_name)] | None = None
    """What the files are called as a topic, and their register beside the tables; by default as the folder."""
    format: Literal["lines", "text", "documents", "avro", "parquet"] = "lines"
    """What a record is: `lines`, a line as it stands, blank ones left out, as of JSON Lines; `text`, a line as the JSON object `{"value": "..."}`; `documents`, a JSON document that may be on several lines, or each element where it is an array; `avro`, a record of an Avro container, by the schema that the file was written with; `parquet`, a row of a Parquet file, with the types of its columns. Files called `.gz` or `.zst` are decompressed, but for those two, which compress by themselves."""
    glob: Name | None = None
    """Which files are taken, by their paths below the folder: `*` and `?` are within a name, `**/` is any folders. A pattern without a slash is held against the name alone. All, unless given."""
    ignore_older_than: Seconds | None = None
    """Files that were last written to longer ago are not taken, where they are not known yet."""
    settle: Seconds = 0.0
    """How long a file must not have been written to before it is taken: for producers that write into a folder in place, and neither under a name with a dot nor by renaming."""
    identity: Literal["content", "etag", "path"] | None = None
    """What makes two files the same one, of which the second is not read: `content`, their bytes, which are read once more for it; `etag`, size and the store's tag, which is of the bytes on S3 for objects put in one piece, and of the file itself in a folder; `path`, where each path is a file of its own. By default `etag` on S3, and `content` elsewhere."""
    on_rewrite: Literal["quarantine", "ingest", "fail"] = "quarantine"
    """What becomes of a file that was read and has other content now: `quarantine`, a record in quarantine names it and it is not read; `ingest`, it is read as a new file is, whole; `fail` ends the run."""
    archive_to: OptionalPlace = None
    """Where files are moved once they have been read and are old enough, with their paths below the folder. They stay, unless given."""
    archive_after: Seconds = 0.0
    """How long after it was last written to a file that was read is moved to `archive_to`."""
    max_files_a_batch: Annotated[int, Field(ge=1)] = 1000
    """How many files a batch has at most."""
    max_bytes_a_batch: Bytes = 1 << 30
    """How many bytes of files a batch has at most, as they are stored; a larger file has a batch of its own."""

    @property
    def topic(self) -> str:
        """What the files are called as a topic."""
        return self.name or _as_name(str(self.path))

    @property
    def brings_schemas(self) -> bool:
        """Whether each record names the schema that its file was written with."""
        return isinstance(load_container(self.format), Naming)

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if self.archive_to is not None and self.archive_to.overlaps(self.path):
            yield (
                ("archive_to",),
                "what is moved there would land again; choose a place outside of the folder",
            )
        if self.archive_to is None and self.archive_after:
            yield ("archive_after",), "nothing is moved: write where to in archive_to, or leave it out"


def wrong_bounds_of_files(source: Any) -> Iterator[Wrong]:
    """What is said of a reading's bounds that files do not have."""
    if source.starting_offsets not in ("earliest", "latest"):
        why = "files begin with those that are there, earliest, or without them, latest; ignore_older_than leaves old ones out"
        yield ("starting_offsets",), why
    if source.until is not None:
        yield ("until",), "files have no such end; leave it out"


def format_of(source: object) -> str:
    """The codec, by name, of a source that reads no topics and for which the settings name none."""
    files = source.get("files") if isinstance(source, Mapping) else getattr(source, "files", None)
    kind = files.get("format") if isinstance(files, Mapping) else getattr(files, "format", None)
    return decoded_as(str(kind))


def wrong_schemas(chosen: FilesSource | None, decode: Any, registry: Any) -> Iterator[Wrong]:
    """What is said of schemas where files say themselves what their records are made of."""
    container = None if chosen is None else load_container(chosen.format)
    if chosen is None or container is None:
        return
    if decode.format != container.decoded_as or decode.wire != "confluent":
        why = f"what is in {chosen.format} files is decoded as {container.decoded_as}; leave it out"
        yield ("decode", "format"), why
    if isinstance(container, Naming) and registry.url is not None:
        yield ("registry", "url"), "the files have the schemas that they were written with; leave it out"
    for name, plain in (("schema_per", "topic"), ("envelope", None)):
        if isinstance(container, Merging) and getattr(decode, name) != plain:
            yield ("decode", name), "the files say what their columns are; leave it out"


def _as_name(path: str) -> str:
    last = path.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]", "_", last).lstrip("._-")[:100] or "files"
