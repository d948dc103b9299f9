from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from tests.ingest.kafka_records import PINNED
from tests.ingest.pipelines import rules_for, settings

from distributary.ingest.batch.restart import RestartToEvolve
from distributary.ingest.conform.misfits import Kind
from distributary.ingest.evolution.rules import GrowthSetting, tables_grow, worker_policies
from distributary.ingest.pins import PinnedRecord, describe
from distributary.ingest.settings.groups import Policies
from distributary.ingest.settings.table_rules import TablePolicies, TableRule


@pytest.mark.parametrize(
    ("evolution", "new_field", "grow", "worker"),
    [
        ("restart", "add", True, "add"),
        ("inline", "fail", True, "fail"),
        ("restart", "rescue", False, "rescue"),
        ("inline", "ignore", False, "ignore"),
        ("ignore", "add", False, "rescue"),
        ("ignore", "ignore", False, "ignore"),
        ("fail", "add", True, "add"),
    ],
)
def test_what_becomes_of_new_fields_follows_from_evolution_and_policy(
    tmp_path: Path, evolution: str, new_field: str, grow: bool, worker: str
) -> None:
    made = settings(tmp_path, decode={"evolution": evolution}, policies={"new_field": new_field})
    assert tables_grow(made.decode, made.policies) is grow
    assert worker_policies(made.decode, made.policies).new_field == worker


@pytest.mark.parametrize("name", [*get_args(GrowthSetting), *(f"policies.{kind}" for kind in get_args(Kind))])
def test_a_setting_that_stops_a_run_is_told_by_a_name_that_the_settings_have(
    tmp_path: Path, name: str
) -> None:
    group, setting = name.split(".")
    assert setting in settings(tmp_path).effective()[group]


@pytest.mark.parametrize(
    ("evolution", "new_field", "stops", "leaves"),
    [
        ("restart", "add", None, "policies.new_field"),
        ("fail", "fail", "decode.evolution", "policies.new_field"),
        ("restart", "fail", "policies.new_field", "policies.new_field"),
        ("ignore", "add", None, "decode.evolution"),
        ("ignore", "rescue", None, "policies.new_field"),
    ],
)
def test_the_setting_that_keeps_a_table_from_growing_is_known(
    tmp_path: Path, evolution: str, new_field: str, stops: str | None, leaves: str
) -> None:
    rules = rules_for(settings(tmp_path, decode={"evolution": evolution}, policies={"new_field": new_field}))
    assert (rules.growth_stops, rules.leaves_columns) == (stops, leaves)


def test_a_record_type_is_named_by_its_schema_and_its_place_there() -> None:
    assert describe(PINNED[0]) == "11"
    assert describe(PinnedRecord((7, (1, 2)), PINNED[0].schema)) == "7 (message 1.2)"


def test_a_restart_keeps_what_changed() -> None:
    error = RestartToEvolve(["one", "two"])
    assert error.changes == ("one", "two")
    assert str(error) == "one; two"


def test_a_table_whose_rule_has_policies_of_its_own_has_rules_of_its_own(tmp_path: Path) -> None:
    chosen = settings(tmp_path, policies={"new_field": "fail"})
    tables = (
        TableRule(match="a*", policies=TablePolicies(new_field="rescue", wider_type="widen")),
        TableRule(match="b", comment="no policies"),
    )
    rules = rules_for(chosen.model_copy(update={"tables": tables}))
    own, plain = rules.of("abc"), rules.of("c")
    assert rules.of("b") is plain is rules
    assert (own.growth.adds, own.growth.widens, own.growth_stops) == (False, True, None)
    assert (plain.growth.adds, plain.growth.widens, plain.growth_stops) == (True, False, "policies.new_field")
    assert own.leaves_columns == own.setting("new_field") == "tables[0].policies.new_field"
    assert own.setting("incompatible_type") == "policies.incompatible_type"
    assert rules.widens_any
    assert not rules_for(chosen).widens_any


@pytest.mark.parametrize("name", list(TablePolicies.model_fields))
def test_a_rules_policy_may_be_what_the_policy_of_all_tables_may_be(name: str) -> None:
    own, of_all = (model.model_fields[name].annotation for model in (TablePolicies, Policies))
    assert {one for part in get_args(own) for one in get_args(part)} == set(get_args(of_all))
