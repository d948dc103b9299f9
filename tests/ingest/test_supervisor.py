from __future__ import annotations

from distributary.errors import CommitImpossible, DistributaryError
from distributary.ingest.columns.growth import Change
from distributary.ingest.settings.groups import Evolutions, Failures
from distributary.ingest.supervision.budgets import Spending
from distributary.ingest.supervision.changes import changes_in_place
from distributary.ingest.supervision.sentences import sentence
from distributary.ingest.supervisor import Restart
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
