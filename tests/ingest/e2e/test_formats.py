"""The same games in every format, through the same evolution: what the tables hold is what was sent."""

from __future__ import annotations

import json

import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import DecoderUnavailable
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE

pytestmark = [pytest.mark.spark, pytest.mark.stack]

EVENTS, GAMES = 400, 4


# Inline with this one; a restart with Protobuf in test_evolution.py, Avro end to end in test_routes.py, JSON below.
PAIRS = {("jsonschema", "inline")}


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param(name, mode, marks=() if (name, mode) in PAIRS else pytest.mark.heavy)
        for name in ("avro", "jsonschema", "json")
        for mode in ("restart", "inline")
    ],
)
def test_three_versions_in_any_format(kit: PipelineKit, name: str, mode: str) -> None:
    kit.configured(decode={"format": name, "evolution": mode}, limits={"batch_rows": 300})
    with kit.running() as running:
        running.wait_until_started()
        for version in (1, 2, 3):
            kit.simulate(version, EVENTS, GAMES, format=name, old_producers=0.2, corrupt=0.02)
            running.wait_for(kit.truth.records)
    outcome = running.outcome()
    kit.assert_clean()
    assert (len(outcome.restarts) > 0) == (mode == "restart")
    columns = {field.name for field in kit.delta(kit.folder_of(0)).schema().fields}
    assert {"season", "coins"} <= columns


# Avro by Spark's functions: test_every_event_is_where_its_route_leads[expression-avro] (test_routes.py).
@pytest.mark.heavy
def test_decoded_by_spark_s_own_functions_the_same_is_in_the_tables(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "avro", "evolution": "inline", "engine": "spark"})
    for version in (1, 2):
        kit.simulate(version, EVENTS, GAMES, format="avro", corrupt=0.02)
        kit.run()
    kit.assert_clean()


def test_protobuf_without_spark_s_jar_for_it_is_refused_before_anything_is_read(kit: PipelineKit) -> None:
    kit.configured(decode={"engine": "spark"})
    kit.simulate(1, 10, 1)
    with pytest.raises(DecoderUnavailable, match="spark-protobuf"):
        kit.run()
    assert not kit.versions()


def schema_files(kit: PipelineKit) -> list[str]:
    return [name for name in kit.schemas.names() if name.endswith(".json")]


def sent_json(kit: PipelineKit, records: list[dict[str, object]]) -> None:
    # Of a key only the latest record is looked at.
    with kit.together():
        for number, record in enumerate(records):
            kit.send([json.dumps(record).encode()], key=b"%d" % number)


def test_an_inferred_schema_is_cached_and_grows_with_what_records_bring(kit: PipelineKit) -> None:
    kit.configured(
        decode={"format": "json", "evolution": "inline"}, route={"field": "game", "table": "t_{entity}"}
    )
    sent_json(kit, [{"game": "go", "level": 1}, {"game": "chess", "elo": 1200}])
    kit.run()
    assert len(schema_files(kit)) == 1
    sent_json(kit, [{"game": "go", "level": 2, "at": {"x": 1.5}}, {"game": "chess", "elo": 1300}])
    kit.run()
    assert len(schema_files(kit)) == 2
    assert sorted(row["level"] for row in kit.rows("t_go").to_pylist()) == [1, 2]
    assert [row["at"] for row in kit.rows("t_go").to_pylist() if row["level"] == 2] == [{"x": 1.5}]
    # Only the table whose records brought it has the new field.
    assert "at" not in kit.rows("t_chess").schema.names
    assert "elo" not in kit.rows("t_go").schema.names


# What restarts is the default's other half; that growth is no evolution to be counted is the supervisor's, whichever it is.
@pytest.mark.parametrize("mode", ["auto", pytest.param("restart", marks=pytest.mark.heavy)])
def test_fields_that_come_one_by_one_spend_no_budget(kit: PipelineKit, mode: str) -> None:
    kit.configured(
        decode={"format": "json", "evolution": mode},
        route={"field": "game", "table": "t_{entity}"},
        supervisor={"evolutions": {"max": 0}},
    )
    kit.run()
    sent_json(kit, [{"game": "go"}])
    kit.run()
    sent_json(kit, [{"game": "go", f"name_{n}": n} for n in range(3)])
    outcome = kit.configured(limits={"batch_rows": 1}).run()
    assert (len(outcome.restarts) > 0) == (mode == "restart")
    assert sorted(row["name_2"] or 0 for row in kit.rows("t_go").to_pylist()) == [0, 0, 0, 2]


# Lighter: test_a_value_is_taken_whole_or_rescued_as_it_was_written (tests/codecs/json/test_decode.py), and a run in test_mixed_topics.py.
@pytest.mark.heavy
def test_what_does_not_fit_is_rescued_and_never_nulled_in_silence(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "json"}, route={"field": "game", "table": "t_{entity}"})
    sent_json(kit, [{"game": "go", "level": 1}])
    kit.run()
    sent_json(kit, [{"game": "go", "level": "two"}, {"game": "go", "level": 2.5}])
    kit.run()
    rows = kit.rows("t_go").to_pylist()
    assert [row["level"] for row in rows if row["_rescued_data"] is None] == [1]
    rescued = [json.loads(row["_rescued_data"]) for row in rows if row["_rescued_data"] is not None]
    assert sorted(map(str, (one["level"] for one in rescued))) == ["2.5", "two"]


# Lighter: test_a_schema_that_may_not_grow_further_rescues_the_rest rescues new fields.
@pytest.mark.heavy
def test_new_fields_are_rescued_where_the_settings_say_so(kit: PipelineKit) -> None:
    kit.configured(
        decode={"format": "json"},
        policies={"new_field": "rescue"},
        route={"field": "game", "table": "t_{entity}"},
    )
    sent_json(kit, [{"game": "go", "level": 1}])
    kit.run()
    sent_json(kit, [{"game": "go", "level": 2, "news": [1, 2]}])
    kit.run()
    assert len(schema_files(kit)) == 1
    rows = {row["level"]: row for row in kit.rows("t_go").to_pylist()}
    assert json.loads(rows[2]["_rescued_data"]) == {"news": [1, 2]}
    assert "news" not in kit.rows("t_go").schema.names


def test_a_schema_that_may_not_grow_further_rescues_the_rest(
    kit: PipelineKit, caplog: pytest.LogCaptureFixture
) -> None:
    kit.configured(
        decode={"format": "json", "evolution": "inline", "max_fields": 3},
        route={"field": "game", "table": "t_{entity}"},
    )
    sent_json(kit, [{"game": "go", "level": 1}])
    kit.run()
    wide = {f"k{n}": n for n in range(5)}
    sent_json(kit, [{"game": "go", "level": 2, **wide}, {"game": "go", "level": 3, "elo": 7}])
    kit.run()
    sent_json(kit, [{"game": "go", "level": 4, **wide}])
    kit.run()
    rows = {row["level"]: row for row in kit.rows("t_go").to_pylist()}
    assert [json.loads(rows[level]["_rescued_data"]) for level in (2, 4)] == [wide, wide]
    # One record with names made of data keeps nobody else's field out, and is told of.
    assert (rows[3]["elo"], rows[3]["_rescued_data"], len(schema_files(kit))) == (7, None, 2)
    assert "would grow beyond decode.max_fields (3)" in caplog.text


def test_what_is_no_json_goes_to_quarantine_beside_what_is(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "json"}, route={"field": "game", "table": "t_{entity}"})
    sent_json(kit, [{"game": "go"}])
    kit.send([b"{", b"\xff", b"[" * 100_000, b"", b'{"game":"go"}'])
    kit.run()
    assert kit.rows("t_go").num_rows == 2
    assert kit.rows(QUARANTINE_TABLE).num_rows == 4


# Lighter: test_fields_that_come_one_by_one_spend_no_budget begins without any.
@pytest.mark.heavy
def test_a_topic_without_records_yet_starts_with_no_schema_and_finds_one(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "json"}, route={"field": "game", "table": "t_{entity}"})
    kit.run()
    sent_json(kit, [{"game": "go", "level": 1}])
    kit.run()
    assert [row["level"] for row in kit.rows("t_go").to_pylist()] == [1]
