"""Expressions read by Spark's own parser and put into the small tree that workers evaluate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from distributary.ingest.routing.arithmetic import ARITHMETIC, TAKE_FAILING
from distributary.ingest.routing.functions import AT_MOST, BY_NAME, FUNCTIONS
from distributary.ingest.routing.kinds import ExpressionRefused, beyond
from distributary.ingest.routing.patterns import like, regular
from distributary.ingest.routing.tree import Call, Field, Literal, Node, may_fail
from distributary.ingest.spark.session import OURS, ZONE, in_use, with_settings

# What Spark's parser makes of operators and of syntax of their own: the classes of its tree.
_BY_CLASS: Mapping[str, str] = {
    "Concat": "concat",
    "Substring": "substring",
    "StringTrim": "trim",
    "StringTrimLeft": "ltrim",
    "StringTrimRight": "rtrim",
    "CaseWhen": "case",
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "In": "in",
    "And": "and",
    "Or": "or",
    "Not": "not",
    "IsNull": "is null",
    "IsNotNull": "is not null",
    "Like": "like",
    "RLike": "rlike",
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Remainder": "%",
    "UnaryMinus": "negative",
}

_LITERALS = ("string", "int", "bigint", "boolean", "void", "double", "date", "timestamp", "timestamp_ntz")

# Of these a value alone does not tell what it is.
_TOLD = ("bigint", "double", "date", "timestamp", "timestamp_ntz")

# A pattern that cannot be one is told of before any record comes.
_PATTERNS: Mapping[str, Callable[[str], object]] = {"like": like, "rlike": regular}


def parsed(spark: SparkSession, text: str) -> Any:
    """Spark's own tree of an expression, a Java object; a time without a zone is in UTC. Raises ConfigError for what is no expression."""
    in_utc = with_settings(spark, {ZONE: OURS[ZONE]})
    jsession: Any = in_utc._jsparkSession
    with in_use(in_utc):
        return parsed_by(jsession.sessionState().sqlParser(), text)


def parsed_by(parser: Any, text: str) -> Any:
    """The same by any parser of Spark's, a Java object. Raises ConfigError for what is no expression."""
    return _parsed(parser.parseExpression, text, "expression")


def query_parsed_by(parser: Any, text: str) -> Any:
    """The same of a query. Raises ConfigError for what is none."""
    return _parsed(parser.parsePlan, text, "query")


def _parsed(parse: Callable[[str], Any], text: str, what: str) -> Any:
    _require_characters(text)
    try:
        return parse(text)
    except ParseException as error:
        said = str(error)
    except Py4JJavaError as error:  # as it comes where no session has taught Python Spark's own errors
        kind = error.java_exception.getClass().getSimpleName()
        if kind != "ParseException":
            raise ExpressionRefused(
                f"Spark's parser ends with {kind}; write it shorter and less nested"
            ) from None
        said = error.java_exception.getMessage()
    why = f"is no Spark SQL {what}: {said.strip().splitlines()[0]}"
    raise ExpressionRefused(f"this {why}", f"route.expression {why}")


def _require_characters(text: str) -> None:
    """Half a character, which YAML can write, does not reach Java."""
    try:
        text.encode()
    except UnicodeEncodeError:
        why = "cannot be given to Spark; write it in characters that UTF-8 has"
        raise ExpressionRefused(f"this {why}", f"route.expression {why}") from None


@dataclass(frozen=True, slots=True)
class Attribute:
    """A field that an expression names, and the part of the text that names it."""

    path: tuple[str, ...]
    start: int
    stop: int


def attributes(tree: Any) -> list[Attribute]:
    """The fields in a tree of `parsed`."""
    if tree.getClass().getSimpleName() == "UnresolvedAttribute":
        origin = tree.origin()
        return [
            Attribute(
                tuple(_items(tree.nameParts())), origin.startIndex().get(), origin.stopIndex().get() + 1
            )
        ]
    return [found for child in _items(tree.children()) for found in attributes(child)]


@dataclass(frozen=True, slots=True)
class Item:
    """A step by brackets into a struct, a list or a map: `at['x']` by this text, `at[0]` or `at[n]` by None."""

    key: str | None


# What an expression reads, from a column inwards: `tags[0].id` is ("tags", Item(None), Item("id")).
Steps: TypeAlias = tuple[str | Item, ...]


def reads(tree: Any) -> list[Steps]:
    """Everything of the payload that a tree of `parsed` reads, as far inwards as the expression says."""
    chain = _chain(tree)
    inside = _items(tree.children()) if chain is None else _keys(tree)
    found = [steps for child in inside for steps in reads(child)]
    return found if chain is None else [chain, *found]


def _chain(tree: Any) -> Steps | None:
    """The steps to a value that is a field, or within one; None for what is computed."""
    if tree.getClass().getSimpleName() == "UnresolvedAttribute":
        return tuple(_items(tree.nameParts()))
    if not _is_item(tree):
        return None
    around = _chain(tree.child())
    return None if around is None else (*around, _item(tree.extraction()))


def _keys(tree: Any) -> list[Any]:
    """What stands in the brackets of a chain."""
    return [*_keys(tree.child()), tree.extraction()] if _is_item(tree) else []


def _is_item(tree: Any) -> bool:
    return bool(tree.getClass().getSimpleName() == "UnresolvedExtractValue")


def _item(key: Any) -> Item:
    is_text = key.getClass().getSimpleName() == "Literal" and key.dataType().simpleString() == "string"
    return Item(key.value().toString() if is_text else None)


def native_tree(spark: SparkSession, text: str) -> Node:
    """The expression as workers evaluate it. Raises ConfigError naming what only Spark can do."""
    return native(parsed(spark, text))


def native(tree: Any, *, each: bool = False) -> Node:
    """A tree of `parsed` as workers evaluate it. Raises ConfigError naming what only Spark can do.

    each  whether one record may be without a value where others have one, as by arithmetic
    """
    node = _node(tree)
    if not each and may_fail(node):
        raise beyond(f"it uses {_failing(node)}, which has no value for some numbers")
    return node


def _failing(node: Node) -> str:
    """The first part of an expression that has no value for some records."""
    if isinstance(node, Call) and node.function in ARITHMETIC:
        return next(name for name, function in _BY_CLASS.items() if function == node.function)
    arguments = node.arguments if isinstance(node, Call) else ()
    return next(_failing(one) for one in arguments if may_fail(one))


def _node(tree: Any) -> Node:
    kind = tree.getClass().getSimpleName()
    if kind == "UnresolvedAttribute":
        return Field(tuple(_items(tree.nameParts())))
    if kind == "Literal":
        return _literal(tree)
    if kind == "Cast":
        return _cast(tree)
    children = _items(tree.children())
    if kind == "UnresolvedFunction":
        return _call(".".join(_items(tree.nameParts())), children, _plain(tree))
    if kind not in _BY_CLASS:
        raise beyond(f"it uses {kind} ({tree.sql()})")
    if kind == "Like" and tree.escapeChar() != "\\":
        raise beyond("it uses like with an escape of its own")
    return _made(_BY_CLASS[kind], kind, children)


def _call(name: str, children: list[Any], plain: bool) -> Node:
    known = BY_NAME.get(name.lower())
    if known is None or not plain or len(children) > AT_MOST.get(name.lower(), len(children)):
        raise beyond(f"it uses the function {name}" + ("" if known is None else " in a way"))
    return _made(known, name, children)


def _made(function: str, name: str, children: list[Any]) -> Node:
    takes = FUNCTIONS[function]
    if takes.options:
        children, written = children[: takes.arguments[1]], children[takes.arguments[1] :]
    else:
        written = []
    if not takes.arguments[0] <= len(children) <= takes.arguments[1]:
        raise ExpressionRefused(f"{name} does not take {len(children)} arguments")
    if not takes.needed <= len(written) <= len(takes.options):
        raise ExpressionRefused(f"{name} does not take {len(children) + len(written)} arguments")
    options = tuple(_option(name, one, wanted) for one, wanted in zip(written, takes.options, strict=False))
    if function == "split_part" and options[1] == 0:
        raise ExpressionRefused("split_part counts parts from 1, or from -1 at the end; there is no 0")
    if function in _PATTERNS:
        _PATTERNS[function](str(options[0]))
    arguments = tuple(map(_node, children))
    if function not in TAKE_FAILING and any(map(may_fail, arguments)):
        raise beyond(f"{name} is given what has no value for some numbers")
    return Call(function, arguments, options)


def _option(name: str, tree: Any, wanted: type[str | int]) -> str | int:
    node = _node(tree) if tree.getClass().getSimpleName() == "Literal" else None
    value = node.value if isinstance(node, Literal) else None
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise beyond(f"{name} is given {tree.sql()} where it takes a literal {wanted.__name__}")
    return value


def _literal(tree: Any) -> Literal:
    kind = tree.dataType().simpleString()
    value = tree.value()
    if kind.startswith("decimal("):
        return Literal(value.toString(), kind)
    if kind not in _LITERALS:
        raise beyond(f"it has the literal {tree.sql()} of type {kind}")
    return Literal(value.toString() if kind == "string" else value, kind if kind in _TOLD else "")


def _cast(tree: Any) -> Node:
    kind = tree.dataType().simpleString()
    if kind != "string":
        raise beyond(f"it casts to {kind}")
    return Call("cast to string", (_node(tree.child()),))


def _plain(function: Any) -> bool:
    return not (function.isDistinct() or function.filter().isDefined() or function.ignoreNulls())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]
