"""What is remembered of what a topic was sent, asked without a broker; whole ways are in tests/ingest/e2e/test_sinks_of_derived_tables.py."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from distributary.errors import BrokerUnavailable
from distributary.ingest.derivation.given import Derived
from distributary.ingest.derived import sinks, to_kafka
from distributary.ingest.derived.instances import Entities, instances
from distributary.ingest.derived.marks import Marks
from distributary.ingest.derived.sinks import Outside, bring_up
from distributary.ingest.derived.to_kafka import GONE, Topic, Uuids
from distributary.ingest.storage.posix import PosixFiles

RULE = {
    "table": "gold",
    "inputs": ["t"],
    "aggregate": {"by": ["city"], "columns": {"n": "count(*)"}},
    "sink": {"kafka": {"topic": "cities"}},
}


def test_that_nobody_says_which_topic_it_is_makes_none_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid, whole = "", list[bool]()

    def records(_: Any, __: Any, before: object, **___: Any) -> list[Any]:
        whole.append(before is None)
        return []

    monkeypatch.setattr(Uuids, "of", lambda *_: uuid)
    monkeypatch.setattr(to_kafka, "sending", lambda _: nullcontext())
    monkeypatch.setattr(to_kafka, "send", lambda *_: 1)
    monkeypatch.setattr(sinks._Sending, "_records", records)
    monkeypatch.setattr(sinks._Sending, "_before", lambda _, mark, __: mark)
    monkeypatch.setattr(sinks, "_pairs", lambda found: found)
    root = PosixFiles(tmp_path)
    outside = Outside("games", kafka={"bootstrap.servers": "there"}, marks=root.below("checkpoint"))
    (one,) = instances([Derived.model_validate(RULE)], Entities({}, folds=False))

    def sent(to: str) -> tuple[bool | None, str]:
        """Whether all rows were sent, None where none were; and the topic that is known then."""
        nonlocal uuid
        uuid = to
        write_deltalake(f"{root.url}/gold", pa.table({"city": ["Ulm"], "n": [1]}), mode="append")
        whole.clear()
        bring_up(None, one, root.below("gold"), outside, whole=False)  # type: ignore[arg-type] # none is needed
        _, mark = Marks(root.below("checkpoint"), "gold").last()
        assert mark is not None
        return whole[0] if whole else None, mark.topic

    assert sent("first") == (True, "first")
    assert sent("") == (False, "first")
    assert sent("another") == (True, "another"), "it was made anew while nobody answered"
    # A broker that has not heard yet of a topic that another one has.
    assert sent(GONE) == (True, "")
    assert sent("third") == (False, "third"), "to which all rows were sent"


@pytest.mark.parametrize(
    ("error", "tried"), [(to_kafka.BrokersSilent, ["a"]), (BrokerUnavailable, ["a", "b"])]
)
def test_where_no_broker_answers_one_table_waits_for_all_of_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BrokerUnavailable], tried: list[str]
) -> None:
    """Where one topic cannot be written to, all others are."""
    asked = list[str]()

    def sending(topic: Topic) -> Any:
        asked.append(topic.name)
        raise error("nobody answers")

    monkeypatch.setattr(Uuids, "of", lambda *_: "")
    monkeypatch.setattr(to_kafka, "sending", sending)
    root = PosixFiles(tmp_path)
    outside = Outside("games", kafka={"bootstrap.servers": "there"}, marks=root.below("checkpoint"))
    for name in ("a", "b"):
        rule = {**RULE, "table": name, "sink": {"kafka": {"topic": name}}}
        (one,) = instances([Derived.model_validate(rule)], Entities({}, folds=False))
        write_deltalake(f"{root.url}/{name}", pa.table({"city": ["Ulm"], "n": [1]}))
        with pytest.raises(BrokerUnavailable):
            bring_up(None, one, root.below(name), outside, whole=False)  # type: ignore[arg-type] # none is needed
    assert asked == tried
