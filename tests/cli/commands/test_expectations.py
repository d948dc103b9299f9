"""`distributary expectations` with the words that a user types, and conditions that cannot be read told at their lines."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from distributary import cli

RULES: list[dict[str, Any]] = [
    {
        "match": "golf",
        "expect": {
            "sane": {"condition": "heart between 20 and 250", "otherwise": "drop"},
            "known": "mode in ('solo', 'team')",
        },
    }
]


def told(day: int, batch: int, expectations: Any, **more: Any) -> dict[str, Any]:
    at = datetime(2025, 6, day, 12, tzinfo=timezone.utc)
    text = None if expectations is None else json.dumps(expectations)
    own = {"pipeline": "games", "generation": "g1", "first_batch_id": None}
    return {**own, "batch_id": batch, "ended_at": at, "expectations": text, **more}


ROWS = [
    told(1, 3, {"golf": {"sane": [20, 0]}}, first_batch_id=1),
    told(2, 4, None),
    told(2, 5, {"golf": {"sane": [1, 1], "known": [0, 2]}}),
    told(3, 6, {"golf": {"sane": [9_998, 2]}, "go": {"sane": [1, 0]}}),
    told(3, 6, {"golf": {"sane": [0, 9]}}, pipeline="another"),
]


def settings(folder: Path, rules: list[dict[str, Any]]) -> Path:
    pipeline = {
        "name": "games",
        "source": {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "topics": ["t"]},
        "registry": {"url": "http://127.0.0.1:1"},
        "route": {"field": "game", "table": "{entity}"},
        "sink": {"root": "./lake"},
        "tables": rules,
    }
    file = folder / "games.yaml"
    file.write_text(yaml.safe_dump(pipeline, sort_keys=False), encoding="utf-8")
    return file


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        cli.main([*map(str, words)])
    printed = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, printed.out, printed.err


def with_ledger(folder: Path, *names: str) -> Path:
    table = pa.Table.from_pylist(ROWS)
    write_deltalake(folder / "lake" / "ledger_batches", table.drop_columns(list(names)))
    return settings(folder, RULES)


def test_rates_are_shown_in_all_and_by_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "expectations", with_ledger(tmp_path))
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "go: sane: 100.00 % of 1 records, 0 not met",
        "  2025-06-03  100.00 % of 1 records, 0 not met",
        "golf: known: 0.00 % of 2 records, 2 not met",
        "  2025-06-02  0.00 % of 2 records, 2 not met",
        # Not quite all is never told as all.
        "golf: sane: 99.97 % of 10,022 records, 3 not met",
        "  2025-06-01  100.00 % of 20 records, 0 not met",
        "  2025-06-02  50.00 % of 2 records, 1 not met",
        "  2025-06-03  99.98 % of 10,000 records, 2 not met",
    ]


def test_json_has_each_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "expectations", with_ledger(tmp_path), "--json")
    value = json.loads(out)
    assert (code, value["pipeline"]) == (0, "games")
    (sane,) = [one for one in value["expectations"] if (one["table"], one["name"]) == ("golf", "sane")]
    assert (sane["met"], sane["not_met"]) == (10_019, 3)
    assert sane["batches"][0] == {
        "generation": "g1",
        "first_batch": 1,
        "last_batch": 3,
        "ended_at": "2025-06-01T12:00:00+00:00",
        "met": 20,
        "not_met": 0,
        "pass_rate": 1.0,
    }
    assert [one["last_batch"] for one in sane["batches"]] == [3, 5, 6]


def test_a_ledger_that_is_not_there_or_older_tells_of_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "games: the ledger tells of no expectation yet (`tables[].expect`)\n"
    assert run(capsys, "expectations", settings(tmp_path, RULES))[1] == said
    assert run(capsys, "expectations", with_ledger(tmp_path, "expectations"))[1] == said


def test_a_condition_that_cannot_be_read_is_told_at_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "settings", "check", settings(tmp_path, RULES))[0] == 0
    for wrong, why in (
        ("heart >", "this is no Spark SQL expression"),
        ("rand() > 0", "it uses the function rand"),
    ):
        for expect in ({"ok": "true", "bad": wrong}, {"ok": "true", "bad": {"condition": wrong}}):
            file = settings(tmp_path, [{"match": "golf", "expect": expect}])
            code, _, err = run(capsys, "settings", "check", file)
            lines = file.read_text(encoding="utf-8").splitlines()
            line = next(n for n, text in enumerate(lines, 1) if wrong in text)
            assert code == 2
            assert f"games.yaml:{line}:" in err
            assert "tables[0].expect.bad" in err
            assert why in " ".join(err.split())


def test_what_is_no_outcome_is_told_with_those_that_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expect = {"bad": {"condition": "true", "otherwise": "explode"}}
    code, _, err = run(capsys, "settings", "check", settings(tmp_path, [{"match": "golf", "expect": expect}]))
    assert code == 2
    assert "write warn, drop, quarantine or fail" in " ".join(err.split())
