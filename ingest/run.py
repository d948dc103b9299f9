"""Running a pipeline: what `distributary run` does, as a function."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from pyspark.sql import SparkSession

from distributary.codecs.base import load_codec
from distributary.ingest.inference.entities import infer_entities, keep
from distributary.ingest.inference.topic import infer
from distributary.ingest.inputs.before_a_look import require_had_before
from distributary.ingest.inputs.opening import open_source
from distributary.ingest.interruptible import Stopped, when_late
from distributary.ingest.lease.holding import looked_for
from distributary.ingest.lease.keeper import Keeper
from distributary.ingest.lineage.of_runs import told
from distributary.ingest.pipeline import Pipeline, open_pipeline
from distributary.ingest.progress import Progress, Silent, Summary
from distributary.ingest.schemas.from_columns import take_columns
from distributary.ingest.schemas.hints import hints_of
from distributary.ingest.schemas.inferred import SchemaLocation
from distributary.ingest.schemas.inferred_per_entity import EntitySchemas, location_of, schema_place
from distributary.ingest.schemas.mixed import MixedSchemas
from distributary.ingest.schemas.opening import kept_as, open_registry
from distributary.ingest.schemas.subjects import inferred_subject
from distributary.ingest.session import pipeline_session
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.contract import Channels
from distributary.ingest.spark.jvm import jvm_needed
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.probe import require_answers
from distributary.ingest.supervision.outcome import Outcome
from distributary.ingest.supervisor import Supervisor
from distributary.registry.base import SchemaRegistry
from distributary.registry.disk.cache import DiskCache, Notice, to_log

# Whether somebody is dead who held the lease takes six of them to see.
_LATE_SECONDS = 10.0


@jvm_needed()
def run(
    settings: Settings,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    spark: SparkSession | None = None,
    registry: SchemaRegistry | None = None,
) -> Outcome:
    """Run a pipeline until it is done, is told to stop, or cannot go on.

    settings  the pipeline's; those of `Settings.once` end when what is there now is taken
    progress  told of batches, restarts and waits as they happen; by default nobody is
    stop      set it, from any thread, to end the run: the batch under way is finished first
    spark     the session to use; by default the process's own, or one that ends with the run
    registry  where schemas come from; by default what the settings say

    Returns what the run did. Raises a DistributaryError that says why it cannot go on: LeaseHeld while another run is
    at it, BudgetSpent after too many failures, EvolutionStopped and PolicyStopped where the settings say `fail`. A run
    that is started again goes on where the last one ended, whatever ended it.

    >>> outcome = distributary.run(settings.once())
    >>> outcome.summary.rows
    200
    """
    keeper = looked_for(settings.checkpoint, settings.storage)
    with ExitStack() as opened:
        session = spark or opened.enter_context(pipeline_session(settings))
        return run_in(session, keeper, settings, progress or Silent(), stop or threading.Event(), registry)


@jvm_needed()
def run_in(  # noqa: PLR0913, PLR0917 - one value each of what a run needs
    session: SparkSession,
    keeper: Keeper,
    settings: Settings,
    watch: Progress,
    stopped: threading.Event,
    registry: SchemaRegistry | None = None,
) -> Outcome:
    """The same in this session, under this lease. Raises what `run` raises."""
    with ExitStack() as opened, suppress(Stopped):
        begun = opened.enter_context(when_late(lambda: _tell_of_stores(settings, watch), _LATE_SECONDS))
        require_answers(_stores(settings), stopped)
        channels = opened.enter_context(open_source(settings, session, stopped, watch.waiting))
        own = registry or opened.enter_context(
            schemas_of(settings, session, channels, lambda notice: watch.waiting(notice.text, 0.0))
        )
        progress, derived = opened.enter_context(told(settings, watch, channels.names))
        one, keepers = opened.enter_context(ExitStack()), iter([keeper])

        def opened_anew() -> Pipeline:
            one.close()
            reading = settings.of_topics(channels.names())
            # One that has let go holds nothing again.
            pipeline = one.enter_context(open_pipeline(reading, session, own, channels, next(keepers, None)))
            begun()
            return pipeline

        return Supervisor(opened_anew, progress, stopped, derived).run()
    # It was told to stop before it began.
    return Outcome(Summary(), ())


def _stores(settings: Settings) -> list[Files]:
    """A place in each store that a run writes to."""
    places = [settings.sink.root, settings.checkpoint]
    if inferred_subject(settings.name, settings.decode) is not None:
        places.append(schema_place(settings.name, settings.decode))
    stores = {(place.scheme, place.authority): place for place in places if place.kind != "posix"}
    return [open_files(place, settings.storage) for place in stores.values()]


def _tell_of_stores(settings: Settings, watch: Progress) -> None:
    """Name the stores that a run which has not begun asks: one that does not answer ends it after a minute and more."""
    places = dict.fromkeys([settings.sink.root, settings.checkpoint])
    if stores := [str(place) for place in places if place.kind != "posix"]:
        seconds = settings.storage.http.retry_seconds
        watch.waiting(
            f"not begun yet: if what is at {' and '.join(stores)} does not answer, it is asked again for {seconds:.0f} s (storage.http.retry_seconds)",
            0.0,
        )


@contextmanager
def schemas_of(
    settings: Settings,
    spark: SparkSession,
    channels: Channels,
    tell: Callable[[Notice], None] = to_log,
    *,
    as_kept: bool = False,
) -> Iterator[SchemaRegistry]:
    """Where the settings' schemas come from: the registry, the source itself, the location of the one that is inferred, or registry and location.

    Where no record names its schema, a location that is empty gets its first version, inferred from what the topics hold
    now. `tell` is told when the registry's answers come from its cache. With `as_kept` the source is not asked for what it brings: records
    that were read before need no more than what was kept for them.
    """
    if not as_kept:
        require_had_before(settings, channels)
    if (brought := channels.schemas()) is not None:
        yield brought
        return
    codec = load_codec(settings.decode.codec)
    if codec.registered:
        with open_registry(settings.registry) as registry:
            known = _kept(registry, settings, tell)
            if codec.capabilities.growing is None:
                yield known
                return
            hints = hints_of(settings.decode.schema_hints)
            yield MixedSchemas(known, _location(settings), hints.json())
        return
    location = _location(settings)
    if as_kept and not isinstance(location, EntitySchemas) and location.latest() is not None:
        yield location
        return
    topics = channels.records(spark, settings.name, settings.source, settings.route)
    if (told := channels.columns()) is not None:
        take_columns(location, location.subject, settings.decode, told)
    elif isinstance(location, EntitySchemas):
        if not location.names():
            keep(location, infer_entities(topics, settings.decode, settings.route, channels))
    elif location.latest() is None:
        location.register(location.subject, infer(topics, settings.decode, channels).text)
    yield location


def _kept(registry: SchemaRegistry, settings: Settings, tell: Callable[[Notice], None]) -> SchemaRegistry:
    """The registry with its answers kept, where the settings say so."""
    cache = settings.registry.cache
    if cache is None:
        return registry
    return DiskCache(registry, open_files(cache, settings.storage), kept_as(settings.registry), tell)


def _location(settings: Settings) -> SchemaLocation:
    location = location_of(settings.name, settings.decode, settings.storage)
    location.check_store()
    return location
