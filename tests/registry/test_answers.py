"""What is asked of a registry, and what is not since it has been answered."""

from __future__ import annotations

import pytest

from distributary.errors import BadSchema, RegistryFault, SchemaNotFound
from distributary.registry.answers import Answers, or_raise
from distributary.registry.base import Schema, SubjectVersion
from distributary.registry.patience import Others
from distributary.registry.waits import Waits

IMPATIENT = Waits(retry_seconds=0, unknown_id_wait_seconds=0, failing_id_wait_seconds=0)

AWAKE = Others(lambda: True)

FIRST = (SubjectVersion("games-value", 1, 7),)


class Registry:
    """One that knows schema 7, fails at 8 and has a bad 9; what it was asked is noted."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.answers: Answers[int, str] = Answers(IMPATIENT, self._impossible)

    @staticmethod
    def _impossible(key: int) -> str | None:
        return "ids begin with 0" if key < 0 else None

    def _fetch(self, key: int) -> Schema:
        self.asked.append(key)
        if key == 7:
            return Schema(7, "AVRO", '"string"')
        raise {8: RegistryFault("500"), 9: BadSchema("no schema")}.get(key, SchemaNotFound("unknown"))

    def _fetch_versions(self, subject: str) -> tuple[SubjectVersion, ...]:
        self.asked.append(subject)
        if subject == "games-value":
            return FIRST
        raise SchemaNotFound(f"no subject {subject}")

    def of(self, *keys: int) -> list[object]:
        found = self.answers.schemas(keys, self._fetch, AWAKE)
        assert tuple(found) == tuple(dict.fromkeys(keys))
        return [*found.values()]

    def versions(self, subject: str) -> tuple[SubjectVersion, ...]:
        return self.answers.versions(subject, self._fetch_versions)


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_what_was_answered_is_asked_once_whether_schema_bad_or_unknown(registry: Registry) -> None:
    first = registry.of(7, 9, 1, 7)
    second = registry.of(1, 9, 7)
    assert sorted(map(str, registry.asked)) == ["1", "7", "9"]
    assert [type(answer) for answer in first] == [Schema, BadSchema, SchemaNotFound]
    assert [str(answer) for answer in reversed(second)] == [str(answer) for answer in first]


def test_what_nobody_can_know_is_not_asked(registry: Registry) -> None:
    (answer,) = registry.of(-1)
    assert isinstance(answer, SchemaNotFound)
    assert str(answer) == "ids begin with 0"
    assert registry.asked == []


def test_one_that_failed_for_long_is_asked_again_each_time(registry: Registry) -> None:
    assert all(isinstance(registry.of(8)[0], RegistryFault) for _ in range(2))
    assert registry.asked == [8, 8]


def test_lists_of_versions_and_that_there_is_none_are_believed(registry: Registry) -> None:
    assert registry.versions("games-value") == registry.versions("games-value") == FIRST
    for _ in range(2):
        with pytest.raises(SchemaNotFound, match="no subject shop-value"):
            registry.versions("shop-value")
    assert registry.asked == ["games-value", "shop-value"]


def test_who_registers_makes_it_forget_what_may_be_otherwise_now(registry: Registry) -> None:
    registry.of(1)
    registry.versions("games-value")
    assert registry.answers.registered("games-value", lambda subject: f"sent for {subject}") == (
        "sent for games-value"
    )
    registry.answers.forget([1], ["games-value"])
    registry.of(1)
    registry.versions("games-value")
    assert registry.asked == [1, "games-value", 1, "games-value"]


def test_an_answer_that_is_an_error_is_raised_afresh() -> None:
    kept = BadSchema("no schema")
    with pytest.raises(BadSchema, match="no schema") as raised:
        or_raise(kept)
    assert raised.value is not kept
    assert or_raise(7) == 7
