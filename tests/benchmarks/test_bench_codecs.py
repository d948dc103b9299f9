"""What the codecs' benchmark makes of its measurements: ratios and bounds."""

from __future__ import annotations

import pytest
from benchmarks.bench_codecs import BOUNDS, ratios_of
from benchmarks.bounds import broken
from benchmarks.codec_rates import Rate
from benchmarks.results import Timing

RATES = {
    "avro": Rate("avro", 200, (1.0, 2.0, 9.0), "ours"),
    "fastavro": Rate("fastavro", 200, (14.0,), "fastavro 1"),
    "from_avro": Rate("from_avro", 200, (8.0,), "Spark 4"),
    "json": Rate("json", 200, (1.0,), "ours"),
    "from_json": Rate("from_json", 200, (3.0,), "Spark 4"),
    "protobuf": Rate("protobuf", 200, (1.0,), "ours"),
}
WAYS = {
    "ours": Timing("ours", "ours", 10, 1_000, (2.0,)),
    "n_queries": Timing("n_queries", "n_queries", 10, 1_000, (12.0,)),
    "filters": Timing("filters", "filters", 10, 1_000, (8.0,)),
}


def test_the_ratios_are_those_of_the_middle_runs_and_none_where_one_side_is_missing() -> None:
    found = ratios_of(RATES, {"json": WAYS, "avro": WAYS})
    assert found == {
        "avro_fastavro": pytest.approx(7.0),
        "avro_from_avro": pytest.approx(4.0),
        "json_from_json": pytest.approx(3.0),
        "protobuf_from_protobuf": None,
        "pipeline_json_n_queries": pytest.approx(6.0),
        "pipeline_json_filters": pytest.approx(4.0),
        "pipeline_avro_n_queries": pytest.approx(6.0),
        "pipeline_avro_filters": pytest.approx(4.0),
    }
    assert list(found) == [bound.figure for bound in BOUNDS]


def test_a_figure_below_its_bound_is_named_and_a_missing_one_is_not() -> None:
    assert broken({"avro_fastavro": 5.9, "json_from_json": 2.0, "protobuf_from_protobuf": None}, BOUNDS) == [
        "avro_fastavro is 5.9, but must be at least 6"
    ]
