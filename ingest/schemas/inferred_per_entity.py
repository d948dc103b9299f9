"""A location with the versions of one inferred schema an entity: what is a number for one may be a text for another.

`<folder>/<name>/<version>.json` holds nothing but Spark's StructType JSON, the name being the one that `ingest/columns` makes from an
entity for tables. Versions are numbered over the whole location, so that a number by itself is one schema. An entity whose
name is not its own is in `<folder>/_names/<name>.json`. Records without an entity have versions in `<folder>` itself.

Whoever writes versions first claims their numbers: `<folder>/_numbers/<first>.json` says how many from that one on are his. Of
several who claim the same first number one is first, and the others begin behind his. Those that he never writes stay free.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol, runtime_checkable

from distributary.codecs.base import INFERRED, Growing, load_codec
from distributary.errors import BadSchema, ConfigError, SchemaNotFound
from distributary.ingest.columns.safe_names import ENTITY, table_name
from distributary.ingest.interruptible import each
from distributary.ingest.schemas.hints import with_hints
from distributary.ingest.schemas.inferred import AT_ONCE, SUFFIX, SchemaLocation, file_text
from distributary.ingest.schemas.subjects import inferred_subject
from distributary.ingest.settings.groups import Decode
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.numbered import numbered
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.registry.base import Schema, SchemaRef, SubjectVersion


def growing_of(decode: Decode) -> Growing:
    """What the codec does with records of an inferred schema. Raises ConfigError for one whose schemas are all registered."""
    growing = load_codec(decode.codec).capabilities.growing
    if growing is None:
        raise ConfigError(
            f"records in {decode.format} name their schema in a registry; there is nothing to infer"
        )
    return growing


def schema_place(pipeline: str, decode: Decode) -> Place:
    """Where the versions of a pipeline's inferred schema are."""
    return decode.schema_location or Place.parse(os.path.abspath(f"schemas/{pipeline}"))


def location_of(pipeline: str, decode: Decode, storage: StorageOptions) -> SchemaLocation:
    """The location of a pipeline's inferred schema. Raises ConfigError where none is inferred."""
    growing_of(decode)
    subject = inferred_subject(pipeline, decode) or pipeline
    files = open_files(schema_place(pipeline, decode), storage)
    if decode.schema_per == "entity":
        return EntitySchemas(files, subject, decode.schema_hints)
    return SchemaLocation(files, subject)


NO_FIELDS = '{"type":"struct","fields":[]}'

_NAMES, _NUMBERS = "_names", "_numbers"

# How folders begin that are no entity's.
_NO_ENTITY = ("_", ".")


@runtime_checkable
class EntityVersions(Protocol):
    """Where each entity has versions of a schema of its own, by the name made from it (`entity_name`)."""

    def newest(self, names: Iterable[str]) -> Mapping[str, Schema]:
        """The newest version of each of these that has one."""
        ...

    def register_each(
        self, texts: Mapping[str, str], entities: Mapping[str, str] | None = None
    ) -> Mapping[str, Schema]:
        """The version of each of these schemas: the newest one if that says the same, or a new one. Raises BadSchema.

        `entities` are the real ones, for names that may not have been met before.
        """
        ...

    def hinted(self, text: str) -> str:
        """The schema with the types that hints give."""
        ...


def entity_name(entity: str, fold_case: bool) -> str:
    """What an entity's folder is called: its table's name, without what settings put around it."""
    return table_name(ENTITY, entity, fold_case)


class EntitySchemas(SchemaLocation):
    """The versions of every entity's schema. A version is its own id, and its schema tells whose it is."""

    def __init__(self, files: Files, subject: str, hints: str | None = None) -> None:
        """`subject` is what all versions are called by; `hints` are types that win over found ones, as Spark's DDL."""
        super().__init__(files, subject)
        self._hints = hints
        # By version, the name of the folder it is in; "" is the location itself.
        self._owners: dict[int, str] = {}

    def by_ref(self, ref: SchemaRef, subject: str | None = None) -> Schema:
        """The schema of this version, or for `INFERRED` the newest of records without an entity; there is always one."""
        number = self._of_nobody() if ref is INFERRED else ref
        if number not in self._owners:
            self._scan()
        schema = super().by_ref(number, subject)
        # One that another thread has just made may be missing from what this one has listed: that is nobody's.
        return replace(schema, entity=self._owners.get(schema.id) or None)

    def versions(self, subject: str, deleted: bool = False) -> Sequence[SubjectVersion]:
        """The versions of all entities, or of the one that the subject is of, oldest first. Raises SchemaNotFound for none."""
        if subject == self.subject:
            self._scan()
            found = list(self._owners)
        else:
            found = self._of_entity(subject)
        if not found:
            raise SchemaNotFound(
                f"{self.folder} holds no schema of {subject}; `distributary infer` writes one"
            )
        return [SubjectVersion(subject, version, version) for version in sorted(found)]

    def subject_of(self, name: str) -> str:
        """What the versions of one entity's schema are called by, or with an empty name those of records without one."""
        return f"{self.subject}/{name}"

    def subjects(self) -> list[str]:
        """What has versions here."""
        self._scan()
        return [self.subject_of(name) for name in sorted(set(self._owners.values()))]

    def holds(self, subject: str) -> bool:
        """Whether versions of this subject are here."""
        return subject == self.subject or subject.startswith(self.subject_of(""))

    def names(self) -> list[str]:
        """The names of all entities that have versions."""
        self._scan()
        return sorted(set(self._owners.values()) - {""})

    def entity(self, name: str) -> str:
        """The entity that a name was made from."""
        try:
            return str(json.loads(self._files.read(_name_file(name)))["entity"])
        except FileNotFoundError:
            return name
        except (ValueError, KeyError, TypeError):
            raise BadSchema(f"{self.folder}/{_name_file(name)} was edited or cut off; remove it") from None

    def newest(self, names: Iterable[str]) -> Mapping[str, Schema]:
        """The newest version of each of these that has one. Raises BadSchema for a file that is no StructType."""
        found = self._seen(names)
        return self._each({name: numbers[-1] for name, numbers in found.items() if numbers})

    def register_each(
        self, texts: Mapping[str, str], entities: Mapping[str, str] | None = None
    ) -> Mapping[str, Schema]:
        """The version of each of these schemas, by the entities' names. Raises BadSchema."""
        files = {name: file_text(self._path_of(name), text) for name, text in texts.items()}
        newest = self.newest(files)
        new = sorted(
            name for name, text in files.items() if name not in newest or not _same(newest[name], text)
        )
        numbers = dict(zip(new, self._claimed(len(new)), strict=True))
        given = {name: (entities or {}).get(name, name) for name in new}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._write_name, given, given.values()))
            list(pool.map(lambda name: self._write(name, numbers[name], files[name]), new))
        self._owners |= {number: name for name, number in numbers.items()}
        made = self._each(numbers)
        return {name: made[name] if name in made else newest[name] for name in files}

    def hinted(self, text: str) -> str:
        """The schema with the types that hints give."""
        return with_hints(text, self._hints)

    def _each(self, versions: Mapping[str, int]) -> dict[str, Schema]:
        """The schema of each of these numbers."""
        return dict(zip(versions, each(self.by_ref, versions.values(), AT_ONCE), strict=True))

    def _version_of(self, text: str) -> int:
        # Whoever names no entity means records without one.
        return self.register_each({"": text})[""].id

    def _of_nobody(self) -> int:
        latest = self.latest()
        return latest.id if latest else self.register(self.subject, NO_FIELDS)

    def _claimed(self, count: int) -> range:
        """So many numbers that nobody else gets: behind those that are given, and those that others have claimed."""
        claim = json.dumps({"numbers": count, "by": uuid.uuid4().hex}).encode()
        while count:
            first = self._highest() + 1
            if self._files.put_new(_claim_file(first), claim):
                return range(first, first + count)
        return range(0)

    def _highest(self) -> int:
        # Versions before claims: each version that is seen then has its claim seen too.
        self._scan()
        claims = numbered(self._files, _NUMBERS, SUFFIX)
        claimed = claims[-1] + self._count_of(claims[-1]) - 1 if claims else 0
        return max(claimed, max(self._owners, default=0))

    def _count_of(self, claim: int) -> int:
        try:
            return int(json.loads(self._files.read(_claim_file(claim)))["numbers"])
        except (ValueError, KeyError, TypeError):
            raise BadSchema(f"{self.folder}/{_claim_file(claim)} was edited or cut off; remove it") from None

    def _path_of(self, name: str) -> str:
        return f"{self.folder}/{name}".rstrip("/")

    def _path(self, ref: SchemaRef) -> str:
        owner = self._owners.get(ref, "") if isinstance(ref, int) else ""
        return _in(owner, super()._path(ref))

    def _write_name(self, name: str, entity: str) -> None:
        if name != entity:
            text = json.dumps({"entity": entity}, indent=1) + "\n"
            self._files.put_new(_name_file(name), text.encode())

    def _write(self, name: str, number: int, text: str) -> None:
        if not self._files.put_new(_in(name, f"{number}{SUFFIX}"), text.encode()):
            raise BadSchema(
                f"{self._path_of(name)} got a version {number} from somebody else meanwhile; run again"
            )

    def _scan(self) -> None:
        owners = dict.fromkeys(numbered(self._files, "", SUFFIX), "")
        entities = [name for name in self._files.folders() if not name.startswith(_NO_ENTITY)]
        for folder, numbers in self._numbers_of(entities).items():
            for number in numbers:
                if number in owners:
                    both = " and ".join(self._path_of(name) for name in (owners[number], folder))
                    raise BadSchema(
                        f"version {number} is in {both}: a number is one schema; give one another"
                    )
                owners[number] = folder
        self._owners = owners

    def _of_entity(self, subject: str) -> list[int]:
        """The versions that one entity's schema has, or that of records without one."""
        name = subject.removeprefix(self.subject_of(""))
        # No entity's folder is called so, whatever is asked for.
        if not self.holds(subject) or "/" in name or name.startswith(_NO_ENTITY):
            return []
        return self._seen([name])[name]

    def _seen(self, names: Iterable[str]) -> dict[str, list[int]]:
        """The versions of each of these entities, which are known from now on."""
        found = self._numbers_of(names)
        self._owners |= {number: name for name, numbers in found.items() for number in numbers}
        return found

    def _numbers_of(self, names: Iterable[str]) -> dict[str, list[int]]:
        """The versions of each of these entities."""
        asked = list(names)
        found = each(lambda name: numbered(self._files, name, SUFFIX), asked, AT_ONCE)
        return dict(zip(asked, found, strict=True))


def _in(name: str, file: str) -> str:
    """A file of an entity's folder, or of the location itself for none."""
    return f"{name}/{file}" if name else file


def _name_file(name: str) -> str:
    return f"{_NAMES}/{name}{SUFFIX}"


def _claim_file(first: int) -> str:
    return f"{_NUMBERS}/{first}{SUFFIX}"


def _same(schema: Schema, text: str) -> bool:
    return bool(json.loads(schema.text) == json.loads(text))
