from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.ingest.pipelines import settings
from typing_extensions import Buffer

from distributary.errors import (
    BudgetSpent,
    CommitImpossible,
    CredentialsRefused,
    DistributaryError,
    SetupError,
)
from distributary.ingest.columns.growth import Change
from distributary.ingest.kafka.client import Complaints
from distributary.ingest.pipeline import Pipeline
from distributary.ingest.progress import Silent
from distributary.ingest.settings.groups import Evolutions, Failures
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.storage.probe import require_put_if_absent
from distributary.ingest.supervision.budgets import Spending
from distributary.ingest.supervision.changes import changes_in_place
from distributary.ingest.supervision.outcome import Restart
from distributary.ingest.supervision.sentences import sentence
from distributary.ingest.supervisor import Supervisor
from distributary.ingest.tables.change import PlannedChange
from distributary.values import MASK


def test_an_errors_own_sentence_is_told_whole_and_a_foreign_one_by_its_first_line() -> None:
    assert sentence(CommitImpossible("table t\n- one\n- two\n"), {}) == "table t\n- one\n- two"
    assert sentence(ValueError("first\nsecond"), {}) == "ValueError: first"
    assert sentence(ValueError(), {}) == "ValueError: "
    assert len(sentence(ValueError("x" * 10_000), {})) == 500
    assert (
        sentence(OSError("GET https://a/b?sig=planted failed"), {})
        == f"OSError: GET https://a/b?{MASK} failed"
    )


def test_a_restart_lasts_from_the_attempt_that_met_the_schema_to_the_one_that_decodes_it() -> None:
    assert Restart(("schema 2",), 10.0, 12.5).gap_seconds == 2.5


# Somebody has to decide or to mend something first.
FATAL = {
    "BadRecord",
    "CheckpointMismatch",
    "CodecError",
    "CommitImpossible",
    "ConfigError",
    "CredentialsRefused",
    "DecoderUnavailable",
    "EvolutionStopped",
    "Fenced",
    "LeaseHeld",
    "NewerFormat",
    "PolicyStopped",
    "RegistryChanged",
    "SetupError",
    "SumsDisagree",
    "TableAhead",
    "TablesOfAnotherRun",
    "UnknownCodec",
}


def kinds(error: type[DistributaryError]) -> set[type[DistributaryError]]:
    """An error's class and those of the same kind that the product itself has."""
    below = (kinds(one) for one in error.__subclasses__() if one.__module__ == "distributary.errors")
    return {error}.union(*below)


def test_what_may_pass_by_itself_is_tried_again_and_nothing_else() -> None:
    assert {one.__name__ for one in kinds(DistributaryError) if one.fatal} == FATAL


def test_evolutions_do_not_eat_the_budget_of_failures() -> None:
    failures, evolutions = Spending(Failures()), Spending(Evolutions())
    for _ in range(20):
        assert evolutions.spend() is not None
    assert evolutions.spend() is None
    assert failures.spend() == 1.0


def test_only_tables_that_were_there_are_told_to_have_changed() -> None:
    added = (Change("a", "added", "bigint"), Change("b.c", "added", "string"))
    wider = (Change("d", "widened", "bigint"),)
    changes = [
        PlannedChange("old", "OLD", False, added, 2, None),
        PlannedChange("new", "NEW", True, added, 2, None),
        PlannedChange("wide", "WIDE", False, wider, 2, None),
        PlannedChange("both", "BOTH", False, added + wider, 2, None),
    ]
    assert changes_in_place(changes) == [
        "table old gets a, b.c",
        "table wide has wider d",
        "table both gets a, b.c; has wider d",
    ]


class Away(PosixFiles):
    """A store that does not answer."""

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        raise ConnectionError("no answer")


@dataclass
class Reading:
    """Topics that come to fit a pattern, and pipelines that read them, each of which is closed once another one is opened.

    fails    what is done instead of opening one the next time
    queries  what happens as queries begin, one after the other
    refused  how often the brokers do not accept who asks whether they are there
    window   of the budget of failures, in seconds
    begins   whether a batch is begun before a query does
    groups   of settings, beside those
    """

    root: Path
    names: tuple[str, ...] = ("a",)
    opened: list[tuple[str, ...]] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    fails: Any = None
    queries: list[Any] = field(default_factory=list)
    refused: int = 0
    window: float = 600.0
    begins: bool = True
    groups: dict[str, Any] = field(default_factory=dict)

    def was_away(self) -> bool:
        if self.refused:
            self.refused -= 1
            raise Complaints("somewhere").no_login("the token has expired")
        return False

    def begin(self, number: int) -> None:
        self.read.append(number)
        if self.queries:
            self.queries.pop(0)()

    def open(self) -> Pipeline:
        self.opened.append(self.names)
        if self.fails is not None:
            fails, self.fails = self.fails, None
            fails()
        groups = {
            "trigger": {"available_now": True},
            "supervisor": {"failures": {"first_wait_seconds": 0.01, "window_seconds": self.window}},
            **self.groups,
        }
        chosen = settings(self.root, source={"topics": list(self.names)}, **groups)
        number = len(self.opened)

        def runner(*told: Any) -> SimpleNamespace:
            def resume() -> None:
                if self.begins:
                    told[3](7)
                self.begin(number)

            return SimpleNamespace(resume=resume)

        channels = SimpleNamespace(
            names=lambda: self.names, look=lambda: False, partitions=dict, was_away=self.was_away
        )
        run = SimpleNamespace(
            root=PosixFiles(self.root),
            checkpoint=SimpleNamespace(files=PosixFiles(self.root)),
            parked=SimpleNamespace(waits=dict),
            memory=SimpleNamespace(remade={f"remade_by_{number}": None}),
        )
        found = SimpleNamespace(
            settings=chosen,
            run=run,
            channels=channels,
            topics=SimpleNamespace(spark=None),
            names=None,
            comes_to_an_end=True,
            records_waiting=lambda: None,
            batch_runner=runner,
            lost=lambda: ({}, []),
            require_next=lambda: None,
            next_range=dict,
        )
        return cast("Pipeline", found)

    def goes_on(self) -> Supervisor:
        """A run that finds another topic as it begins to read."""
        supervisor = Supervisor(self.open, Silent(), threading.Event())
        self.names = ("a", "b")
        # It has read before.
        supervisor._has_read = True
        return supervisor


def test_a_pipeline_that_was_closed_for_another_one_is_not_used_though_that_could_not_be_opened(
    tmp_path: Path,
) -> None:
    """As where the topic that came is gone again by then: others have the lease, and its log has another start."""
    reading = Reading(tmp_path)

    def fails() -> None:
        reading.names = ("a",)
        raise OSError("a disk failed")

    supervisor = reading.goes_on()
    reading.fails = fails
    assert supervisor.run().summary.failures == 1
    assert reading.opened == [("a",), ("a", "b"), ("a",)]
    assert reading.read == [3]


def test_a_store_that_is_away_as_topics_come_amid_a_run_is_waited_for(tmp_path: Path) -> None:
    reading = Reading(tmp_path)
    supervisor = reading.goes_on()
    reading.fails = lambda: require_put_if_absent(Away(tmp_path))
    assert supervisor.run().summary.failures == 1
    assert reading.opened == [("a",), ("a", "b"), ("a", "b")]


def test_a_store_that_may_not_be_used_as_topics_come_ends_the_run(tmp_path: Path) -> None:
    class Refused(PosixFiles):
        def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
            raise PermissionError("403")

    reading = Reading(tmp_path)
    supervisor = reading.goes_on()
    reading.fails = lambda: require_put_if_absent(Refused(tmp_path))
    with pytest.raises(SetupError, match="may not be used"):
        supervisor.run()


def spark_fails() -> None:
    raise RuntimeError("Spark failed: SslAuthenticationException")


def test_credentials_that_brokers_refuse_spark_amid_a_run_are_tried_again_within_the_budget(
    tmp_path: Path,
) -> None:
    """Who asks the brokers whether they are there is refused as well, and that is no end of the run."""
    reading = Reading(tmp_path, queries=[spark_fails, spark_fails], refused=2)
    supervisor = reading.goes_on()
    assert supervisor.run().summary.failures == 2
    assert reading.read == [2, 2, 2]


def test_credentials_that_brokers_never_accepted_end_the_run_at_once(tmp_path: Path) -> None:
    reading = Reading(tmp_path, queries=[spark_fails], refused=1)
    supervisor = reading.goes_on()
    supervisor._has_read = False
    with pytest.raises(CredentialsRefused, match="has expired"):
        supervisor.run()


def test_a_batch_that_fails_each_time_ends_the_run_however_long_each_attempt_takes(tmp_path: Path) -> None:
    """Each is longer ago than the window when the next one fails, and nobody is there to read what is told."""
    reading = Reading(tmp_path, queries=[spark_fails] * 8, window=0.001)
    supervisor = Supervisor(reading.open, Silent(), threading.Event())
    with pytest.raises(BudgetSpent, match=r"too many failures \(6 and no batch done in between, 5 allowed\)"):
        supervisor.run()


def test_what_fails_each_time_before_a_batch_begins_ends_the_run_however_long_that_takes(
    tmp_path: Path,
) -> None:
    """As where thousands of tables are looked at before the one that nobody can open."""
    reading = Reading(tmp_path, queries=[spark_fails] * 8, window=0.001, begins=False)
    with pytest.raises(BudgetSpent, match=r"\(6 and no batch done in between, 5 allowed\)"):
        Supervisor(reading.open, Silent(), threading.Event()).run()


def fails_in_turn(answers: list[bool]) -> Any:
    """What is asked where the next range begins: nothing comes, or it fails, one after the other; then nothing comes any more."""

    def next_range() -> dict[str, object]:
        if answers and answers.pop(0):
            spark_fails()
        return {}

    return next_range


def test_what_fails_each_time_before_the_first_range_ends_a_run_that_is_to_end(tmp_path: Path) -> None:
    reading = Reading(tmp_path, window=0.001, begins=False)
    supervisor = Supervisor(reading.open, Silent(), threading.Event())
    cast("Any", supervisor._pipeline).next_range = fails_in_turn([True] * 8)
    with pytest.raises(BudgetSpent, match=r"\(6 and no batch done in between, 5 allowed\)"):
        supervisor.run()


def test_failures_between_which_a_run_waits_for_records_count_within_the_window_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One a month ends no run that looks for records meanwhile, and finds none."""
    monkeypatch.setattr("distributary.ingest.supervisor._LOOK_SECONDS", 0.0)
    trigger = {"trigger": {"interval_seconds": 0}}
    reading = Reading(tmp_path, window=0.001, begins=False, groups=trigger)
    stop = threading.Event()
    supervisor = Supervisor(reading.open, Silent(), stop)
    pipeline, answers = cast("Any", supervisor._pipeline), [False, True] * 8
    ask = fails_in_turn(answers)

    def next_range() -> dict[str, object]:
        if not answers:
            stop.set()
        return cast("dict[str, object]", ask())

    pipeline.comes_to_an_end, pipeline.start, pipeline.next_range = False, lambda *_: None, next_range
    assert supervisor.run().summary.failures == 8


def test_a_batch_that_meets_an_outage_each_time_which_is_over_at_once_ends_the_run(tmp_path: Path) -> None:
    """As where workers cannot reach the brokers by the names that those tell: each attempt takes as long as a fetch is waited for."""

    def no_answer() -> None:
        raise Complaints("somewhere").silent("a fetch timed out")

    reading = Reading(tmp_path, queries=[no_answer] * 20, window=0.001)
    supervisor = Supervisor(reading.open, Silent(), threading.Event())
    with pytest.raises(BudgetSpent, match=r"a fetch timed out"):
        supervisor.run()


def test_what_was_made_anew_before_other_topics_came_is_told_at_the_end(tmp_path: Path) -> None:
    outcome = Reading(tmp_path).goes_on().run()
    assert outcome.remade == ("remade_by_1", "remade_by_2")


def test_a_store_of_inferred_schemas_that_is_away_amid_a_run_is_waited_for(tmp_path: Path) -> None:
    """It may be another one than that of the tables, which answers meanwhile."""
    nobody = {"endpoint": "http://127.0.0.1:9", "login": {"access_key_id": "a", "secret_access_key": "b"}}
    groups = {
        "decode": {"format": "json", "schema_location": "s3://schemas/games"},
        "storage": {"s3": nobody, "http": {"retry_seconds": 0}},
    }

    def no_answer() -> None:
        raise ConnectionError("s3://schemas/games/3.json: error sending request")

    stop, told = threading.Event(), list[str]()

    class Watching(Silent):
        def waiting(self, reason: str, seconds: float) -> None:
            told.append(reason)
            stop.set()

    reading = Reading(tmp_path, queries=[no_answer] * 2, groups=groups)
    assert Supervisor(reading.open, Watching(), stop).run().summary.failures == 0
    assert "s3://schemas/games does not answer" in told[0]


def test_a_source_that_refuses_who_asks_amid_a_run_is_tried_again_within_the_budget(tmp_path: Path) -> None:
    """Why a query failed is asked there, too, where the settings say that losses are recorded."""
    reading = Reading(tmp_path)
    supervisor = Supervisor(reading.open, Silent(), threading.Event())
    pipeline = cast("Any", supervisor._pipeline)
    refusals = 3

    def nothing_lost() -> Any:
        return {}, []

    def refuses() -> Any:
        raise PermissionError("s3://upstream/orders: 403")

    def require_next() -> None:
        nonlocal refusals
        pipeline.lost = refuses
        if refusals:
            refusals -= 1
            refuses()

    def begins(*_: Any) -> SimpleNamespace:
        pipeline.lost = nothing_lost
        return SimpleNamespace(resume=lambda: None)

    pipeline.require_next, pipeline.batch_runner = require_next, begins
    assert supervisor.run().summary.failures == 3
