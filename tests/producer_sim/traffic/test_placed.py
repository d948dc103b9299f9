"""Where values go that are not of their column's type: by hand, and as the product's own way of doing it has it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from distributary.ingest.columns.growth import extend
from distributary.ingest.conform.conversion import conversion_for
from distributary.ingest.settings.groups import Policies
from distributary.producer_sim.events.model import columns
from distributary.producer_sim.formats.base import load_format
from distributary.producer_sim.traffic.changes import CANNOT, CHANGES
from distributary.producer_sim.traffic.events import EventMaker, Population
from distributary.producer_sim.traffic.placed import Placer
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.truth.checksum import row_hashes
from distributary.producer_sim.truth.rescued_text import RESCUED, with_canonical_rescued


def placed(old: pa.DataType, new: pa.DataType, values: list[Any]) -> tuple[list[Any], list[Any], list[bool]]:
    """What becomes of values of a new type in a column of an old one: kept, rescued, refused."""
    placer = Placer.after([pa.schema([("a", old)]), pa.schema([("a", new)])])
    rows, refused = placer.place(pa.record_batch([pa.array(values, new)], ["a"]))
    rescued = rows[RESCUED].to_pylist() if RESCUED in rows.schema.names else [None] * len(values)
    return rows["a"].to_pylist(), [text and json.loads(text) for text in rescued], refused.tolist()


@pytest.mark.parametrize(
    ("old", "new", "values", "kept", "rescued"),
    [
        (pa.int32(), pa.int64(), [1, 2**31, None], [1, None, None], [None, {"a": 2**31}, None]),
        (pa.int64(), pa.int32(), [1, -5], [1, -5], [None, None]),
        (pa.int64(), pa.float64(), [2.0, 2.5, 2.0**70], [2, None, None], [None, {"a": 2.5}, {"a": 2.0**70}]),
        (pa.float64(), pa.int64(), [7, 2**53 + 1], [7.0, None], [None, {"a": 2**53 + 1}]),
        (pa.float32(), pa.float64(), [0.5, 0.1], [0.5, None], [None, {"a": 0.1}]),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), [[1, 2**40]], [[1, None]], [{"a.1": 2**40}]),
        (
            pa.map_(pa.string(), pa.int32()),
            pa.map_(pa.string(), pa.int64()),
            [[("b", 2**40), ("c.d", 2**41)]],
            [[("b", None), ("c.d", None)]],
            [{"a.b": 2**40, "a.`c.d`": 2**41}],
        ),
    ],
)
def test_a_number_is_where_it_fits(
    old: pa.DataType, new: pa.DataType, values: list[Any], kept: list[Any], rescued: list[Any]
) -> None:
    assert placed(old, new, values) == (kept, rescued, [False] * len(values))


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (pa.string(), pa.struct([("b", pa.int32())]), {"b": 1}),
        (pa.bool_(), pa.string(), "yes"),
        (pa.struct([("b", pa.string())]), pa.struct([("b", pa.int64())]), {"b": 1}),
        (pa.list_(pa.string()), pa.string(), ""),
    ],
)
def test_what_is_of_another_kind_is_refused_if_it_is_there(
    old: pa.DataType, new: pa.DataType, value: Any
) -> None:
    assert placed(old, new, [value, None])[2] == [True, False]


def test_fields_of_the_same_type_stay_as_they_are() -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    rows = pa.record_batch([pa.array([1], pa.int32()), pa.array(["x"])], schema=schema)
    placer = Placer.after([pa.schema([("b", pa.string())]), schema])
    assert placer.place(rows).rows is rows


@pytest.mark.parametrize("name", ["protobuf", "avro", "jsonschema"])
def test_the_product_places_the_events_of_all_changes_alike(name: str) -> None:
    changes = tuple(change for change in CHANGES if change not in {*CANNOT[name], "format_switched"})
    stages = Simulation.of(
        bootstrap_servers="none", topic="games", format=name, versions=3, changes=changes
    ).stages
    schemas = [columns(each.schemas["GameEvent"], load_format(name).types) for each in stages]
    layout = pa.schema([])
    odd = 0
    for number, (stage, record) in enumerate(zip(stages, schemas, strict=True), start=1):
        maker = EventMaker(number, Population(games=("golf",)), 4, name, stage.schemas["GameEvent"])
        events = maker.chunk(number, 0, 300).rows.cast(record)
        layout = extend(layout, record, frozenset())
        done = conversion_for(record, layout, Policies()).apply(events)
        expected, refused = Placer.after(schemas[:number]).place(events)
        assert [row for row, *_ in done.rejected] == np.flatnonzero(refused).tolist()
        stored = done.rows.append_column(
            "rescued", pa.nulls(300, pa.string()) if done.rescued is None else done.rescued
        )
        theirs = row_hashes(with_canonical_rescued(stored, "rescued"))
        assert (theirs == row_hashes(expected))[~refused].all()
        odd += int(refused.sum()) + (done.rescued is not None)
    assert odd > 0
