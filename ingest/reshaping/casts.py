"""The types that a rule may have a field cast to, and values cast to them: exactly, or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.types.exact_decimal import exact_decimal
from distributary.codecs.types.fit import is_number
from distributary.codecs.types.masks import Mask, is_valid
from distributary.ingest.reshaping.texts import as_texts

_PLAIN: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}

# Times as numbers, by what these count since 1970 began.
_COUNTED: Mapping[str, str] = {"timestamp(s)": "s", "timestamp(ms)": "ms", "timestamp(us)": "us"}

NAMES = (*_PLAIN, *_COUNTED, "decimal(p,s)")

_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")

_MOST_DIGITS = 38

# So many values are cast together where one of all has no place.
_PORTION = 64

# Days and microseconds of the years 1 to 9999, which is what SQL's types hold.
_DAYS = (-719_162, 2_932_896)
_MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)

# How many digits a floating-point number of so many bits keeps whatever they are: a decimal of these is what is written of it.
_DIGITS_TOLD: Mapping[int, int] = {64: 15, 32: 6}


def type_of(name: str) -> pa.DataType | None:
    """The type of this name, as Spark's SQL has it; None where there is none."""
    name = "timestamp" if unit_of(name) else name.strip().lower()
    if found := _DECIMAL.fullmatch(name):
        precision, scale = int(found[1]), int(found[2])
        fits = 1 <= precision <= _MOST_DIGITS and scale <= precision
        return pa.decimal128(precision, scale) if fits else None
    return _PLAIN.get(name)


def unit_of(name: str) -> str | None:
    """What a time that is a number counts, by the name of the type; None of all other types."""
    return _COUNTED.get(name.strip().lower())


def castable(given: pa.DataType, to: pa.DataType, unit: str | None = None) -> bool:
    """Whether some values of a type, which has no children, can be ones of another; `unit` is that of times which are numbers."""
    if kinds.is_dictionary(given):
        return castable(given.value_type, to, unit)
    if kinds.is_null(given):
        return True
    if unit is not None:
        return bool(kinds.is_integer(given))
    return given == to or kinds.is_string(to) or _takes(given, to)


def _takes(given: pa.DataType, to: pa.DataType) -> bool:
    text = kinds.is_string(given) or kinds.is_large_string(given)
    if kinds.is_binary(to):
        return bool(text)
    if kinds.is_temporal(to):
        return bool(text or kinds.is_date(given) or kinds.is_timestamp(given))
    if kinds.is_boolean(to):
        return bool(text or kinds.is_integer(given))
    return bool(text or is_number(given) or (kinds.is_boolean(given) and kinds.is_integer(to)))


def cast(values: pa.Array, to: pa.DataType, unit: str | None = None) -> tuple[pa.Array, Mask]:
    """Values as another type, and where one has no exact place in it, which is null then; `unit` is that of times which are numbers."""
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    ways = [partial(_counted, unit=unit, to=to)] if unit else list(_ways(values.type, to))
    for way in ways:
        if (whole := _tried(way, values)) is not None:
            return whole, np.zeros(len(values), np.bool_)
    found = values.dictionary_encode()
    made = list(_in_portions(found.dictionary, to, ways))
    cells = pa.concat_arrays(made) if made else pa.nulls(0, to)
    stored = cells.take(found.indices)
    return stored, is_valid(values) & ~is_valid(stored)


def _in_portions(
    values: pa.Array, to: pa.DataType, ways: Sequence[Callable[[pa.Array], pa.Array]]
) -> Iterator[pa.Array]:
    """Values by the first way that takes each: of most portions there is none that takes not all, and one by one they take many times as long."""
    for start in range(0, len(values), _PORTION):
        some = values.slice(start, _PORTION)
        whole = _tried(ways[0], some)
        if whole is not None:
            yield whole
        else:
            yield from (_first(some.slice(place, 1), to, ways) for place in range(len(some)))


def _first(value: pa.Array, to: pa.DataType, ways: Sequence[Callable[[pa.Array], pa.Array]]) -> pa.Array:
    """One value by the first way that takes it."""
    tried = (_tried(way, value) for way in ways)
    return next((one for one in tried if one is not None), pa.nulls(1, to))


def _tried(way: Callable[[pa.Array], pa.Array], values: pa.Array) -> pa.Array | None:
    try:
        found = way(values)
    except (ValueError, pa.ArrowNotImplementedError, OverflowError):
        # Arrow's own error, for what is invalid, is a ValueError; another one would fail the batch for ever.
        return None
    return found if _has_years(found) else None


def _has_years(values: pa.Array) -> bool:
    """Whether all times among them are of years that SQL has: milliseconds taken for seconds are of the year 50,000."""
    if not kinds.is_temporal(values.type):
        return True
    days = kinds.is_date32(values.type)
    low, high = _DAYS if days else _MICROSECONDS
    found = pc.min_max(values.view(pa.int32() if days else pa.int64())).as_py()
    return found["min"] is None or (low <= found["min"] and found["max"] <= high)


def _ways(given: pa.DataType, to: pa.DataType) -> Iterator[Callable[[pa.Array], pa.Array]]:
    if kinds.is_string(to):
        # Bytes that are no text are none here either.
        yield partial(pc.cast, target_type=to) if _has_bytes(given) else as_texts
    elif kinds.is_string(given) or kinds.is_large_string(given):
        yield from _ways_of_texts(to)
        for way in _ways_of_texts(to):
            yield partial(_trimmed, way=way)
    elif kinds.is_floating(given) and kinds.is_decimal(to):
        if to.precision <= _DIGITS_TOLD.get(given.bit_width, 0):
            yield partial(_exactly, to=to)
        # By what is written of it: beyond that its digits are nobody's.
        yield lambda values: _decimal_read(as_texts(values), to)
    else:
        yield partial(_exactly, to=to)
        if kinds.is_decimal(given) and kinds.is_floating(to):
            yield partial(_as_written, to=to)


def _ways_of_texts(to: pa.DataType) -> Iterator[Callable[[pa.Array], pa.Array]]:
    if kinds.is_decimal(to):
        yield partial(_decimal_read, to=to)
    elif is_number(to):
        yield partial(_number_read, to=to)
    elif kinds.is_timestamp(to) and to.tz:
        yield partial(_moment_read, to=to)
    else:
        yield partial(pc.cast, target_type=to)
    if kinds.is_timestamp(to) and to.tz:
        # A time that says no zone is taken for one in UTC.
        yield lambda values: pc.assume_timezone(pc.cast(values, pa.timestamp("us")), "UTC")


def _trimmed(texts: pa.Array, way: Callable[[pa.Array], pa.Array]) -> pa.Array:
    return way(pc.ascii_trim_whitespace(texts))


def _counted(values: pa.Array, unit: str, to: pa.DataType) -> pa.Array:
    return pc.cast(pc.cast(pc.cast(values, pa.int64()), pa.timestamp(unit, "UTC")), to)


def _exactly(values: pa.Array, to: pa.DataType) -> pa.Array:
    stored = _nearest(values, to)
    if _may_be_another(values.type, to):
        back = _nearest(stored, values.type)
        if not pc.all(pc.equal(back, values)).as_py():
            raise pa.ArrowInvalid("not exact")
    if kinds.is_float32(to) and kinds.is_float64(values.type):
        back = pc.cast(stored, values.type)
        if not pc.all(pc.or_(pc.equal(back, values), pc.is_nan(values))).as_py():
            raise pa.ArrowInvalid("not exact")
    return stored


def _as_written(values: pa.Array, to: pa.DataType) -> pa.Array:
    """Decimals as numbers of which the same digits are written."""
    stored = _nearest(values, to)
    if not as_texts(stored).equals(as_texts(values)):
        raise pa.ArrowInvalid("not exact")
    return stored


def _nearest(values: pa.Array, to: pa.DataType) -> pa.Array:
    """What Arrow's cast is to give: it wants room for the widest integer whatever the values, and of decimals it makes other numbers."""
    given = values.type
    if kinds.is_integer(given) and kinds.is_decimal(to):
        values = pc.cast(values, pa.decimal256(to.scale + 20, to.scale))
    elif kinds.is_decimal(given) and kinds.is_decimal(to) and to.scale > given.scale:
        # It adds zeros without a look at whether there is room for them.
        values = pc.cast(values, pa.decimal256(_MOST_DIGITS * 2, to.scale))
    elif kinds.is_decimal(given) and kinds.is_floating(to):
        # It multiplies by a tenth: 0.7 becomes 0.7000000000000001.
        values = pc.cast(values, pa.string())
    return pc.cast(values, to)


def _moment_read(texts: pa.Array, to: pa.DataType) -> pa.Array:
    """Texts that say a zone as times. Arrow takes each zone of less than a day."""
    if pc.any(pc.match_substring_regex(texts, _FAR)).as_py():
        raise pa.ArrowInvalid("no zone")
    return pc.cast(texts, to)


# How many digits a whole number has that a floating-point one of so many bits may not hold.
_LONG: Mapping[int, str] = {32: r"^[+-]?[0-9]{8,}(\.0*)?$", 64: r"^[+-]?[0-9]{16,}(\.0*)?$"}

# A time's zone that is further off than 18 hours, as no place is, and as SQL has none.
_FAR = r"[T ][0-9].*[+-](?:18:?(?:0[1-9]|[1-9])|19|2[0-9])"

# What Arrow takes for a number of less than one by its exponent.
_SMALL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE]-[0-9]+")


def _number_read(texts: pa.Array, to: pa.DataType) -> pa.Array:
    """Texts as numbers. Arrow also reads `0x1F`, takes the nearest one for a whole number, and infinity for what is too large."""
    if kinds.is_integer(to):
        if pc.any(pc.match_substring_regex(texts, "[xX]")).as_py():
            raise pa.ArrowInvalid("no decimal digits")
        return pc.cast(pc.replace_substring_regex(texts, r"^\+([0-9])", r"\1"), to)
    stored = pc.cast(texts, to)
    told = pc.match_substring_regex(texts, "[iI]")
    if pc.any(pc.and_(pc.is_inf(stored), pc.invert(told))).as_py():
        raise pa.ArrowInvalid("too large")
    long = pc.fill_null(pc.match_substring_regex(texts, _LONG[to.bit_width]), False)
    pairs = zip(texts.filter(long).to_pylist(), stored.filter(long).to_pylist(), strict=True)
    # Without the zeros before it: Python takes no text of some thousands of digits, and a finite number has 309.
    if any(int(text.partition(".")[0].lstrip("+-0") or "0") != abs(value) for text, value in pairs):
        raise pa.ArrowInvalid("not exact")
    return stored


def _decimal_read(texts: pa.Array, to: pa.DataType) -> pa.Array:
    """Texts as decimals. Arrow takes another number for one that is beyond 128 bits with the zeros of the scale."""
    if pc.any(pc.match_substring_regex(texts, "[eE]-")).as_py():
        texts = pa.array([text and _without_exponent(text, to) for text in texts.to_pylist()], pa.string())
    stored = pc.cast(texts, to)
    wide = pc.greater(pc.utf8_length(texts), _MOST_DIGITS - to.scale)
    wide = pc.fill_null(pc.or_(wide, pc.match_substring_regex(texts, "[eE]")), False)
    pairs = zip(texts.filter(wide).to_pylist(), stored.filter(wide).to_pylist(), strict=True)
    if any(Decimal(text) != value for text, value in pairs):
        raise pa.ArrowInvalid("too large")
    return stored


def _without_exponent(text: str, to: pa.Decimal128Type) -> str:
    """The digits of a number that has an exponent below zero, by which Arrow may read beyond its table of powers, and end the process."""
    if not _SMALL.fullmatch(text):
        return text
    try:
        stored = exact_decimal(Decimal(text), to.precision, to.scale)
    except InvalidOperation:  # an exponent beyond all bounds
        stored = None
    if stored is None:
        raise pa.ArrowInvalid("not exact")
    return f"{stored:f}"


def _may_be_another(given: pa.DataType, to: pa.DataType) -> bool:
    """Whether Arrow takes the nearest value where none is the same, as it does of decimals, or all integers but 0 for true."""
    if kinds.is_floating(to):
        return is_number(given) and not kinds.is_floating(given)
    fractions = kinds.is_floating(given) and kinds.is_decimal(to)
    return bool(fractions or (kinds.is_integer(given) and kinds.is_boolean(to)))


def _has_bytes(of: pa.DataType) -> bool:
    return bool(kinds.is_binary(of) or kinds.is_large_binary(of) or kinds.is_fixed_size_binary(of))
