"""A registry whose answers are kept on disk, so that what they are needed for starts and runs while it is down."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import Literal

from distributary.errors import BadSchema, RegistryChanged, RegistryUnavailable, SchemaNotFound
from distributary.registry.answers import or_raise
from distributary.registry.base import (
    Answer,
    Guid,
    Reference,
    Schema,
    SchemaRef,
    SchemaRegistry,
    SchemaType,
    SubjectVersion,
)
from distributary.registry.disk.folder import KeptFiles, SchemaFolder
from distributary.registry.same_schema import same_schema

# How many kept schemas are held against the registry when it first answers: the lowest ids, since a registry that
# was emptied hands those out again first.
CHECKED = 20

# Where a store has them, each answer that is read is a wait for the network.
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a user should know of how schemas were come by.

    offline    the registry does not answer; what is kept is used, and nothing new is seen
    online     it answers again
    forgotten  it no longer knows what it once gave; what is kept is used
    not_kept   an answer could not be written, so it will be missing when the registry is down
    """

    kind: Literal["offline", "online", "forgotten", "not_kept"]
    text: str


def to_log(notice: Notice) -> None:
    """Notices as warnings of the logger `distributary.registry`."""
    logging.getLogger("distributary.registry").warning("%s", notice.text)


class DiskCache:
    """Asks `inner`, keeps every answer, and gives what is kept while `inner` does not answer.

    Where a registry that does answer gives another schema for an id or GUID than is kept, RegistryChanged is raised, and
    again at every call until that is put right: records already written may mean either. Safe to use from many threads.
    """

    def __init__(
        self,
        inner: SchemaRegistry,
        folder: Path | KeptFiles,
        identity: str,
        tell: Callable[[Notice], None] = to_log,
        ask_again_seconds: float = 30.0,
    ) -> None:
        """`folder` may be a place in an object store. `identity` tells registries apart, such as by `registry.url`: each has its own
        part of the folder.

        Once the registry did not answer, what is kept is given at once for `ask_again_seconds`.
        """
        self._inner, self._tell, self._again = inner, tell, ask_again_seconds
        self._folder = SchemaFolder(folder, identity)
        self._identity = identity
        self._lock = RLock()
        self._silent_since: float | None = None
        self._met = False
        self._told_forgotten: set[SchemaRef] = set()
        self._seen: set[tuple[SchemaRef, str | None]] = set()

    @property
    def folder(self) -> str:
        """Where this registry's answers are kept, a path or a URL: delete it to forget them."""
        return self._folder.url

    @property
    def offline(self) -> bool:
        """Whether the registry did not answer when it was last asked."""
        return self._silent_since is not None

    def by_ref(self, ref: SchemaRef, subject: str | None = None) -> Schema:
        """The schema with this id or GUID. Raises SchemaNotFound, BadSchema or RegistryChanged."""
        return or_raise(self.by_refs((ref,), subject)[ref])

    def by_refs(self, refs: Iterable[SchemaRef], subject: str | None = None) -> dict[SchemaRef, Answer]:
        """What each of these came to. Raises RegistryUnavailable if the registry is down and one is not kept."""
        wanted = tuple(dict.fromkeys(refs))
        kept = self._kept(wanted, subject)
        if self._is_quiet() and len(kept) == len(wanted):
            return dict(kept)
        try:
            answers = self._inner.by_refs(wanted, subject)
        except RegistryUnavailable as error:
            if len(kept) < len(wanted):
                raise
            self._went_silent(error)
            return dict(kept)
        if self._is_news(answers, subject):
            self._answered()
        return {ref: self._settled(ref, subject, answers[ref], kept.get(ref)) for ref in wanted}

    def _kept(self, refs: Sequence[SchemaRef], subject: str | None) -> dict[SchemaRef, Schema]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = pool.map(lambda ref: self._folder.schema(ref, subject), refs)
            return {ref: schema for ref, schema in zip(refs, found, strict=True) if schema is not None}

    def versions(self, subject: str, deleted: bool = False) -> Sequence[SubjectVersion]:
        """All versions of a subject, oldest first; while the registry is down those it had when it last answered."""
        kept = self._folder.versions(subject)
        if not (self._is_quiet() and kept is not None):
            try:
                return self._fresh_versions(subject, deleted)
            except RegistryUnavailable as error:
                if kept is None:
                    raise
                self._went_silent(error)
        found = [version for version in kept or () if deleted or not version.deleted]
        if not found:
            raise SchemaNotFound(
                f"subject {subject!r} had no versions left when {self._identity} last answered"
            )
        return tuple(found)

    def register(
        self, subject: str, text: str, schema_type: SchemaType, references: Sequence[Reference] = ()
    ) -> int | Guid:
        """The id of this schema under this subject, from the registry itself, which has to be up. Raises BadSchema."""
        schema_id = self._inner.register(subject, text, schema_type, references)
        self._answered()
        return schema_id

    def _fresh_versions(self, subject: str, deleted: bool) -> Sequence[SubjectVersion]:
        try:
            listed = self._inner.versions(subject, deleted)
        except SchemaNotFound:
            self._answered()
            self._write(lambda: self._folder.drop_versions(subject))
            raise
        self._answered()
        # The deleted ones are kept as last seen: they are asked for rarely, and cost a call more.
        gone = [] if deleted else self._deleted_ones(subject, listed)
        everything = sorted([*listed, *gone], key=lambda version: version.version)
        self._write(lambda: self._folder.keep_versions(subject, everything))
        return listed

    def _deleted_ones(self, subject: str, living: Sequence[SubjectVersion]) -> list[SubjectVersion]:
        numbers = {version.version for version in living}
        kept = self._folder.versions(subject) or ()
        return [version for version in kept if version.deleted and version.version not in numbers]

    def _is_news(self, answers: Mapping[SchemaRef, Answer], subject: str | None) -> bool:
        """Whether the registry itself must have answered: what it gave once, its client may give from memory."""
        given = {(ref, subject) for ref, answer in answers.items() if isinstance(answer, Schema)}
        with self._lock:
            news = not given <= self._seen
            self._seen |= given
        return news

    def _settled(self, ref: SchemaRef, subject: str | None, answer: Answer, kept: Schema | None) -> Answer:
        """What to give for a fresh answer, held against what is kept."""
        if isinstance(answer, Schema):
            if kept is None:
                self._write(lambda: self._folder.keep_schema(ref, subject, answer))
            else:
                self._check_same(ref, kept, answer)
            return answer
        if kept is None or isinstance(answer, BadSchema):
            return answer
        if isinstance(answer, SchemaNotFound):
            self._say_forgotten(ref)
        return kept

    def _check_same(self, ref: SchemaRef, kept: Schema, given: Schema) -> None:
        if same_schema(kept, given):
            return
        raise RegistryChanged(
            f"the registry {self._identity} now gives another schema for {ref!r} than it did before: it was emptied or "
            "replaced, so that its ids mean other schemas now. Records written before mean the schema that is kept in "
            f"{self._folder.url}. Bring that registry back, or delete this folder if none of those records are to "
            "be read any more"
        )

    def _answered(self) -> None:
        """The registry is there: say so if it was not, and at the first time look whether it still is the same."""
        with self._lock:
            was_silent, self._silent_since = self._silent_since is not None, None
            # What happened to it while it was away?
            unchecked, self._met = was_silent or not self._met, True
        if was_silent:
            self._tell(Notice("online", f"the registry {self._identity} answers again"))
        if unchecked:
            self._check_some()

    def _check_some(self) -> None:
        try:
            refs = tuple(islice(self._folder.refs(), CHECKED))
            answers = self._inner.by_refs(refs)
        except (RegistryUnavailable, OSError):
            # The registry, or the store that its answers are kept in.
            self._met = False
            return
        try:
            for ref, answer in answers.items():
                kept = self._folder.schema(ref)
                if kept is not None and isinstance(answer, Schema):
                    self._check_same(ref, kept, answer)
        except RegistryChanged:
            self._met = False  # to be found again by the next call, whatever it asks for
            raise

    def _is_quiet(self) -> bool:
        """Whether it went silent so recently that asking again would only cost its time-out."""
        since = self._silent_since
        return since is not None and monotonic() < since + self._again

    def _went_silent(self, error: RegistryUnavailable) -> None:
        with self._lock:
            first, self._silent_since = self._silent_since is None, monotonic()
        if first:
            self._tell(
                Notice(
                    "offline",
                    f"{error}; going on with the schemas and versions kept in {self._folder.url}, "
                    "newer ones are not seen until it answers",
                )
            )

    def _say_forgotten(self, ref: SchemaRef) -> None:
        with self._lock:
            first = ref not in self._told_forgotten
            self._told_forgotten.add(ref)
        if first:
            self._tell(
                Notice(
                    "forgotten",
                    f"the registry {self._identity} no longer knows schema {ref!r}, which was deleted there or lost; "
                    f"going on with what is kept in {self._folder.url}",
                )
            )

    def _write(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            # A full disk must not stop what runs well without it.
            self._tell(
                Notice("not_kept", f"an answer of the registry could not be kept: {error}; make room there")
            )
