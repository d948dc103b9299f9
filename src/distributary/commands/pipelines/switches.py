"""`--env` and `--debug-suffix`: which environment a pipeline's file is read for, and whether for a trial."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

Env = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="NAME",
        help="What {env} stands for in the file, whatever DISTRIBUTARY_ENV and the file say, such as dev.",
    ),
]

DebugSuffix = Annotated[
    str | None,
    typer.Option(
        "--debug-suffix",
        metavar="SUFFIX",
        help="Put this behind all places that a run writes to, such as _debug: a trial touches nothing of the real one.",
    ),
]

_ASIDE = "given"


def with_switches(app: typer.Typer) -> typer.Typer:
    """The same commands, where each that takes `--set` takes these two as well: both are settings, for once."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            with_switches(group.typer_instance)
    for command in app.registered_commands:
        if command.callback is not None and _ASIDE in inspect.signature(command.callback).parameters:
            command.callback = _switched(command.callback)
    return app


def _switched(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that takes the two, and has them as if they had been given by `--set`."""
    shape = inspect.signature(command, eval_str=True)

    @wraps(command)
    def with_both(
        *, given: list[str] | None, env: str | None, debug_suffix: str | None, **others: Any
    ) -> Any:
        from distributary.ingest.settings.filling_in.switches import switches

        return command(given=[*(given or ()), *switches(env, debug_suffix)], **others)

    both = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in (("env", Env), ("debug_suffix", DebugSuffix))
    ]
    # Typer reads both; the command's own annotations are texts of its module.
    whole = shape.replace(parameters=[*shape.parameters.values(), *both])
    with_both.__signature__ = whole  # type: ignore[attr-defined]
    with_both.__annotations__ = {name: one.annotation for name, one in whole.parameters.items()}
    return with_both
