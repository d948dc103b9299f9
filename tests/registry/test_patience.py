from __future__ import annotations

from itertools import count
from time import monotonic

import pytest

from distributary.errors import (
    BadSchema,
    ConfigError,
    CredentialsRefused,
    RegistryBusy,
    RegistryFault,
    RegistryUnavailable,
    SchemaNotFound,
)
from distributary.registry import patience
from distributary.registry.patience import Others, Patience

OTHERS = Others(lambda: True)


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
    answers = patient.ask(["a", "broken", "b"], question, OTHERS)
    assert isinstance(answers.pop("broken"), RegistryFault)
    assert answers == {"a": "a", "b": "b"}
    assert 0.4 <= monotonic() - began < 5
    assert 5 < next(asked) < 50
    assert list(patient.ask(["broken"], question, OTHERS, brief={"broken"})) == ["broken"]


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
    assert patient.ask(["k"], question, OTHERS) == {"k": "found"}


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
    answers = patient.ask([*hanging, *fine], question, OTHERS)
    assert all(isinstance(answers[key], RegistryFault) for key in hanging)
    assert [answers[key] for key in fine] == list(fine)
    # A round ends with the first that nothing comes for; those that failed are behind all others in the next.
    # Threads beside each other may be a question ahead of the one that was handed out before theirs.
    assert max(map(asked.index, fine)) < 40 + patience.THREADS


def test_credentials_that_are_refused_for_one_key_are_that_keys_trouble_where_they_see_others() -> None:
    def question(key: str) -> str:
        if key == "forbidden":
            raise CredentialsRefused(key)
        return key

    patient = Patience(retry_seconds=0, unknown_seconds=0, fault_seconds=0.2)
    began = monotonic()
    answers = patient.ask(["forbidden", "a"], question, Others(lambda: True, lambda: True))
    assert answers["a"] == "a"
    assert isinstance(answers["forbidden"], RegistryFault)
    assert monotonic() - began >= 0.2
    # A registry may list nothing to who may see nothing: that is who asks, and no key.
    with pytest.raises(CredentialsRefused):
        patient.ask(["forbidden", "a"], question, Others(lambda: True, lambda: False))


def test_who_has_too_much_to_do_for_one_key_is_no_outage_of_the_others() -> None:
    def question(key: int) -> int:
        if key == 0:
            raise RegistryBusy(str(key))
        return key

    patient = Patience(retry_seconds=0, unknown_seconds=0, fault_seconds=0.2)
    answers = patient.ask(range(100), question, OTHERS)
    assert isinstance(answers.pop(0), RegistryFault)
    assert answers == {key: key for key in range(1, 100)}


def test_who_answers_a_few_at_a_time_is_blamed_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate limit: all but a few questions of a round are turned away, so that the last key waits for many rounds."""
    monkeypatch.setattr(patience, "THREADS", 1)
    left = count(1)

    def question(key: int) -> int:
        if next(left) % 3:
            return key
        raise RegistryBusy(str(key))

    patient = Patience(retry_seconds=0, unknown_seconds=0, fault_seconds=0.5)
    began = monotonic()
    keys = range(30)
    monkeypatch.setattr(patience, "_BACK_OFF", lambda state: 0.1)
    assert patient.ask(keys, question, OTHERS) == {key: key for key in keys}
    assert monotonic() - began > 0.5


def test_answers_are_kept_though_the_rest_is_given_up() -> None:
    kept: list[int] = []

    def question(key: int) -> int:
        if key == 3:
            raise RegistryUnavailable(str(key))
        return key

    with pytest.raises(RegistryUnavailable):
        Patience(0, 0).ask([1, 2, 3], question, keep=lambda key, answer: kept.append(key))
    assert set(kept) <= {1, 2}
    assert kept
