"""What an aggregate keeps of each group, so that what comes later is added to it and the earlier rows are not read again.

A measure, such as `avg(score)`, is made of states, such as a sum and a count: each is worked out over rows, and two of one group make one.
So the states of all rows are those of the earlier ones with those of the later ones, in any cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

PREFIX = "__"
"""What the names of columns begin with that hold a state which is no measure by itself."""

_CALL = re.compile(r"\s*(\w+)\s*\(")
_FILTER = re.compile(r"\s*filter\s*\(\s*where\b\s*(?P<condition>.*)\)\s*", re.IGNORECASE | re.DOTALL)
_DISTINCT = re.compile(r"\s*distinct\b\s*", re.IGNORECASE)
# A word within would be read as one of the expression's.
_COMMENT = re.compile(r"--|/\*")
_QUOTES = "'\"`"

# What stands between quotes.
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`", re.DOTALL)

# What is another value each time it is asked for, as a function or without its parentheses.
_FLEETING = re.compile(
    r"\b(?:(current_date|current_time|current_timestamp|localtimestamp)\b"
    r"|(now|curdate|unix_timestamp(?=\s*\(\s*\))|rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id"
    r"|spark_partition_id|input_file_name|input_file_block_start|input_file_block_length)\s*\()",
    re.IGNORECASE,
)

# The same as a literal: Spark takes the day, or the moment, at which it reads the expression.
_FLEETING_LITERAL = re.compile(
    r"\b(?:date|timestamp(?:_ntz|_ltz)?)\s*['\"]\s*(now|today|yesterday|tomorrow)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class State:
    """A column of a derived table by which its rows are kept current.

    name   the column
    first  its value over rows, in Spark SQL
    merge  its value over others of it; `{}` is its name
    of     of a sum that is a double unless decimals are summed, what it sums
    exact  its value over rows then
    """

    name: str
    first: str
    merge: str
    of: str | None = None
    exact: str = ""

    @property
    def merged(self) -> str:
        """Its value over others of it, in Spark SQL."""
        return self.merge.format(f"`{self.name}`")


@dataclass(frozen=True, slots=True)
class Measure:
    """A column that people read: what it is over its states, in Spark SQL."""

    name: str
    states: tuple[State, ...]
    final: str


class NotMergeable(ValueError):
    """An expression of which nobody can say what two groups' values make together."""


def measure(name: str, text: str) -> Measure:
    """The measure that an expression says: one of Spark SQL's aggregate functions, with `FILTER (WHERE …)` or without.

    Raises NotMergeable, in words, for any other expression.
    """
    function, inner, condition = _parts(text)
    makes = _BY_NAME.get(function)
    if makes is None:
        raise NotMergeable(_unknown(function))
    behind = "" if condition is None else f" FILTER (WHERE {condition})"
    found = makes(name, inner)
    states = tuple(
        replace(one, first=f"{one.first}{behind}", exact=f"{one.exact}{behind}") for one in found.states
    )
    return Measure(name, states, found.final)


def quoted(text: str) -> list[str]:
    """The pieces of SQL that stand between quotes, with them."""
    return _QUOTED.findall(text)


def require_lasting(text: str) -> None:
    """Raises NotMergeable for an expression that tells something else of the same row at another time."""
    found = _FLEETING.search(_QUOTED.sub("``", text))
    literal = _FLEETING_LITERAL.search(text)
    if found is not None or literal is not None:
        name = (
            found[1] or found[2] if found is not None else literal[1] if literal is not None else ""
        ).lower()
        raise NotMergeable(
            f"{name} is another value each time, and rows that are there are not asked again; compare with a column, or write `sql`"
        )


def _unknown(function: str) -> str:
    if function in ("first", "first_value", "any_value", "last", "last_value"):
        by = "min_by" if function.startswith(("first", "any")) else "max_by"
        return f"which row is {function} depends on how rows are read; write {by}(value, order), such as {by}(level, kafka_ts)"
    return f"{function} is none of {', '.join(sorted(_BY_NAME))}: only of these a group's value follows from those of its parts; write `sql` for others"


def _parts(text: str) -> tuple[str, str, str | None]:
    """The function's name, what is in its parentheses, and the condition behind it."""
    if _COMMENT.search(_QUOTED.sub("``", text)):
        raise NotMergeable("write it without a comment, and put a space between two minus signs")
    found = _CALL.match(text)
    if found is None:
        raise NotMergeable("write one call of an aggregate function, such as count(*) or sum(score)")
    pieces = _cut(text[found.end() :], ")")
    if len(pieces) < 2:
        raise NotMergeable("a parenthesis is not closed")
    inner, rest = pieces[0], text[found.end() + len(pieces[0]) + 1 :]
    condition = _FILTER.fullmatch(rest)
    if rest.strip() and condition is None:
        raise NotMergeable(
            "write one call alone, FILTER (WHERE …) may follow; what is worked out of several is for `sql`"
        )
    return found[1].lower(), inner, None if condition is None else condition["condition"]


def _cut(text: str, at: str) -> list[str]:
    """A text in pieces, cut where a character stands that is in no parentheses and no quotes of its own."""
    pieces, begins, depth, quote, escaped = list[str](), 0, 0, "", False
    for place, character in enumerate(text):
        if escaped:
            escaped = False
        elif quote:
            escaped = character == "\\" and quote != "`"
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character == at and not depth:
            pieces.append(text[begins:place])
            begins = place + 1
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
    return [*pieces, text[begins:]]


def _one(name: str, first: str, merge: str) -> Measure:
    """A measure that is its own state."""
    return Measure(name, (State(name, first, merge),), f"`{name}`")


def _count(name: str, inner: str) -> Measure:
    distinct = _DISTINCT.match(inner)
    if distinct is None:
        return _one(name, f"count({inner})", "coalesce(sum({}), 0L)")
    if len(_cut(inner[distinct.end() :], ",")) > 1:
        raise NotMergeable("write count(DISTINCT struct(a, b)) for values of several columns")
    values = f"{PREFIX}{name}_values"
    merge = "array_distinct(flatten(collect_list({})))"
    state = State(values, f"collect_set({inner[distinct.end() :]})", merge)
    # A set has 0.0 beside -0.0, and NaN beside NaN; values that are told apart are those that make groups.
    return Measure(name, (state,), f"cast(size(array_distinct(`{values}`)) AS BIGINT)")


def _avg(name: str, inner: str) -> Measure:
    _refuse_distinct(inner)
    total, count = f"{PREFIX}{name}_sum", f"{PREFIX}{name}_count"
    states = (
        State(total, f"sum(cast({inner} AS DOUBLE))", "sum({})", inner, f"sum({inner})"),
        State(count, f"count({inner})", "coalesce(sum({}), 0L)"),
    )
    return Measure(name, states, f"`{total}` / nullif(`{count}`, 0L)")


def _sketched(name: str, inner: str) -> Measure:
    sketch = f"{PREFIX}{name}_sketch"
    if len(_cut(inner, ",")) > 1:
        raise NotMergeable("write approx_count_distinct(value); how exact it is cannot be chosen")
    # A sketch takes few types, and passes by empty texts.
    hashed = f"CASE WHEN ({inner}) IS NOT NULL THEN xxhash64({inner}) END"
    state = State(sketch, f"hll_sketch_agg({hashed})", "hll_union_agg({})")
    return Measure(name, (state,), f"hll_sketch_estimate(`{sketch}`)")


def _extreme(of: str) -> Callable[[str, str], Measure]:
    def makes(name: str, inner: str) -> Measure:
        pieces = _cut(inner, ",")
        if len(pieces) != 2:
            raise NotMergeable(f"write {of}_by(value, order)")
        value, order = pieces
        chosen = f"{PREFIX}{name}_chosen"
        whole = f"CASE WHEN ({order}) IS NOT NULL THEN struct({order} AS order, {value} AS value) END"
        return Measure(name, (State(chosen, f"{of}({whole})", f"{of}({{}})"),), f"`{chosen}`.value")

    return makes


def _same(function: str, merged_by: str | None = None) -> Callable[[str, str], Measure]:
    def makes(name: str, inner: str) -> Measure:
        _refuse_distinct(inner)
        return _one(name, f"{function}({inner})", f"{merged_by or function}({{}})")

    return makes


def _refuse_distinct(inner: str) -> None:
    if _DISTINCT.match(inner):
        raise NotMergeable("DISTINCT is for count alone")


def _counted_if(name: str, inner: str) -> Measure:
    _refuse_distinct(inner)
    return _one(name, f"count_if({inner})", "coalesce(sum({}), 0L)")


_BY_NAME: dict[str, Callable[[str, str], Measure]] = {
    "count": _count,
    "count_if": _counted_if,
    "sum": _same("sum"),
    "min": _same("min"),
    "max": _same("max"),
    "avg": _avg,
    "mean": _avg,
    "approx_count_distinct": _sketched,
    "min_by": _extreme("min"),
    "max_by": _extreme("max"),
    "bool_and": _same("bool_and"),
    "every": _same("bool_and"),
    "bool_or": _same("bool_or"),
    "some": _same("bool_or"),
    "bit_or": _same("bit_or"),
    "bit_and": _same("bit_and"),
}


_AS = re.compile(r"(?P<expression>.*\S)\s+as\s+`?(?P<name>\w+)`?\s*", re.IGNORECASE | re.DOTALL)


def group_of(text: str) -> tuple[str, str]:
    """The name and the expression of what rows are grouped by: a column, `player.id` as `id`, or `expression AS name`.

    Raises NotMergeable for an expression without a name.
    """
    found = _AS.fullmatch(text)
    if found is not None:
        return found["name"], found["expression"]
    parts = _cut(text, ".")
    name = parts[-1].strip().strip("`")
    if not re.fullmatch(r"\w+", name):
        raise NotMergeable("give what is no column a name, such as date(kafka_ts) AS day")
    return name, text


def names_of(by: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns of a table of these groups and measures that people read."""
    return [*(group_of(one)[0] for one in by), *columns]
