"""What a replay keeps of itself says the oldest format that has all of it, and is read by none that knows less."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from distributary.errors import AnswerLost, CheckpointMismatch, LeaseHeld, PolicyStopped
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.replay import kept
from distributary.ingest.replay.kept import (
    FORMAT,
    LEAVING,
    NUMBERED,
    OF,
    Turns,
    kept_as,
    next_number,
    unfinished,
)
from distributary.ingest.replay.portions import Portion
from distributary.ingest.storage.opening import files_at
from distributary.ingest.upkeep.replayed import forget, sweep_records


def begun(portion: Portion | None) -> dict[str, Any]:
    of_bronze = {} if portion is None else {OF: "bronze", "portion": portion.as_dict()}
    return {"id": "a", "at": "2026-01-01", **of_bronze}


@pytest.mark.parametrize(
    ("portion", "wanted"),
    [
        (None, 1),
        (Portion({}), 2),
        (Portion({}, Chosen(entities=("g",))), 2),
        (Portion({}, replaces="keep"), 3),
        (Portion({}, Chosen(place=(1, None))), 3),
        (Portion({}, Chosen(offsets=(None, 5))), 3),
    ],
)
def test_it_says_the_oldest_format_that_has_all_of_it(
    tmp_path: Path, portion: Portion | None, wanted: int
) -> None:
    files = files_at(tmp_path)
    one = kept_as(files, files, "a")
    one.begin(begun(portion))
    assert json.loads(one.place.read("begun.json"))["format"] == wanted
    ((found, told),) = unfinished(files, files)
    assert (found.id, told["at"]) == ("a", "2026-01-01")
    leaves = wanted == 3
    one.decide({"manifest": None, LEAVING: {"t": []} if leaves else {}})
    assert json.loads(one.place.read("manifest.json"))["format"] == (3 if leaves else 1)
    one.end({"became": {}})
    assert unfinished(files, files) == []


def test_a_newer_one_is_refused_by_name(tmp_path: Path) -> None:
    files = files_at(tmp_path)
    kept_as(files, files, "a").place.put_new("begun.json", json.dumps({"format": FORMAT + 1}).encode())
    with pytest.raises(CheckpointMismatch, match=f"format {FORMAT + 1}"):
        unfinished(files, files)


def test_one_that_is_forgotten_leaves_nothing_to_go_on_with(tmp_path: Path) -> None:
    files = files_at(tmp_path)
    one = kept_as(files, files, "a")
    one.begin(begun(Portion({}, replaces="keep")))
    forget(files, files, "a")
    assert unfinished(files, files) == []
    assert not one.place.folders()


def test_one_with_a_number_is_refused_by_versions_that_would_commit_it_by_another(tmp_path: Path) -> None:
    files = files_at(tmp_path)
    one = kept_as(files, files, "a")
    one.decide({"manifest": {}, NUMBERED: 7})
    assert json.loads(one.place.read("manifest.json"))["format"] == FORMAT


def test_each_gets_a_higher_number_whatever_the_clock_says_and_one_file_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, now = files_at(tmp_path), 1_800_000_000.0
    found = list[int]()
    for at in (now, now, now - 3600, now + 60):
        monkeypatch.setattr(time, "time", lambda at=at: at)
        found.append(next_number(files))
    assert found == [int(now * 1000), int(now * 1000) + 1, int(now * 1000) + 2, int(now * 1000) + 60_000]
    assert list(files.names("replay-numbers")) == [f"{found[-1]}.json"]


def test_two_that_look_at_once_get_no_number_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_at(tmp_path)
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0)
    monkeypatch.setattr(kept, "numbered", lambda *_: [])
    next_number(files)
    with pytest.raises(AnswerLost, match="by another program"):
        next_number(files)


def test_who_stood_still_while_another_began_decides_nothing(tmp_path: Path) -> None:
    files = files_at(tmp_path)
    first = Turns(files)
    before = first.take()
    assert first.take(above=before + 10**9) > before + 10**9
    second = Turns(files)
    with pytest.raises(LeaseHeld, match="another replay of this pipeline has begun since"):
        first.take()
    assert second.take() > before


def test_of_those_that_are_done_no_file_stays_and_none_is_begun_again_amid_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_at(tmp_path)
    for name in "ab":
        one = kept_as(files, files, name)
        one.begin(begun(None))
        one.decide({"manifest": None})
        one.end({"became": {}})
    with monkeypatch.context() as patch:
        patch.setattr(type(files), "clear", stopped)
        with pytest.raises(PolicyStopped):
            sweep_records(files, files)
    assert unfinished(files, files) == []
    sweep_records(files, files)
    assert list(files.folders("replays")) == []


def stopped(*_: object) -> list[str]:
    raise PolicyStopped("the process dies amid it")
