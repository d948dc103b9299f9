"""Runs of one log that stand still anywhere, lose answers, die and wake: each record is in the table once, whatever happens."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.examples import examples
from tests.ingest.commit_log.logs import TOPIC, earliest, entries
from tests.ingest.commit_log.stepped import Fault, Run, World

from distributary.ingest.commit_log.entries import Batch
from distributary.ingest.commit_log.reading import CommitLog

FIRST = earliest().ends[TOPIC][0]


class Runs(RuleBasedStateMachine):
    """Processes that all run one log, and a store that does what stores do."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.runs: list[Run] = []

    @precondition(lambda self: sum(run.alive for run in self.runs) < 4)
    @rule()
    def somebody_starts(self) -> None:
        self.runs.append(Run(self.world))

    @precondition(lambda self: self.runs)
    @rule(which=st.integers(0, 9), steps=st.integers(1, 12))
    def goes_on(self, which: int, steps: int) -> None:
        for _ in range(steps):
            self.runs[which % len(self.runs)].step()

    @precondition(lambda self: self.runs)
    @rule(which=st.integers(0, 9))
    def goes_on_for_long(self, which: int) -> None:
        for _ in range(300):
            self.runs[which % len(self.runs)].step()

    @precondition(lambda self: self.runs and sum(run.alive for run in self.runs) < 4)
    @rule(which=st.integers(0, 9), steps=st.integers(0, 40), others=st.integers(20, 400))
    def stands_still_while_another_takes_over(self, which: int, steps: int, others: int) -> None:
        stands = self.runs[which % len(self.runs)]
        self.runs.append(Run(self.world))
        for run, most in ((stands, steps), (self.runs[-1], others), (stands, 60)):
            for _ in range(most):
                run.step()

    @precondition(lambda self: self.runs)
    @rule(which=st.integers(0, 9))
    def dies(self, which: int) -> None:
        self.runs[which % len(self.runs)].kill()

    @precondition(lambda self: self.runs)
    @rule(which=st.integers(0, 9), fault=st.sampled_from(("lost", "late", "failed")))
    def a_put_goes_wrong(self, which: int, fault: Fault) -> None:
        self.runs[which % len(self.runs)].fault = fault

    @precondition(lambda self: self.world.late)
    @rule()
    def a_late_put_arrives(self) -> None:
        self.world.arrive()

    @rule(broken=st.booleans())
    def a_table_breaks_or_is_put_right(self, broken: bool) -> None:
        self.world.broken = broken

    @rule()
    def a_file_is_lost(self) -> None:
        """Only one that may still be written again: of the newest batch, in no table yet."""
        state = CommitLog(self.world.files).state()
        if state.so_far is None or state.so_far.last is None or self.world.is_committed(state.so_far.last):
            return
        batch = CommitLog(self.world.files).newest_batch(state.so_far.last)
        assert batch is not None
        (path,) = batch.decided["files"]
        self.world.files.delete([path])
        self.world.vanished.add(path)

    @invariant()
    def what_is_committed_is_there_and_each_record_once(self) -> None:
        assert self.world.committed <= set(self.world.files.there)
        reached = FIRST
        for _, (start, end) in sorted(self.world.table.items()):
            assert start == reached
            reached = end

    @invariant()
    def behind_what_files_wait_the_log_says(self) -> None:
        log = CommitLog(self.world.files)
        state = log.state()
        for number in () if state.so_far is None else state.so_far.parked.get("t", ()):
            log.as_finished(number)

    def teardown(self) -> None:
        for run in self.runs:
            run.kill()
        while self.world.late:
            self.world.arrive()
        last = Run(self.world)
        for _ in range(400):
            last.step()
        last.kill()
        self.what_is_committed_is_there_and_each_record_once()
        self.everything_decided_is_committed()

    def everything_decided_is_committed(self) -> None:
        found = [entry for entry in entries(self.world.files) if isinstance(entry, Batch)]
        newest = found[-1]
        assert {entry.number for entry in found[:-1]} <= set(self.world.table)
        assert set(self.world.decisions) <= {*self.world.table, newest.number}


@pytest.mark.usefixtures("closing_soon")
class TestInterleavings(Runs.TestCase):  # type: ignore[misc, valid-type]
    """`make test-heavy` goes ten times as deep."""

    settings = settings(max_examples=examples(25), stateful_step_count=50, deadline=None)
