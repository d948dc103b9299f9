"""The values of options, which are text in Spark, as what they mean."""

from __future__ import annotations

from typing import Literal

from distributary.errors import ConfigError


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """The value, which has to be one of these. Raises ConfigError."""
    if not isinstance(value, str) or value not in allowed:
        raise ConfigError(f"{name} is {value!r}; it must be {' or '.join(allowed)}")
    return value


def mode_of(name: str, value: object) -> Literal["FAILFAST", "PERMISSIVE"]:
    """What a broken record does, in any capitals. Raises ConfigError."""
    if str(value).upper() == "FAILFAST":
        return "FAILFAST"
    if str(value).upper() == "PERMISSIVE":
        return "PERMISSIVE"
    raise ConfigError(f"{name} is {value!r}; it must be FAILFAST or PERMISSIVE")


def text_of(name: str, value: object) -> str:
    """The value, which has to be text, and some. Raises ConfigError."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} is {value!r}; it must be text that is not empty")
    return value


def flag(name: str, value: object) -> bool:
    """Whether it is true, in any capitals. Raises ConfigError."""
    return one_of(name, str(value).lower(), ("true", "false")) == "true"


def depth(name: str, value: object, most: int) -> int:
    """How often something is columns within itself; 0 for a negative number, which stands for none given. Raises ConfigError."""
    try:
        found = int(str(value))
    except ValueError:
        found = most + 1
    if found > most:
        raise ConfigError(f"{name} is {value!r}; it must be a number up to {most}")
    return max(found, 0)
