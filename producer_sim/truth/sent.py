"""The ground truth: what a simulation sent, in one JSON file that verification reads.

docs/reference/truth-file.md describes the file.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from distributary.errors import ConfigError
from distributary.files import replace
from distributary.producer_sim.events.values import Plain
from distributary.producer_sim.truth.checksum import MASK

FORMAT = 3

# Earlier ones say less, nothing else: 1 has neither reasons nor rescued values, 2 tells events apart by their games only.
READABLE = (1, 2, 3)

# Records that are well-formed, and yet have no place in a table: why, and the reasons that may stand in quarantine.
REFUSED: Mapping[str, tuple[str, ...]] = {
    "incompatible_type": ("incompatible_type",),
    "format_switched": ("unusable_schema", "unasked_schema", "unknown_schema", "bad_message_index"),
}


class Group(NamedTuple):
    """Events that belong together: of one game, written with one schema, alike in what a route looks at.

    Without a schema id their records name no schema.

    record  what a reader calls their type; None where the truth does not say
    told    what else must be known of them to find their table, by the names of `routes.Told`
    """

    game: str
    schema_id: int | None
    record: str | None = None
    told: tuple[tuple[str, Plain], ...] = ()

    @property
    def order(self) -> tuple[str, int, str, str]:
        """Where it stands among others."""
        number = -1 if self.schema_id is None else self.schema_id
        return self.game, number, self.record or "", json.dumps(self.told)


@dataclass(frozen=True, slots=True)
class Sent:
    """How many good events of a group were sent, the newest version among them, and the checksum of their rows.

    `digests` is the sum of the digests of their values' bytes; zero where it is certain that they have a table.
    """

    version: int
    rows: int
    checksum: int
    digests: int = 0

    def added(self, more: Sent) -> Sent:
        """Both together."""
        return Sent(
            max(self.version, more.version),
            self.rows + more.rows,
            (self.checksum + more.checksum) & MASK,
            (self.digests + more.digests) & MASK,
        )


class PartitionOffset(NamedTuple):
    """A record's coordinates in its topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Corrupt:
    """A record that must end in quarantine: its kind, and the digest of its value's bytes (`value_digest`)."""

    kind: str
    digest: str

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons for which it may be there; none where any will do."""
        return REFUSED.get(self.kind, ())


@dataclass(frozen=True, slots=True)
class Truth:
    """Everything sent to one topic.

    topic       the topic
    sent        how many good events, and the checksum of their rows, by what belongs together
    corrupt     the broken records, by where they are
    tombstones  where the null values are
    offsets     for each partition the stretches [first, one past the last] that the sent records fill
    runs        the settings of each simulation that added to this truth
    """

    topic: str
    sent: Mapping[Group, Sent] = field(default_factory=dict)
    corrupt: Mapping[PartitionOffset, Corrupt] = field(default_factory=dict)
    tombstones: frozenset[PartitionOffset] = frozenset()
    offsets: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    runs: tuple[Mapping[str, Any], ...] = ()

    @property
    def good(self) -> int:
        """Events that must end in the tables."""
        return sum(sent.rows for sent in self.sent.values())

    @property
    def records(self) -> int:
        """Records sent, of whatever kind."""
        return sum(end - start for runs in self.offsets.values() for start, end in runs)

    @property
    def refused(self) -> int:
        """Records that must end in quarantine although nothing about them is broken."""
        return sum(record.kind in REFUSED for record in self.corrupt.values())

    def corrupt_by_kind(self) -> dict[str, int]:
        """How many corrupt records of each kind."""
        kinds = [record.kind for record in self.corrupt.values()]
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

    def check_topic(self, topic: str) -> None:
        """Raises ConfigError if this is about another topic."""
        if self.topic != topic:
            raise ConfigError(
                f"one truth is about topic {self.topic!r}, the other about {topic!r}; "
                "keep one truth file a topic"
            )

    def merged(self, later: Truth) -> Truth:
        """Both together. Raises ConfigError if they are about different topics."""
        self.check_topic(later.topic)
        sent = dict(self.sent)
        for group, more in later.sent.items():
            sent[group] = sent[group].added(more) if group in sent else more
        partitions = {*self.offsets, *later.offsets}
        return Truth(
            topic=self.topic,
            sent=sent,
            corrupt={**self.corrupt, **later.corrupt},
            tombstones=self.tombstones | later.tombstones,
            offsets={
                partition: joined([*self.offsets.get(partition, ()), *later.offsets.get(partition, ())])
                for partition in sorted(partitions)
            },
            runs=(*self.runs, *later.runs),
        )


def save(truth: Truth, path: Path, *, append: bool = False) -> Truth:
    """Writes a truth to a file, whole or not at all.

    truth   what `simulate` returned
    path    the file
    append  whether it is added to what the file says already

    Returns what the file says afterwards.

    >>> distributary.save_truth(truth, Path("truth.json")).records
    200
    """
    if append and path.exists():
        truth = load(path).merged(truth)
    replace(path, _text(_as_json(truth)).encode())
    return truth


def load(path: Path) -> Truth:
    """The truth in a file that `simulate` and `save_truth` wrote. Raises ConfigError if there is none that can be read.

    >>> distributary.load_truth(Path("truth.json")).records
    200
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no truth file at {path}; `distributary simulate` writes one") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"the truth file {path} cannot be read: {error}") from error
    if not isinstance(found, dict) or found.get("format") not in READABLE:
        raise ConfigError(
            f"{path} is not a truth file of a format up to {FORMAT}; write it anew with `distributary simulate`"
        )
    try:
        return _from_json(found)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"the truth file {path} was altered or cut: {error!r}") from error


def joined(runs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """These stretches in order, those that touch made one."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(runs):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return tuple(result)


def _text(found: Mapping[str, Any]) -> str:
    """JSON with a line for each thing that a reader may look for, and not one for each number."""
    lines = []
    for name, value in found.items():
        text = json.dumps(value, ensure_ascii=False)
        if name in ("sent", "runs"):
            rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in value)
            text = f"[\n  {rows}\n ]"
        lines.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _as_json(truth: Truth) -> dict[str, Any]:
    kinds: dict[str, list[list[int | str]]] = defaultdict(list)
    for place, record in sorted(truth.corrupt.items()):
        kinds[record.kind].append([*place, record.digest])
    return {
        "format": FORMAT,
        "topic": truth.topic,
        "records": truth.records,
        "offsets": {str(partition): runs for partition, runs in truth.offsets.items()},
        "sent": [
            _as_row(group, sent) for group, sent in sorted(truth.sent.items(), key=lambda item: item[0].order)
        ],
        "corrupt": {kind: _as_told(kind, records) for kind, records in sorted(kinds.items())},
        "tombstones": sorted(truth.tombstones),
        "runs": list(truth.runs),
    }


def _as_row(group: Group, sent: Sent) -> dict[str, Any]:
    return {
        "game": group.game,
        "schema_id": group.schema_id,
        **({} if group.record is None else {"record": group.record}),
        **({"told": dict(group.told)} if group.told else {}),
        "version": sent.version,
        "rows": sent.rows,
        "checksum": f"{sent.checksum:016x}",
        **({"digests": f"{sent.digests:016x}"} if sent.digests else {}),
    }


def _from_row(row: Mapping[str, Any]) -> tuple[Group, Sent]:
    group = Group(row["game"], row["schema_id"], row.get("record"), tuple(row.get("told", {}).items()))
    digests = int(row.get("digests", "0"), 16)
    return group, Sent(row["version"], row["rows"], int(row["checksum"], 16), digests)


def _as_told(kind: str, records: list[list[int | str]]) -> dict[str, Any]:
    reasons = {"reasons": REFUSED[kind]} if kind in REFUSED else {}
    return {"count": len(records), **reasons, "records": records}


def _from_json(found: Mapping[str, Any]) -> Truth:
    return Truth(
        topic=found["topic"],
        sent=dict(map(_from_row, found["sent"])),
        corrupt={
            PartitionOffset(partition, offset): Corrupt(kind, digest)
            for kind, records in found["corrupt"].items()
            for partition, offset, digest in records["records"]
        },
        tombstones=frozenset(PartitionOffset(*place) for place in found["tombstones"]),
        offsets={
            int(partition): tuple((start, end) for start, end in runs)
            for partition, runs in found["offsets"].items()
        },
        runs=tuple(found["runs"]),
    )
