"""Conditions on random rows: true where Spark itself says so, and without a value for those rows for which Spark raises, and no others."""

from __future__ import annotations

import datetime
import json
import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.spark_3_5 import OLD

from distributary.ingest.routing.conditions import ReadCondition, conditions_in_session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("compiled"),
    pytest.mark.skipif(OLD, reason="its rows come as Arrow tables"),
]

UTC = datetime.timezone.utc
NAN, INFINITE = float("nan"), float("inf")
TEXTS = ["", " ", "a", "ab", "abc", "a%c", "a_c", "a\\c", "a.c", "a\n", "a\r\n", "\r\n", "\n", "a\u2028", "é", "🎲", "12", "x-1", "A1", "a\x0b", "\x85"]  # fmt: skip
FRACTIONS = [0.0, -0.0, 1.0, 1.5, -1.5, 0.1, 250.0, 1e308, -1e308, INFINITE, -INFINITE, NAN, 2.0**53, 5e-324]
WHOLES = [0, 1, -1, 2, 7, 20, 250, 2**53 + 1, 2**63 - 1, -(2**63), 2**31]
SMALL = [0, 1, -1, 7, 20, 250, 2**31 - 1, -(2**31)]
BYTES = [0, 1, -1, 7, 127, -128]
PRICES = [Decimal(text) for text in ("0.00", "1.50", "-1.50", "99999999.99", "0.10", "20.00", "250.01")]
DATES = [
    datetime.date(*day) for day in ((1970, 1, 1), (2024, 2, 29), (1, 1, 1), (9999, 12, 31), (2024, 3, 1))
]
TIMES = [
    datetime.datetime(*at) for at in ((1970, 1, 1), (2024, 2, 29, 12, 30, 1, 5), (1900, 1, 1), (2024, 3, 1))
]
LISTS: list[list[str | None]] = [[], ["a"], ["a", None], [None], ["b", "ab"], ["a", "b", "a"]]

SCHEMA = pa.schema(
    [
        ("a", pa.string()),
        ("b", pa.string()),
        ("n", pa.int64()),
        ("m", pa.int64()),
        ("i", pa.int32()),
        ("j", pa.int32()),
        ("y", pa.int8()),
        ("x", pa.float64()),
        ("z", pa.float64()),
        ("f", pa.float32()),
        ("p", pa.decimal128(10, 2)),
        ("q", pa.decimal128(20, 6)),
        ("d", pa.date32()),
        ("e", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("u", pa.timestamp("us", "UTC")),
        ("c", pa.timestamp("us")),
        ("ok", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("marks", pa.list_(pa.float64())),
        ("by", pa.map_(pa.string(), pa.int32())),
        ("at", pa.struct([("x", pa.float64()), ("in", pa.struct([("n", pa.int32())]))])),
    ]
)


def rows(seed: int, count: int = 300) -> pa.RecordBatch:
    """Random rows of values that differ in how they are compared, each null now and then."""
    dice = random.Random(seed)

    def one(values: list[Any]) -> Any:
        return None if dice.random() < 0.1 else dice.choice(values)

    made: dict[str, Callable[[], Any]] = {
        **{name: lambda: one(TEXTS) for name in "ab"},
        **{name: lambda: one([*WHOLES, dice.randrange(-300, 300)]) for name in "nm"},
        **{name: lambda: one([*SMALL, dice.randrange(-300, 300)]) for name in "ij"},
        "y": lambda: one(BYTES),
        **{name: lambda: one([*FRACTIONS, dice.uniform(-300, 300)]) for name in "xz"},
        "f": lambda: one([0.0, -0.0, 1.5, 0.1, NAN, INFINITE, 3.4e38, dice.uniform(-300, 300)]),
        "p": lambda: one(PRICES),
        "q": lambda: one([*PRICES, Decimal("1.500001"), Decimal("-0.000001")]),
        **{name: lambda: one(DATES) for name in "de"},
        **{name: lambda: one([time.replace(tzinfo=UTC) for time in TIMES]) for name in "tu"},
        "c": lambda: one(TIMES),
        "ok": lambda: one([True, False]),
        "tags": lambda: one(LISTS),
        "marks": lambda: one([[], [NAN], [0.0, None], [1.5, -0.0]]),
        "by": lambda: one([[], [("a", 1)], [("a", 1), ("b", None)]]),
        "at": lambda: one([{"x": one(FRACTIONS), "in": one([{"n": one(SMALL)}])}]),
    }
    table = [{name: make() for name, make in made.items()} for _ in range(count)]
    return pa.RecordBatch.from_pylist(table, SCHEMA)


OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")

CONDITIONS = [
    *[f"{pair.replace('?', op)}" for op in OPERATORS for pair in
      ("n ? m", "i ? n", "y ? i", "x ? z", "f ? x", "i ? x", "n ? f", "p ? q", "p ? i", "p ? 1.5", "x ? 1.5", "x ? p", "f ? 0.1", "n ? 20",
       "d ? e", "t ? u", "d ? date '2024-02-29'", "t ? timestamp '2024-02-29 12:30:01.000005'", "c ? timestamp_ntz '2024-03-01 00:00:00'",
       "at.x ? x", "at.in.n ? 7", "x ? 1e0", "q ? 9999999999", "n ? 5L", "x ? 9007199254740993")],
    "i between 20 and 250",
    "x not between -1.5 and 250",
    *[f"{text.replace('?', '12345678901234567890')}" for text in
      ("isnull(n < ?)", "y <= -?", "isnull(n = ?)", "n in (1, ?)", "not (i between ? and null)", "at.in.n not between size(by) and -?", "? > n", "isnull(q < ?)", "n <=> ?",
       "isnull(x < ?)", "isnull(? between n and i)", "isnull(? between ? and n)", "isnull(coalesce(n, ?) < ?)", "isnull(size(by) >= ?.5)")],
    *[f"isnull(n {op} {bound})" for op in ("<", ">=") for bound in ("9223372036854775807", "9223372036854775807.5", "9223372036854775808", "-9223372036854775808", "-9223372036854775808.1")],
    "p between 0 and 20.5",
    "d between date '1970-01-01' and e",
    "t between timestamp '2024-01-01 00:00:00' and u",
    "x in (1, 1.5, z)",
    "i in (1, 20, n)",
    "d in (date '2024-02-29', e)",
    "nullif(x, z) is null",
    "coalesce(x, i, 0) > 1",
    "coalesce(p, q, 1) = 1",
    "case when ok then x else i end > 1",
    "isnan(x) or isnan(f)",
    "size(tags) > 1",
    "size(by) = 1",
    "cardinality(marks) = 1",
    "array_size(tags) = 0",
    "array_contains(tags, 'a')",
    "array_contains(tags, a)",
    "not array_contains(tags, b)",
    "array_contains(marks, x)",
    "array_contains(marks, 0)",
    "array_contains(marks, 1.5)",
    *[f"a like '{pattern}'" for pattern in ("", "%", "a%", "%c", "a_c", "_", "__", r"a\\%c", r"a\\_c", r"a\\\\c", "a.c", "%\n%", "%é%", "🎲")],
    "a not like 'a%'",
    *[f"a rlike '{pattern}'" for pattern in
      ("", "a", "^a", "a$", "^a$", "^$", ".", "^.$", "^a.c$", "^a[.%]c$", "[^a]$", r"\\d", r"^\\d+$", r"\\w-\\d", r"\\s$", r"\\S\\s", "^(a|ab)c?$", "a|12$", "(?:a.)+",
       "^a{1}b{0,1}$", "a??b", r"\\.", "[a-c]+$", r"^[\\w-]+$", "^[^\n]$", r"\\x"[:0] + "é|🎲", "^..$")],
    "a regexp 'b'",
    "ok and x > 1 or d < e and not (a like 'a%')",
]  # fmt: skip

# For some rows Spark raises: numbers that overflow, divisions by zero.
ARITHMETIC = [
    *[f"i {op} j > 7" for op in "+-*/%"],
    *[f"n {op} m > 7" for op in "+-*/%"],
    *[f"x {op} z > 7" for op in "+-*/%"],
    *[f"f {op} f > 7" for op in "+-*/%"],
    *[f"{pair} is not null" for pair in ("y + y", "y * y", "y - i", "i * 2", "n + 1", "x * 1.5", "f * i", "f / 2", "i % 7", "x % 0.1", "-y", "-n", "-x")],
    "i = 0 or 7 / i > 1",
    "i <> 0 and 7 / i > 1",
    "7 / i > 1 and i <> 0",
    "case when i = 0 then true when 7 / i > 1 then false else j / i > 0 end",
    "coalesce(i + 1, 7 / j) > 0",
    "(i + j) between (7 / j) and (i * j)",
    "(n / i) % (i - j) <=> (n * m)",
    "i / j / n > 0",
    "(y + y) * (y - 7) < n + m",
    "i + j < 12345678901234567890",
    "i + j between 1.5 and 12345678901234567890",
    "i + j between 12345678901234567890 and n",
    "n + null is null",
    "absent * 2 is null",
]  # fmt: skip


def carried(read: ReadCondition) -> ReadCondition:
    """The condition as a manifest keeps it."""
    return ReadCondition.from_json(json.loads(json.dumps(read.to_json())))


def by_spark(spark: SparkSession, batch: pa.RecordBatch, texts: list[str]) -> list[list[bool | None]]:
    frame = spark.createDataFrame(pa.Table.from_batches([batch])).withColumn(
        "absent", F.lit(None).cast("int")
    )
    found = frame.select(*[F.expr(text).alias(f"c{n}") for n, text in enumerate(texts)]).toArrow()
    return [found.column(n).to_pylist() for n in range(len(texts))]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in (1, 2))])
def test_conditions_are_true_where_spark_says_so(spark: SparkSession, seed: int) -> None:
    batch = rows(seed)
    read = conditions_in_session(spark, [("tables[0].expect.it", text) for text in CONDITIONS])
    wrong = []
    for text, theirs in zip(CONDITIONS, by_spark(spark, batch, CONDITIONS), strict=True):
        met = carried(read[text]).tried(batch)
        assert (met.every, met.failed) == ("", {}), text
        differs = [n for n, one in enumerate(theirs) if (one is True) is not bool(met.rows[n])]
        wrong += [(text, batch.slice(n, 1).to_pylist()[0], theirs[n]) for n in differs[:1]]
    assert not wrong


# Lighter: test_conditions_are_true_where_spark_says_so holds conditions against Spark.
@pytest.mark.heavy
def test_what_spark_raises_for_concerns_those_rows_alone(spark: SparkSession) -> None:
    batch = rows(9, 150)
    read = conditions_in_session(spark, [("tables[0].expect.it", text) for text in ARITHMETIC], each=True)
    failing = 0
    for text in ARITHMETIC:
        met = carried(read[text]).tried(batch)
        assert met.every == "", text
        kept = [n for n in range(batch.num_rows) if n not in met.failed]
        (theirs,) = by_spark(spark, batch.take(pa.array(kept, pa.int64())), [text])
        assert [bool(met.rows[n]) for n in kept] == [one is True for one in theirs], text
        for row in list(met.failed)[:2]:
            failing += 1
            assert not met.rows[row]
            with pytest.raises(PySparkException):
                by_spark(spark, batch.slice(row, 1), [text])
    assert failing > 20


def random_conditions(dice: random.Random, depth: int = 3) -> str:
    """Some condition of those that never fail, put together of all kinds."""
    if depth and dice.random() < 0.6:
        left, right = (random_conditions(dice, depth - 1) for _ in range(2))
        return dice.choice([f"({left} and {right})", f"({left} or {right})", f"(not {left})", f"coalesce({left}, {right})",
                            f"({left} <=> {right})", f"if({left}, {right}, ok)"])  # fmt: skip
    return f"({dice.choice(CONDITIONS)})"


@pytest.mark.parametrize("seed", [3])
def test_conditions_put_together_at_random_are_what_spark_makes_of_them(
    spark: SparkSession, seed: int
) -> None:
    dice, batch = random.Random(seed), rows(seed, 120)
    texts = list(dict.fromkeys(f"({random_conditions(dice)})" for _ in range(40)))
    read = conditions_in_session(spark, [("tables[0].expect.it", text) for text in texts])
    for text, theirs in zip(texts, by_spark(spark, batch, texts), strict=True):
        assert carried(read[text]).tried(batch).rows.tolist() == [one is True for one in theirs], text


def random_number(dice: random.Random, depth: int) -> str:
    """Some number, which for some rows has no value."""
    if depth and dice.random() < 0.7:
        left, right = (random_number(dice, depth - 1) for _ in range(2))
        return dice.choice([f"({left} {dice.choice('+-*/%')} {right})", f"coalesce({left}, {right})", f"(case when {dice.choice(CONDITIONS)} then {left} else {right} end)",
                            f"nullif({dice.choice('ijnm')}, {dice.choice('ijnm')})", f"(- {left})"])  # fmt: skip
    return dice.choice(["i", "j", "n", "m", "y", "x", "f", "1", "7", "0", "2.5e0", "at.x"])


def random_test(dice: random.Random, depth: int) -> str:
    """Some condition of such numbers, and of those that never fail."""
    if depth and dice.random() < 0.6:
        left, right = (random_test(dice, depth - 1) for _ in range(2))
        return dice.choice([f"({left} and {right})", f"({left} or {right})", f"(not {left})"])
    if dice.random() < 0.2:
        return f"({dice.choice(CONDITIONS)})"
    left, right = (random_number(dice, 2) for _ in range(2))
    return f"({left} {dice.choice(OPERATORS)} {right})"


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(2, 8))])
def test_expectations_at_random_are_met_failed_or_without_a_value_as_in_spark(
    spark: SparkSession, seed: int
) -> None:
    dice, batch = random.Random(seed), rows(seed, 60)
    texts = list(dict.fromkeys(random_test(dice, 2) for _ in range(25)))
    read = conditions_in_session(spark, [("tables[0].expect.it", text) for text in texts], each=True)
    failing = 0
    for text in texts:
        met = carried(read[text]).tried(batch)
        assert met.every == "", text
        kept = [n for n in range(batch.num_rows) if n not in met.failed]
        (theirs,) = by_spark(spark, batch.take(pa.array(kept, pa.int64())), [text])
        assert [bool(met.rows[n]) for n in kept] == [one is True for one in theirs], text
        for row in list(met.failed)[:1]:
            failing += 1
            with pytest.raises(PySparkException):
                by_spark(spark, batch.slice(row, 1), [text])
    assert failing


def refusals() -> Iterator[tuple[str, str]]:
    yield "a rlike '(?i)a'", r"rlike has a group that begins with \(\?"
    yield "a rlike 'a++'", "gives nothing back"
    yield r"a rlike '\\bx'", r"rlike has \\b"
    yield "a rlike '$a'", r"\$ amid it"
    yield "a rlike '[a&&b]'", "& within brackets"
    yield "a rlike '(a'", r"a \( without its \)"
    yield "a rlike b", "RLike is given b where it takes a literal"
    yield r"a like 'a\\bc'", "like has a"
    yield "a like 'a!%' escape '!'", "an escape of its own"
    yield "a ilike 'a'", "ILike"
    yield "cast(a as int) = 1", "casts to int"
    yield "current_date() > d", "current_date"
    yield "concat(a, i + 1) = 'a1'", "concat is given what has no value for some numbers"
    yield "interval 1 day = interval 1 day", "it has the literal"


@pytest.mark.parametrize(("text", "why"), list(refusals()))
def test_what_is_not_exactly_as_in_spark_is_refused_by_name(spark: SparkSession, text: str, why: str) -> None:
    with pytest.raises(Exception, match=why) as caught:
        conditions_in_session(spark, [("tables[0].expect.it", text)], each=True)
    assert str(caught.value).startswith("tables[0].expect.it: ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a > 1", "text and a whole number|a whole number and text"),
        ("d < t", "a date and a timestamp"),
        ("p + p > 1", r"\+ is given decimals"),
        ("t > '2024-01-01'", "cast one of them"),
        ("size(a) > 1", "takes a list"),
        ("a", "where it takes a boolean"),
    ],
)
def test_types_that_do_not_go_with_a_condition_fail_every_record_with_the_reason(
    spark: SparkSession, text: str, why: str
) -> None:
    (read,) = conditions_in_session(spark, [("tables[0].expect.it", text)], each=True).values()
    met = read.tried(rows(1, 3))
    assert not met.rows.any()
    assert re.search(why, met.why(0)), met.why(0)
