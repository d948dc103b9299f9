"""What settings say of tables that keep what was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.ingest.settings.test_model import problems, settings_from
from tests.ingest.settings.test_table_rules import SOUND, with_rules

from distributary.codecs.envelope.options import SAID
from distributary.ingest.settings.deletes import DAYS, Deleting
from distributary.ingest.settings.model import Settings
from distributary.ingest.settings.upserts import Keeping, Upsert

RULE = "match: a, mode: history, keys: [a], sequence_by: [at]"

WRONG = [
    (
        "{match: a, mode: history, keys: [a]}",
        "sequence_by: with mode history a row is true since a time; write",
    ),
    (
        "{match: a, mode: history, sequence_by: [at]}",
        "keys: with mode history a row is found by its key; write",
    ),
    (
        "{match: a, mode: history, keys: [a], sequence_by: [__source_position]}",
        "sequence_by[0]: a position says nothing of when; write a field that has a time before it",
    ),
    (f"{{{RULE}, update: present}}", "update: with mode history a row is what one record says; leave it out"),
    (
        f"{{{RULE}, deletes: {{when: gone, mark: is_gone}}}}",
        "deletes.mark: with mode history a delete ends its row, which stays; leave it out",
    ),
    (
        f"{{{RULE}, deletes: {{when: gone, remember_days: 3}}}}",
        "deletes.remember_days: deletes are remembered as long as all else; write history.remember_days",
    ),
    (f"{{{RULE}, on_repartition: stop}}", "on_repartition: with sequence_by it does not matter"),
    (f"{{{RULE}, history: {{ignore: [b, at]}}}}", "history.ignore[1]: it names rows, or orders them"),
    (
        f"{{{RULE}, history: {{valid_to: Valid_From}}}}",
        "history.valid_to: another column has this name; choose another",
    ),
    (
        f"{{{RULE}, history: {{valid_from: at}}}}",
        "history.valid_from: another column has this name; choose another",
    ),
    (
        f"{{{RULE}, history: {{is_current: Kafka_TS}}}}",
        "history.is_current: another column, or Delta itself, has this name",
    ),
    (f"{{{RULE}, history: {{is_current: 'a b'}}}}", "history.is_current: Delta takes no column of this name"),
    (f"{{{RULE}, history: {{remember_days: 0}}}}", "history.remember_days: write"),
    (f"{{{RULE}, partition_by: [is_current]}}", "partition_by[0]: it changes when a row ends"),
    (
        "{match: a, mode: upsert, keys: [a], history: {ignore: [b]}}",
        "history: with mode upsert no row says when it was true; leave it out, or write mode: history",
    ),
    ("{match: a, history: {ignore: [b]}}", "history: with mode append no row says when it was true"),
    (
        f"{{{RULE}, policies: {{wider_type: widen}}}}",
        "policies.wider_type: a table with one row a key keeps its columns' types",
    ),
]


@pytest.mark.parametrize(("rule", "told"), WRONG, ids=[told.partition(":")[0] for _, told in WRONG])
def test_what_does_not_go_together_is_told(tmp_path: Path, rule: str, told: str) -> None:
    assert any(f"tables[0].{told}" in line for line in problems(tmp_path, with_rules(rule)))


def test_a_rule_says_what_makes_no_history_and_how_its_bounds_are_called(tmp_path: Path) -> None:
    more = "history: {ignore: [seen, meta.at], valid_from: since, remember_days: 7}, deletes: gone"
    found = settings_from(tmp_path, with_rules(f"{{{RULE}, {more}}}")).tables[0].upsert()
    keeping = Keeping(("seen", "meta.at"), ("since", "valid_to", "is_current"), 7)
    assert found == Upsert(("a",), ("at",), deletes=Deleting("gone"), history=keeping)
    assert found.remembers
    assert (found.mode, found.remember_days, found.bounds) == (
        "history",
        7,
        ("since", "valid_to", "is_current"),
    )
    assert str(found) == "mode history, keys a, sequence_by at, deletes when gone, ignore seen, meta.at"


def test_a_table_without_deletes_remembers_its_records_all_the_same(tmp_path: Path) -> None:
    book = settings_from(tmp_path, with_rules(f"{{{RULE}}}")).rule_book()
    found = book.upsert("a")
    assert found == Upsert(("a",), ("at",), history=Keeping())
    assert found.remember_days == DAYS
    assert book.remembers


def test_what_workers_go_by_is_told_whole_and_is_nothing_to_versions_without_history() -> None:
    upsert = Upsert(("a",), ("at", "n"), deletes=Deleting("gone"), history=Keeping(("seen",), days=3))
    assert Upsert.from_json(upsert.to_json()) == upsert
    assert upsert.lasting == Upsert(("a",), ("at", "n"), history=Keeping(("seen",)))
    # These look for keys right here.
    assert "keys" not in upsert.to_json()


def captured(rule: dict[str, Any], envelope: Any) -> Settings:
    given = {**SOUND, "decode": {"format": "json", "envelope": envelope}, "route": {"table": "{entity}"}}
    return Settings.from_dict({**given, "tables": [rule]})


def test_an_envelope_tells_when_and_what_it_says_of_a_change_makes_no_history() -> None:
    rule = {"match": "*", "mode": "history", "keys": "kafka_key", "history": {"ignore": ["seen"]}}
    found = captured(rule, {"kind": "debezium", "keep": ["op", "source_ts"]}).rule_book().upsert("customers")
    assert found is not None
    assert found.sequence_by == ("__source_ts", "__source_position")
    assert found.ignored == ("seen", *(one for one in SAID if one not in found.sequence_by))
    assert found.deletes == Deleting("__op = 'd'")


def test_the_time_that_an_envelope_tells_has_to_be_kept() -> None:
    rule = {"match": "*", "mode": "history", "keys": "kafka_key"}
    with pytest.raises(
        Exception, match=r"tables\[0\]\.sequence_by: __source_ts is a column only where .* is kept"
    ):
        captured(rule, "debezium")
    own = captured({**rule, "sequence_by": ["updated_at"]}, "debezium").rule_book().upsert("customers")
    assert own is not None
    assert own.ignored == SAID
