"""Which decoder a call of `from_avro` or `from_json` gets where it does not say: the exact one, which is ours, if it can do all."""

from __future__ import annotations

from dataclasses import replace

from distributary.codecs.function_options import ENGINE, FunctionOptions
from distributary.codecs.json_options import RESCUE, json_options, rescued_column
from distributary.errors import ConfigError


def exactly(asked: FunctionOptions) -> FunctionOptions:
    """The same by our own decoder, unless it is said otherwise: Spark's functions alter values and take broken records."""
    return replace(asked, engine="python") if asked.engine == "auto" else asked


def reading_json(asked: FunctionOptions) -> FunctionOptions:
    """The same by the engine that can do it: Spark's alone reads by options that say how, ours alone rescues. Raises ConfigError."""
    rescued, others = rescued_column(asked.values)
    json_options(others)
    if rescued is None:
        return asked if others else exactly(asked)
    if others or asked.engine == "spark":
        what = " and ".join([*([ENGINE] if asked.engine == "spark" else []), *others])
        raise ConfigError(
            f"from_json: {what} asks for Spark's own function, which rescues nothing; give either that or {RESCUE}"
        )
    return exactly(asked)
