"""Who a checkpoint is: born once, compared with the world at every start."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Literal, get_args

from distributary.codecs.envelope.options import envelope_of
from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import GENERATION, Checkpoint
from distributary.ingest.checkpoint.manifest import role_of
from distributary.ingest.commit_log.entries import Owner, Standing
from distributary.ingest.commit_log.formats import require_readable
from distributary.ingest.kafka.client import topic_id
from distributary.ingest.kafka.cluster import UNKNOWN
from distributary.ingest.kafka.offsets import (
    Positions,
    Stretches,
    highest,
    positions_from_json,
    positions_to_json,
    stretches_from_json,
    stretches_to_json,
)
from distributary.ingest.settings.groups import Decode, Route, Sink, Source

# Those that read `BEFORE_THE_LOG` alone know nothing of the log; those that read up to `WITHOUT_PLACED` would place records twice.
BEFORE_THE_LOG, WITHOUT_PLACED, FORMAT = 1, 2, 3

StartMode = Literal["resume", "from_tables", "again"]

# Kept for versions that refuse others: a log takes topics up, and leaves them.
_TOPICS = "source.topics"

_NEW_CHECKPOINT = "give this pipeline a new checkpoint"


@dataclass(frozen=True, slots=True)
class Start:
    """What a checkpoint did at its birth about tables filled from another one.

    offsets  where its first batch starts; None: where the settings say
    already  per table folder: the offsets below this are in the table, committed by another generation, as far as `placed` cannot say
             which records these are
    lineage  the generation whose reading of the topics this one goes on with; empty where it begins anew
    placed   the records that another generation has brought to some table, of a batch that is not in all of its tables
    left     topics that the reading left, which it has offsets of and this generation does not read: name -> the topic's UUID
    after    whose log is handed over to this one before it begins
    dead     the generations whose tables it takes as well, since no run of theirs is alive
    """

    mode: StartMode = "resume"
    offsets: Positions | None = None
    already: Mapping[str, Positions] = field(default_factory=dict)
    lineage: str = ""
    after: Owner | None = None
    dead: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    placed: Stretches = field(default_factory=dict)

    def counted(self) -> Positions:
        """Behind which offsets, of each partition, none counts as committed by another generation."""
        stretches = {
            topic: {number: max(end for _, end in own) for number, own in numbers.items() if own}
            for topic, numbers in self.placed.items()
        }
        return highest(*self.already.values(), stretches)


@dataclass(frozen=True, slots=True)
class World:
    """What may not change while a checkpoint lives.

    topics       name -> the topic's UUID, which changes when a topic is made anew
    fingerprint  settings by their dotted names, as JSON values
    """

    cluster_id: str
    topics: Mapping[str, str]
    fingerprint: Mapping[str, Any]

    def as_kept(self) -> World:
        """The same through JSON, so that what is compared today is what will be read tomorrow."""
        return World(self.cluster_id, dict(self.topics), json.loads(json.dumps(dict(self.fingerprint))))


def fingerprint(source: Source, route: Route, decode: Decode, sink: Sink) -> dict[str, Any]:
    """What may not change on a living checkpoint, as plain JSON values by dotted name."""
    envelope = envelope_of(decode.envelope)
    routed = {f"route.{key}": value for key, value in route if key != "max_tables"}
    if route.expression is None:
        del routed["route.expression"]
    return {
        _TOPICS: sorted(source.topics),
        **routed,
        "decode.format": decode.format,
        "sink.root": str(sink.root),
        **{f"sink.columns.{role}": name for role, name in sink.columns.given()},
        # Settings that came later are kept only where they say something, for checkpoints from before.
        **({} if decode.key == "bytes" else {"decode.key": decode.key}),
        **({} if decode.wire == "confluent" else {"decode.wire": decode.wire}),
        **({} if envelope is None else {"decode.envelope": envelope.kind}),
    }


@dataclass(frozen=True, slots=True)
class Generation:
    """A checkpoint's identity. No two checkpoints share an id, so no transaction id is ever inherited.

    format  the one that its file has for ever: which programs can read it
    """

    id: str
    created_at: str
    pipeline: str
    world: World
    start: Start = field(default_factory=Start)
    format: int = WITHOUT_PLACED

    @property
    def lineage(self) -> str:
        """The generation that began to read: this one, or the first of those that went on from tables."""
        return self.start.lineage or self.id

    @property
    def topics(self) -> dict[str, str]:
        """Each topic that this reading has offsets of, read now or left, and its UUID."""
        return {**self.start.left, **self.world.topics}

    def as_of(self, so_far: Standing | None) -> Generation:
        """The same with the topics that its log reads by now, and those that it has left."""
        if so_far is None or not so_far.ends:
            return self
        known = {**self.topics, **so_far.topics}
        reads = {name: uuid for name, uuid in known.items() if name in so_far.ends}
        left = {name: uuid for name, uuid in known.items() if name not in so_far.ends}
        return replace(self, world=replace(self.world, topics=reads), start=replace(self.start, left=left))

    def app_id(self, role: str) -> str:
        """The application id of a table's transactions."""
        return f"{self.id}/{role}"


def app_of(generation: str, folder: str) -> str:
    """The application that a generation's commits to a table are made by, by its id and the table's folder."""
    return f"{generation}/{role_of(folder)}"


def born(checkpoint: Checkpoint, pipeline: str, world: World, start: Start | None = None) -> Generation:
    """A new generation, written into the checkpoint. Raises CheckpointMismatch if one lives there already."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    start = start or Start()
    # The programs that came before read what has nothing that they do not know.
    format_ = FORMAT if start.placed else WITHOUT_PLACED
    generation = Generation(uuid.uuid4().hex, now, pipeline, world.as_kept(), start, format_)
    if not checkpoint.files.put_new(GENERATION, _to_bytes(generation)):
        raise CheckpointMismatch(f"{checkpoint} has a generation already; resume it or {_NEW_CHECKPOINT}")
    return generation


def read_generation(checkpoint: Checkpoint, *, with_log: bool = False) -> Generation | None:
    """The generation that lives here, as it was born, or with the topics that its log reads by now; None in a new checkpoint.

    Raises CheckpointMismatch if its file is broken, or the log is.
    """
    try:
        where = f"{checkpoint}/{GENERATION}"
        with undamaged(where):
            value = json.loads(checkpoint.files.read(GENERATION))
            require_readable(where, int(value["format"]), FORMAT)
            generation = _from_json(value)
        return generation.as_of(checkpoint.log.state().so_far) if with_log else generation
    except FileNotFoundError:
        return None


def known_id(checkpoint: Checkpoint) -> str | None:
    """The id of the generation that lives here, by which a pipeline's own is known whatever it was called; None where there is none, or it cannot be read.

    Raises OSError.
    """
    try:
        found = read_generation(checkpoint)
    except CheckpointMismatch:
        return None
    return None if found is None else found.id


def check_same_world(generation: Generation, world: World) -> None:
    """Raises CheckpointMismatch, naming every difference and its remedy, if this is not the checkpoint's world."""
    before, now = generation.world, world.as_kept()
    _refuse(
        generation,
        [
            *_other_cluster(before.cluster_id, now.cluster_id),
            *_made_anew(generation.topics, now.topics),
            *_other_settings(before.fingerprint, now.fingerprint),
        ],
    )


def check_same_topics(generation: Generation, topics: Mapping[str, str]) -> None:
    """Raises CheckpointMismatch, naming each topic, where one of them was made anew since; `topics` is name -> UUID as of now."""
    _refuse(generation, _made_anew(generation.topics, topics))


def check_same_offsets(generation: Generation, world: World) -> None:
    """Raises CheckpointMismatch where the offsets that a generation read count other records in this world, whatever else differs."""
    before = generation.world
    _refuse(
        generation,
        [*_other_cluster(before.cluster_id, world.cluster_id), *_made_anew(before.topics, world.topics)],
    )


def _refuse(generation: Generation, found: Sequence[str]) -> None:
    if found:
        raise CheckpointMismatch(
            f"the checkpoint of pipeline {generation.pipeline!r} (generation {generation.id}, born "
            f"{generation.created_at}) cannot go on:\n" + "\n".join(f"- {line}" for line in found)
        )


def _other_cluster(before: str, now: str) -> list[str]:
    if before == now:
        return []
    sentence = (
        f"it belongs to the Kafka cluster {before!r}, source.kafka leads to {now!r}: offsets of one mean "
        f"nothing in the other. Point source.kafka back, or {_NEW_CHECKPOINT} with `start: again`"
    )
    return [sentence]


def _made_anew(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [
        f"topic {name!r} was made anew: its id was {before[name]} and is {now[name]}, so the offsets kept here count "
        f"other records. If that was meant, {_NEW_CHECKPOINT} with `start: again`"
        for name in made_anew(before, now)
    ]


def made_anew(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The topics that have another UUID than before."""
    return [name for name in sorted(set(before) & set(now)) if not _same_topic(before[name], now[name])]


def _same_topic(before: str, now: str) -> bool:
    # Earlier versions kept an id as librdkafka spells it.
    return UNKNOWN in (before, now) or topic_id(before) == topic_id(now)


def _other_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [
        f"the setting {name} was {_shown(before, name)} and is {_shown(now, name)}. Put it back, or {_NEW_CHECKPOINT} "
        "(with `start: from_tables` if the tables stay the same)"
        for name in sorted({*before, *now} - {_TOPICS})
        if _compared(before, name) != _compared(now, name)
    ]


def _compared(settings: Mapping[str, Any], name: str) -> str:
    # Earlier versions kept two slashes at the beginning of a path, which lead nowhere else than one.
    shown = _shown(settings, name)
    return shown.replace('"//', '"/', 1) if name == "sink.root" and shown.startswith('"//') else shown


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return json.dumps(settings[name], sort_keys=True) if name in settings else "not set"


def _to_bytes(generation: Generation) -> bytes:
    value = asdict(generation)
    start = generation.start
    value["start"] = {
        "mode": start.mode,
        "offsets": None if start.offsets is None else positions_to_json(start.offsets),
        "already": {table: positions_to_json(ends) for table, ends in start.already.items()},
        "lineage": start.lineage,
        "after": None if start.after is None else asdict(start.after),
        "dead": list(start.dead),
        "left": dict(start.left),
        **({"placed": stretches_to_json(start.placed)} if start.placed else {}),
    }
    return json.dumps({"format": generation.format, **value}, indent=1).encode()


def _from_json(value: dict[str, Any]) -> Generation:
    world, start = World(**value.pop("world")).as_kept(), value.pop("start")
    if start["mode"] not in get_args(StartMode):
        raise ValueError(start["mode"])
    offsets = None if start["offsets"] is None else positions_from_json(start["offsets"])
    already = {table: positions_from_json(ends) for table, ends in start["already"].items()}
    kept = {**value, "format": int(value["format"]), "world": world}
    # Those of earlier versions say nothing of other logs.
    after = None if start.get("after") is None else Owner(**start["after"])
    dead, left = tuple(map(str, start.get("dead", ()))), dict(start.get("left", {}))
    placed = stretches_from_json(start.get("placed", {}))
    begun = Start(start["mode"], offsets, already, start["lineage"], after, dead, left, placed)
    return Generation(**kept, start=begun)
