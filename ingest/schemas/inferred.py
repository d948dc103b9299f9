"""A place of inferred schemas, one file a version, that serves a pipeline in a registry's place.

`<folder>/<version>.json` holds nothing but Spark's StructType JSON (`df.schema.json()`), so that a file can be
read, compared and written by hand, or given to `from_json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from distributary.errors import BadSchema, SchemaNotFound
from distributary.ingest.interruptible import each
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.numbered import numbered
from distributary.ingest.storage.probe import require_put_if_absent
from distributary.registry.base import Answer, Reference, Schema, SchemaRef, SchemaType, SubjectVersion

SUFFIX = ".json"

# A start asks for every version there ever was; asking a store is waiting for the network.
AT_ONCE = 16


class SchemaLocation:
    """The versions of one inferred schema, kept as a registry keeps those of a subject. A version is its own id."""

    def __init__(self, files: Files, subject: str) -> None:
        """`subject` is what the versions are called by; the folder need not be there yet."""
        self._files, self.subject = files, subject

    @property
    def folder(self) -> str:
        """Where the versions are: a path or a URL."""
        return self._files.url

    def check_store(self) -> None:
        """Raises SetupError where a store does not keep the promise that numbers rest on: asked by whoever may write."""
        if self._files.remote:
            require_put_if_absent(self._files)

    def by_ref(self, ref: SchemaRef, subject: str | None = None) -> Schema:
        """The schema of this version, whatever the subject. Raises SchemaNotFound, and BadSchema for a file that is no StructType."""
        path = self._path(ref)
        try:
            text = self._files.read(path).decode()
        except FileNotFoundError:
            raise SchemaNotFound(
                f"there is no version {ref} in {self.folder}; `distributary infer` writes one"
            ) from None
        return Schema(int(ref), "STRUCT", checked(f"{self.folder}/{path}", text))

    def by_refs(self, refs: Iterable[SchemaRef], subject: str | None = None) -> Mapping[SchemaRef, Answer]:
        """What each of these versions came to."""
        asked = list(dict.fromkeys(refs))
        return dict(zip(asked, each(self._answer, asked, AT_ONCE), strict=True))

    def versions(self, subject: str, deleted: bool = False) -> Sequence[SubjectVersion]:
        """All versions, oldest first; none is ever deleted. Raises SchemaNotFound while there is none, and for any other subject."""
        found = numbered(self._files, "", SUFFIX) if subject == self.subject else []
        if not found:
            raise SchemaNotFound(
                f"{self.folder} holds no schema of {subject}; `distributary infer` writes one"
            )
        return [SubjectVersion(subject, version, version) for version in found]

    def holds(self, subject: str) -> bool:
        """Whether versions of this subject are here."""
        return subject == self.subject

    def latest(self) -> Schema | None:
        """The newest version; None while there is none. Raises BadSchema for a file that is no StructType."""
        newest = max(numbered(self._files, "", SUFFIX), default=None)
        return None if newest is None else self.by_ref(newest)

    def register(
        self,
        subject: str,
        text: str,
        schema_type: SchemaType = "STRUCT",
        references: Sequence[Reference] = (),
    ) -> int:
        """The version of this schema: the newest one if that says the same, or a new one. Raises BadSchema."""
        if subject != self.subject or schema_type != "STRUCT" or references:
            raise BadSchema(f"{self.folder} takes StructTypes of {self.subject} alone, without references")
        return self._version_of(text)

    def changed(self, text_of: Callable[[Schema | None], str]) -> int:
        """The version of what is made of the newest one: that itself if it says the same, or a new one. Raises BadSchema.

        Whatever others write meanwhile, a new version is made of the one before it: it is asked for again then.
        """
        while True:
            version = self._highest() + 1
            latest = self.latest()
            pretty = file_text(self.folder, text_of(latest))
            if latest is not None and json.loads(latest.text) == json.loads(pretty):
                return latest.id
            if self._files.put_new(self._path(version), pretty.encode()):
                return version

    def _version_of(self, text: str) -> int:
        return self.changed(lambda _: text)

    def _path(self, ref: SchemaRef) -> str:
        return f"{ref if isinstance(ref, int) else 'none'}{SUFFIX}"

    def _highest(self) -> int:
        """The last number given here; schemas of entities, from when there was one each, are in folders beside."""
        folders = ("", *self._files.folders())
        return max((number for one in folders for number in numbered(self._files, one, SUFFIX)), default=0)

    def _answer(self, ref: SchemaRef) -> Answer:
        try:
            return self.by_ref(ref)
        except (SchemaNotFound, BadSchema) as error:
            return error


def file_text(path: str, text: str) -> str:
    """What a version's file holds. Raises BadSchema, naming the path, for what is no StructType."""
    return json.dumps(json.loads(checked(path, text)), indent=1) + "\n"


def checked(path: str, text: str) -> str:
    """The text, which is a StructType. Raises BadSchema, naming the path, for what is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSchema(
            f"{path} is no JSON ({error}); restore it, or remove it and run `distributary infer`"
        ) from None
    if (
        not isinstance(value, dict)
        or value.get("type") != "struct"
        or not isinstance(value.get("fields"), list)
    ):
        raise BadSchema(
            f"{path} is no StructType as `df.schema.json()` prints it; restore it, or infer it anew"
        )
    return text
