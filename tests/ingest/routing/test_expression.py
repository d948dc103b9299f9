"""Routing expressions: what the workers make of them is what Spark makes of them, for every value, null and length."""

from __future__ import annotations

import datetime
import pickle
import unicodedata

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.spark_3_5 import OLD

from distributary.errors import ConfigError
from distributary.ingest.routing.parser import native_tree
from distributary.ingest.routing.tree import Node, evaluate

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("compiled"),
    pytest.mark.skipif(
        OLD, reason="its rows come as Arrow tables, and some expressions are in the SQL of Spark 4"
    ),
]

TEXTS = [None, "", " ", "a", "ab", "a.b", "a.b.c", ".", "..", " a b ", "x\t", "Straße", "ΟΔΟΣ", "ΑΣ.Σ", "İi", "ǆ", "ﬁ", "Ωmega", "🎲x🎲",
         "é", "\u0000", "aXbXc", "true", "7", "xx"]  # fmt: skip
WHOLES = [None, 0, 1, -1, 7, 2**31 - 1, -(2**63), 2**63 - 1]
TRUTHS = [None, True, False]
DATES = [
    None,
    datetime.date(1, 1, 1),
    datetime.date(1970, 1, 1),
    datetime.date(2024, 2, 29),
    datetime.date(9999, 12, 31),
]

# Every pair of texts meets, and every other kind meets every value of its own.
COUNT = len(TEXTS) ** 2
ROWS = [
    {
        "a": TEXTS[n % len(TEXTS)],
        "b": TEXTS[n // len(TEXTS)],
        "n": WHOLES[n % len(WHOLES)],
        "m": WHOLES[n // 11 % len(WHOLES)],
        "small": None if n % 5 == 0 else n % 100 - 50,
        "p": TRUTHS[n % 3],
        "q": TRUTHS[n // 3 % 3],
        "d": DATES[n % len(DATES)],
        "e": DATES[n // 7 % len(DATES)],
        "at": None if n % 7 == 0 else {"X": TEXTS[n % len(TEXTS)], "in ner": None if n % 3 else {"y": n}},
        "f": None if n % 2 else 1.5,
    }
    for n in range(COUNT)
]
SCHEMA = pa.schema(
    [
        ("a", pa.string()),
        ("b", pa.string()),
        ("n", pa.int64()),
        ("m", pa.int64()),
        ("small", pa.int8()),
        ("p", pa.bool_()),
        ("q", pa.bool_()),
        ("d", pa.date32()),
        ("e", pa.date32()),
        ("at", pa.struct([("X", pa.string()), ("in ner", pa.struct([("y", pa.int32())]))])),
        ("f", pa.float64()),
    ]
)
BATCH = pa.RecordBatch.from_pylist(ROWS, SCHEMA)

EXPRESSIONS = [
    "a",
    "A",
    "at.x",
    "at.`in ner`.Y",
    "concat(a, '_', lower(b))",
    "a || n || p || d || small",
    "concat(a)",
    "a || null",
    "lower(a)",
    "upper(a)",
    "lcase(upper(a))",
    "trim(a)",
    "ltrim(a)",
    "rtrim(a)",
    "trim(both 'ax' from b)",
    "trim(leading 'a' from b)",
    "trim(trailing 'xX' from b)",
    *[f"substring(a, {position})" for position in (-3, -1, 0, 1, 2, 9)],
    *[f"substring(a, {p}, {n})" for p in (-9, -3, -2, 0, 1, 2) for n in (-1, 0, 1, 2, 8)],
    "substring(a from 2 for 2)",
    "substr(b, 2, 3)",
    *[f"left(a, {n}) || right(a, {n})" for n in (-1, 0, 1, 2, 9)],
    *[f"split_part(a, '{s}', {n})" for s in (".", "X", "", "b.") for n in (-4, -2, -1, 1, 2, 3)],
    "replace(a, 'a', 'zz')",
    "replace(a, '.')",
    "replace(a, '', 'z')",
    "length(a)",
    "coalesce(a, b, 'none')",
    "nvl(n, m)",
    "ifnull(null, a)",
    "coalesce(null, null)",
    "nullif(a, b)",
    "nullif(n, 7)",
    "case when a = b then 'same' when p then a when n < m then b else 'other' end",
    "case when p then a end",
    "case a when 'a' then 1 when 'ab' then 2 else n end",
    "if(p, a, null)",
    "if(p and q, 'both', if(p or q, 'one', 'none'))",
    "p and q",
    "p or q",
    "not p",
    "not (p and null)",
    "p or null",
    *[f"a {op} b" for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")],
    *[f"n {op} m" for op in ("=", "!=", "<", "<=", ">", ">=", "<=>")],
    *[f"d {op} e" for op in ("=", "<", "<=>")],
    "p = q",
    "p <=> q",
    "small < n",
    "n > 9999999999",
    "a in ('a', 'ab', b)",
    "a not in ('a', null)",
    "n in (1, 7, m)",
    "a between 'a' and b",
    "n not between -1 and 7",
    "a is null",
    "f is not null",
    "at is null",
    "isnull(f)",
    "cast(n as string)",
    "cast(d as string)",
    "string(p)",
    "small::string",
    "'games'",
    "null",
    "-3",
    "true",
]  # fmt: skip


def _carried(tree: Node) -> Node:
    """The tree as workers get it."""
    carried: Node = pickle.loads(pickle.dumps(tree))  # noqa: S301 our own
    return carried


def test_every_expression_of_the_subset_is_what_spark_makes_of_it(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.Table.from_batches([BATCH]))
    columns = [F.expr(text).cast("string").alias(f"c{n}") for n, text in enumerate(EXPRESSIONS)]
    expected = frame.select(*columns).toArrow()
    wrong = []
    for number, text in enumerate(EXPRESSIONS):
        found = evaluate(_carried(native_tree(spark, text)), BATCH).to_pylist()
        theirs = expected[f"c{number}"].to_pylist()
        row = next((n for n in range(COUNT) if found[n] != theirs[n]), None)
        if row is not None:
            wrong.append((text, ROWS[row], found[row], theirs[row]))
    assert not wrong


def test_the_case_of_every_character_of_its_unicode_is_spark_s(spark: SparkSession) -> None:
    known = [c for c in range(1, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    # Letters that were there get a partner of the other case in later versions of Unicode.
    later = {0x19B, 0x264}
    texts = [f"a{chr(c)}b{chr(c)}" for c in known if c not in later]
    rows = pa.RecordBatch.from_arrays([pa.array(texts)], ["t"])
    frame = spark.createDataFrame(pa.Table.from_batches([rows])).select(F.lower("t"), F.upper("t")).toArrow()
    for column, function in enumerate(("lower", "upper")):
        assert (
            frame.column(column).to_pylist()
            == evaluate(native_tree(spark, f"{function}(t)"), rows).to_pylist()
        )
    assert len(texts) > 100_000


def test_no_rows_give_no_values(spark: SparkSession) -> None:
    for text in EXPRESSIONS:
        assert evaluate(native_tree(spark, text), BATCH.slice(0, 0)).to_pylist() == []


def test_a_field_that_these_records_lack_is_null(spark: SparkSession) -> None:
    tree = native_tree(spark, "coalesce(nothing, at.nothing, at.x.nothing is null, 'else')")
    with pytest.raises(ConfigError, match=r"at\.x is no struct"):
        evaluate(tree, BATCH)
    tree = native_tree(spark, "coalesce(nothing.at.all, at.nothing, 'else')")
    assert set(evaluate(tree, BATCH).to_pylist()) == {"else"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("date_format(d, 'yyyy')", "date_format"),
        ("n + 1", "Add"),
        ("m['k']", "UnresolvedExtractValue"),
        ("cast(a as int)", "casts to int"),
        ("count(1)", "count"),
        ("sum(n) over ()", "WindowExpression"),
        ("lower(distinct a)", "lower"),
        ("substring(a, n)", "substring is given n"),
        ("ltrim('x', a)", "ltrim"),
        ("db.lower(a)", r"db\.lower"),
        ("a ilike 'x%'", "ILike"),
        ("rand()", "rand"),
    ],
)
def test_what_is_beyond_the_subset_is_refused_by_name(spark: SparkSession, text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named) as refused:
        native_tree(spark, text)
    assert "decode.engine: spark" in str(refused.value)


@pytest.mark.parametrize(
    "text", ["lower(", "a b c d", "", "split_part(a, '.', 0)", "lower(a, b)", "substring(a)"]
)
def test_what_is_no_expression_is_refused(spark: SparkSession, text: str) -> None:
    with pytest.raises(ConfigError, match=r"route\.expression"):
        native_tree(spark, text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = n", "text and a whole number"),
        ("f || a", "double"),
        ("lower(n)", "a whole number where it takes text"),
        ("coalesce(a, n)", "cast one of them"),
        ("f", "double"),
        ("1.5", "decimal"),
        ("at", "struct"),
        ("not a", "a boolean"),
    ],
)
def test_types_that_would_have_to_be_cast_are_refused_by_name(
    spark: SparkSession, text: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        evaluate(native_tree(spark, text), BATCH)


def test_a_name_that_fits_two_columns_is_the_one_written_so_or_refused(spark: SparkSession) -> None:
    rows = pa.RecordBatch.from_pylist([{"Game": "go", "game": "chess"}])
    assert evaluate(native_tree(spark, "game"), rows).to_pylist() == ["chess"]
    with pytest.raises(ConfigError, match="Game, game"):
        evaluate(native_tree(spark, "GAME"), rows)


def test_a_day_in_a_year_of_more_than_four_digits_is_written_as_spark_does(spark: SparkSession) -> None:
    days = [-800_000, -719_529, 0, 2_932_896, 2_932_897, 3_000_000]
    rows = pa.RecordBatch.from_arrays([pa.array(days, pa.int32()).cast(pa.date32())], ["d"])
    written = spark.createDataFrame([(day,) for day in days], "n int").selectExpr(
        "cast(date_from_unix_date(n) AS string)"
    )
    found = evaluate(native_tree(spark, "cast(d AS string)"), rows).to_pylist()
    assert found == written.toArrow().column(0).to_pylist()
