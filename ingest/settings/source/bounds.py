"""Where a reading begins and where it ends, as users write it: a word, a point in time, or offsets of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator

from distributary.values import WrongValues

# One offset a partition: topic -> partition -> offset.
_Offsets: TypeAlias = dict[str, dict[int, int]]

_WORDS = ("earliest", "latest")

_TIME = "a point in time with its zone, such as 2026-11-01T00:00:00Z"

_OFFSETS = 'offsets of partitions, such as {game-events: {"0": 1000, "1": 1200}}'

_PARTITIONS = "the numbers of partitions by their topics, such as {game-events: [0, 1]}"

_LARGEST = 2**63 - 1


def _begins(value: Any) -> Any:
    return value if value in _WORDS else _bound(value, f"earliest, latest, {_TIME}, or {_OFFSETS}")


def _ends(value: Any) -> Any:
    return None if value is None else _bound(value, f"{_TIME}, or {_OFFSETS}")


def _bound(value: Any, wanted: str) -> datetime | _Offsets:
    if isinstance(value, Mapping):
        return {str(topic): _offsets(str(topic), of, wanted) for topic, of in value.items()}
    return _moment(value, wanted)


def _moment(value: Any, wanted: str) -> datetime:
    """A point in time. YAML makes one of some texts by itself."""
    if isinstance(value, str):
        try:
            # Python 3.10 knows no Z.
            value = datetime.fromisoformat(f"{value[:-1]}+00:00" if value.endswith("Z") else value)
        except ValueError:
            raise WrongValues(((), f"write {wanted}")) from None
    if isinstance(value, date) and getattr(value, "tzinfo", None) is None:
        raise WrongValues(
            ((), f"a time without its zone is another one for everybody who reads it; write {_TIME}")
        )
    if not isinstance(value, datetime):
        raise WrongValues(((), f"write {wanted}"))
    return value


def _offsets(topic: str, partitions: Any, wanted: str) -> dict[int, int]:
    if not isinstance(partitions, Mapping) or not partitions:
        raise WrongValues(((topic,), f"write {wanted}"))
    found = {}
    for number, offset in partitions.items():
        if not str(number).isdecimal():
            raise WrongValues(((topic, number), "a partition is a whole number in quotes, counted from 0"))
        if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= _LARGEST:
            raise WrongValues(((topic, number), "an offset is a whole number, counted from 0"))
        found[int(number)] = offset
    return found


def _assigned(value: Any) -> Any:
    """Partitions by their topics."""
    if not isinstance(value, Mapping):
        raise WrongValues(((), f"write {_PARTITIONS}"))
    found = {}
    for topic, numbers in value.items():
        is_list = isinstance(numbers, list | tuple) and len(numbers) > 0
        if not is_list or any(
            isinstance(one, bool) or not isinstance(one, int) or one < 0 for one in numbers
        ):
            raise WrongValues(((topic,), f"write {_PARTITIONS}"))
        found[str(topic)] = tuple(sorted(set(numbers)))
    return found


Assigned: TypeAlias = Annotated[dict[str, tuple[int, ...]], BeforeValidator(_assigned)]

Begins: TypeAlias = Annotated[Literal["earliest", "latest"] | datetime | _Offsets, BeforeValidator(_begins)]

Ends: TypeAlias = Annotated[datetime | _Offsets | None, BeforeValidator(_ends)]
