"""Events on their way: whoever tells them waits for nobody, and nothing that is lost is lost in silence."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.event_v2 import RunState
from tests.ingest.lineage.listening import listening

from distributary.errors import ConfigError
from distributary.ingest.lineage.events import Telling
from distributary.ingest.lineage.sending import Sending, transport_of
from distributary.ingest.settings.lineage.given import Lineage


def told(*states: RunState) -> Iterable[Any]:
    telling = Telling.begun("urn:distributary:test", "prod", "games")
    return [telling.of_run(state, 0.0) for state in states]


def test_an_address_gets_each_event_with_the_token(tmp_path: Path) -> None:
    with listening() as listener:
        sending = Sending(
            transport_of(Lineage(url=f"{listener.url}/base", endpoint="/api/v2/lineage", token="abc-def"))  # noqa: S106
        )
        sending.send(lambda: told(RunState.START, RunState.COMPLETE))
        sending.close(10)
        assert (sending.told.taken, sending.told.lost) == (2, 0)
        assert [one["eventType"] for one in listener.events] == ["START", "COMPLETE"]
        assert [path for path, _ in listener.asked] == ["/base/api/v2/lineage"] * 2
        assert {headers["Authorization"] for _, headers in listener.asked} == {"Bearer abc-def"}


def test_a_file_gets_a_line_an_event_behind_those_that_are_there(tmp_path: Path) -> None:
    file = tmp_path / "new" / "runs.jsonl"
    for _ in range(2):
        sending = Sending(transport_of(Lineage(file=str(file))), file.parent)
        sending.send(lambda: told(RunState.START))
        sending.close(10)
    assert [json.loads(line)["eventType"] for line in file.read_text().splitlines()] == ["START"] * 2


def test_what_is_not_taken_is_counted_and_the_first_reason_is_told_without_a_word_of_what_was_sent(
    tmp_path: Path,
) -> None:
    with listening() as listener:
        listener.status = 403
        sending = Sending(transport_of(Lineage(url=listener.url)))
        sending.send(lambda: told(RunState.START))
        sending.send(lambda: told(RunState.COMPLETE))
        sending.close(10)
    assert (sending.told.taken, sending.told.lost, sending.told.why) == (0, 2, "HTTP 403")
    gone = Sending(transport_of(Lineage(url=listener.url)))
    gone.send(lambda: told(RunState.START))
    gone.close(10)
    assert (gone.told.lost, gone.told.why) == (1, "ConnectionError")
    (tmp_path / "file").write_text("")
    nowhere = Sending(transport_of(Lineage(file=str(tmp_path / "file" / "runs.jsonl"))), tmp_path / "file")
    nowhere.send(lambda: told(RunState.START))
    nowhere.close(10)
    assert nowhere.told.taken == 0
    assert "Error" in nowhere.told.why


def test_who_does_not_answer_keeps_nobody_waiting_and_few_events_wait_for_it() -> None:
    with listening(answers=False) as listener:
        sending = Sending(transport_of(Lineage(url=listener.url, timeout_seconds=60)))
        began = time.monotonic()
        for _ in range(1000):
            sending.send(lambda: told(RunState.RUNNING))
        sending.close(0.05)
        assert time.monotonic() - began < 10
        assert sending.told.taken == 0
        assert sending.told.lost == 1000


def test_an_event_that_cannot_be_made_is_lost_and_the_next_one_is_not() -> None:
    made, taken = threading.Event(), list[Any]()

    class Takes:
        def emit(self, event: Any) -> None:
            taken.append(event)

    def fails() -> Iterable[Any]:
        made.set()
        raise ValueError("a secret of a table")

    sending = Sending(Takes())
    sending.send(fails)
    sending.send(lambda: ["another"])
    sending.close(10)
    assert made.is_set()
    assert taken == ["another"]
    assert sending.told.why == "ValueError"


def test_who_lacks_the_package_is_told_which_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("openlineage")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openlineage.client.transport.file", None)
    with pytest.raises(ConfigError, match=r"install distributary\[lineage\]"):
        transport_of(Lineage(file="a.jsonl"))
