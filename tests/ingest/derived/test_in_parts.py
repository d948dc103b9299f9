"""What an aggregate makes of parts of rows, in any cut, beside what Spark makes of all of them at once."""

from __future__ import annotations

import math
import random
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from distributary.ingest.derivation.given import Aggregate
from distributary.ingest.derived.grouping import decimals, grouped, joined, readable

pytestmark = [pytest.mark.spark]

NAN, INF = float("nan"), float("inf")

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "d": (pa.float64(), [NAN, INF, -INF, 0.0, -0.0, 1.5, 5e-324, None]),
    "f": (pa.float32(), [NAN, 0.0, -0.0, INF, 0.5, None]),
    "n": (pa.int8(), [-128, 127, 0, 1, None]),
    "l": (pa.int64(), [-(2**63), 2**62, 0, 7, None]),
    "c": (pa.decimal128(38, 10), [Decimal("-0"), Decimal("1.5"), Decimal("99999999999999999999.0000000001"), None]),
    "e": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.01"), Decimal("0.00"), None]),
    "s": (pa.string(), ["", "a", "A", "a ", "ä", "\U0001f600", "\uffff", None]),
    "b": (pa.binary(), [b"", b"\x00", b"\xff", b"a", None]),
    "t": (pa.timestamp("us", "UTC"), [datetime(1, 1, 1), datetime(1969, 12, 31), datetime(9999, 12, 31), None]),
    "y": (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), None]),
    "w": (pa.bool_(), [True, False, None]),
    "r": (pa.struct([("x", pa.float64()), ("y", pa.string())]), [{"x": -0.0, "y": "a"}, {"x": 0.0, "y": "a"}, {"x": NAN, "y": None}, {"x": None, "y": "b"}, None]),
    "a": (pa.list_(pa.float64()), [[], [0.0], [-0.0], [NAN], [None], [1.0, NAN], None]),
}  # fmt: skip
SCHEMA = pa.schema([("k", pa.float64()), *((name, kind) for name, (kind, _) in KINDS.items())])


def columns() -> dict[str, str]:
    found = {"rows": "count(*)"}
    for name in KINDS:
        found |= {f"{of}_{name}": f"{of}({name})" for of in ("count", "min", "max")}
        found[f"distinct_{name}"] = f"count(DISTINCT {name})"
        found[f"about_{name}"] = f"approx_count_distinct({name})"
        found[f"some_{name}"] = f"count(DISTINCT {name}) FILTER (WHERE n > 0)"
        found[f"first_by_{name}"] = f"min_by({name}, named_struct('v', {name}, 'm', n))"
        found[f"last_by_{name}"] = f"max_by({name}, named_struct('v', {name}, 'm', n))"
    for name in ("d", "f", "n", "e"):
        found |= {f"{of}_{name}": f"{of}({name}) FILTER (WHERE w)" for of in ("sum", "avg")}
    found |= {f"{of}_w": f"{of}(w)" for of in ("bool_and", "bool_or", "count_if")}
    return found | {f"{of}_n": f"{of}(n)" for of in ("bit_or", "bit_and")}


def rows_of(dice: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "k": dice.choice([0.0, -0.0, NAN, None]),
            **{name: dice.choice(some) for name, (_, some) in KINDS.items()},
        }
        for _ in range(count)
    ]


def alike(value: Any) -> Any:
    """What SQL takes for one value is one."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value + 0.0:.12g}"
    if isinstance(value, dict):
        return {name: alike(one) for name, one in value.items()}
    return [alike(one) for one in value] if isinstance(value, list) else value


def told(rows: list[dict[str, Any]], name: str) -> list[str]:
    return sorted(str([alike(row["k"]), alike(row[name])]) for row in rows)


# What others draw is another cut of the same values.
@pytest.mark.parametrize("seed", [0, *(pytest.param(one, marks=pytest.mark.heavy) for one in (1, 2))])
def test_any_cut_makes_what_all_rows_make(seed: int, spark: SparkSession) -> None:
    dice = random.Random(seed)
    rule = Aggregate.model_validate({"by": ["k"], "columns": columns()})
    every = rows_of(dice, 24)
    cuts = sorted(dice.randrange(25) for _ in range(2))
    parts = [every[: cuts[0]], every[cuts[0] : cuts[1]], every[cuts[1] :]]
    frames = [spark.createDataFrame(pa.Table.from_pylist(part, SCHEMA)) for part in parts]
    whole = spark.createDataFrame(pa.Table.from_pylist(every, SCHEMA))
    exact = decimals(rule, whole)

    def together(before: DataFrame, added: DataFrame) -> DataFrame:
        # As a table has them in between.
        kept = spark.createDataFrame(before.toArrow())
        found = joined(kept, added, rule)
        assert found is not None
        return found

    found = reduce(together, (grouped(part, rule, exact) for part in frames))
    expected = whole.groupBy("k").agg(*(sql.expr(text).alias(name) for name, text in rule.columns.items()))
    names = ["k", *rule.columns]
    had, wanted = (
        frame.select(*names).toArrow().to_pylist() for frame in (readable(found, rule, exact), expected)
    )
    wrong = [name for name in names if told(had, name) != told(wanted, name)]
    assert not wrong, [(name, told(had, name), told(wanted, name)) for name in wrong]
