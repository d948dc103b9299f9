"""What the settings say of records that were erased, and are to land nowhere from then on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from pydantic import Discriminator, Tag

from distributary.values import Group, Name


class ErasedKey(Group):
    """Records that are known by their key, whatever they say."""

    key: Name
    """The key of records in Kafka, as text: those land nowhere, tombstones among them, which say nothing else."""


GivenErased: TypeAlias = Annotated[
    Annotated[Name, Tag("text")] | Annotated[ErasedKey, Tag("rule")],
    Discriminator(lambda value: "rule" if isinstance(value, dict | ErasedKey) else "text"),
]


@dataclass(frozen=True, slots=True)
class Erased:
    """Which records land nowhere.

    by_setting  conditions over their own fields, each behind the setting that has it
    by_key      the keys of those that do whatever they say
    """

    by_setting: Mapping[str, str] = field(default_factory=dict)
    by_key: frozenset[str] = frozenset()

    @classmethod
    def by(cls, given: Iterable[str | ErasedKey]) -> Erased:
        """As the settings have it."""
        each = list(given)
        conditions = {f"erased[{place}]": one for place, one in enumerate(each) if isinstance(one, str)}
        return cls(conditions, frozenset(one.key for one in each if not isinstance(one, str)))

    @classmethod
    def of(cls, texts: Iterable[str], keys: Iterable[str]) -> Erased:
        """The same, as a manifest tells it."""
        return cls({f"erased[{place}]": text for place, text in enumerate(texts)}, frozenset(keys))

    @property
    def conditions(self) -> Sequence[str]:
        """The conditions alone."""
        return list(self.by_setting.values())

    @property
    def keys(self) -> Sequence[bytes]:
        """The keys as Kafka has them, in order."""
        return sorted(key.encode("utf-8", "surrogatepass") for key in self.by_key)
