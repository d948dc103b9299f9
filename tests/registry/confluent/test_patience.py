from __future__ import annotations

from itertools import count
from time import monotonic

import pytest

from distributary.errors import BadSchema, ConfigError, RegistryFault, RegistryUnavailable, SchemaNotFound
from distributary.registry.confluent import patience
from distributary.registry.confluent.patience import Patience


def test_a_no_is_believed_only_after_its_time() -> None:
    asked = count(1)

    def question(key: str) -> str:
        raise SchemaNotFound(f"{key} {next(asked)}")

    began = monotonic()
    answer = Patience(retry_seconds=0, unknown_seconds=0.2).ask(["k"], question)["k"]
    assert isinstance(answer, SchemaNotFound)
    assert monotonic() - began >= 0.2
    assert next(asked) > 2


def test_a_no_that_turns_into_an_answer_in_time_is_that_answer() -> None:
    asked = count(1)

    def question(key: str) -> str:
        if next(asked) < 3:
            raise SchemaNotFound(key)
        return "found"

    assert Patience(retry_seconds=0, unknown_seconds=30).ask(["k"], question) == {"k": "found"}


def test_silence_is_asked_again_and_then_raised() -> None:
    asked = count(1)

    def question(key: str) -> str:
        next(asked)
        raise RegistryUnavailable(key)

    with pytest.raises(RegistryUnavailable):
        Patience(retry_seconds=0.1, unknown_seconds=0).ask(["k"], question)
    assert next(asked) > 2


def test_a_no_after_a_silence_gets_its_whole_time() -> None:
    """A registry that comes back denies what it knows; the time it was away must not count against it."""
    asked = count(1)
    answers = {1: RegistryUnavailable("away"), 2: SchemaNotFound("just back"), 3: SchemaNotFound("still")}

    def question(key: str) -> str:
        error = answers.get(next(asked))
        if error is not None:
            raise error
        return "found"

    assert Patience(retry_seconds=30, unknown_seconds=30).ask(["k"], question) == {"k": "found"}


def test_many_unknown_keys_share_one_wait() -> None:
    began = monotonic()

    def question(key: int) -> int:
        if key % 2:
            raise SchemaNotFound(str(key))
        return key

    answers = Patience(retry_seconds=0, unknown_seconds=0.3).ask(range(100), question)
    assert [key for key, answer in answers.items() if answer == key] == list(range(0, 100, 2))
    assert monotonic() - began < 5


def test_one_silence_ends_the_round_for_all() -> None:
    asked = count(1)

    def question(key: int) -> int:
        next(asked)
        raise RegistryUnavailable(str(key))

    with pytest.raises(RegistryUnavailable):
        Patience(retry_seconds=0, unknown_seconds=0).ask(range(1_000), question)
    assert next(asked) < 100


def test_a_bad_schema_is_an_answer_and_other_errors_are_raised_at_once() -> None:
    def bad(key: str) -> str:
        raise BadSchema(key)

    def refused(key: str) -> str:
        raise ConfigError(key)

    patient = Patience(retry_seconds=30, unknown_seconds=30)
    assert isinstance(patient.ask(["k"], bad)["k"], BadSchema)
    with pytest.raises(ConfigError):
        patient.ask(["k"], refused)


def test_a_fault_that_lasts_is_an_answer_while_other_questions_are_answered() -> None:
    asked = count(1)

    def question(key: str) -> str:
        next(asked)
        if key == "broken":
            raise RegistryFault(key)
        return key

    began = monotonic()
    patient = Patience(retry_seconds=0.1, unknown_seconds=0, fault_seconds=0.4)
    answers = patient.ask(["a", "broken", "b"], question, lambda: True)
    assert isinstance(answers.pop("broken"), RegistryFault)
    assert answers == {"a": "a", "b": "b"}
    assert 0.4 <= monotonic() - began < 5
    assert 5 < next(asked) < 50
    assert list(patient.ask(["broken"], question, lambda: True, brief={"broken"})) == ["broken"]


def test_a_fault_is_an_outage_where_no_other_question_is_answered() -> None:
    def question(key: str) -> str:
        raise RegistryFault(key)

    with pytest.raises(RegistryFault):
        Patience(retry_seconds=0.1, unknown_seconds=0, fault_seconds=30).ask(["k"], question)
    with pytest.raises(RegistryFault):
        Patience(retry_seconds=0, unknown_seconds=0).ask(["k"], question, brief={"k"})


def test_a_fault_that_passes_is_none() -> None:
    asked = count(1)

    def question(key: str) -> str:
        if next(asked) < 4:
            raise RegistryFault(key)
        return "found"

    patient = Patience(retry_seconds=0, unknown_seconds=0, fault_seconds=30)
    assert patient.ask(["k"], question, lambda: True) == {"k": "found"}


def test_a_key_that_no_answer_comes_for_keeps_none_of_the_others_from_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "_SLOW_SECONDS", 0.0)
    hanging, fine = range(20), range(20, 40)
    asked: list[int] = []

    def question(key: int) -> int:
        asked.append(key)
        if key in hanging:
            raise RegistryFault(str(key))
        return key

    patient = Patience(retry_seconds=0, unknown_seconds=0, fault_seconds=0.5)
    answers = patient.ask([*hanging, *fine], question, lambda: True)
    assert all(isinstance(answers[key], RegistryFault) for key in hanging)
    assert [answers[key] for key in fine] == list(fine)
    # A round ends with the first that nothing comes for; those that failed are behind all others in the next.
    assert max(map(asked.index, fine)) < 40
