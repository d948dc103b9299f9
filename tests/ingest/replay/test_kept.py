"""What a replay keeps of itself says the oldest format that has all of it, and is read by none that knows less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from distributary.errors import CheckpointMismatch
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.replay.kept import FORMAT, LEAVING, OF, kept_as, unfinished
from distributary.ingest.replay.portions import Portion
from distributary.ingest.storage.opening import files_at


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
    one.decide({"manifest": None, LEAVING: {"t": []} if wanted == FORMAT else {}})
    assert json.loads(one.place.read("manifest.json"))["format"] == (FORMAT if wanted == FORMAT else 1)
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
    one.forget()
    assert unfinished(files, files) == []
    assert not one.place.folders()
