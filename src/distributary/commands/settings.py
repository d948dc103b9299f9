"""`distributary settings`: what a pipeline's file may say, and whether one can work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.errors import ConfigError, SetupError
from distributary.values import Keys, dotted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributary.ingest.routing.queries import InSql
    from distributary.ingest.routing.read_ahead import ReadExpression
    from distributary.ingest.settings.model import Settings
    from distributary.ingest.settings.yaml_file import Document

app = typer.Typer(help="Check settings files, and help editors to.", no_args_is_help=True)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the settings file, for editors."""
    from distributary.ingest.settings.model import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


@app.command()
def check(
    file: File,
    given: Given = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all settings, defaults included, secrets masked.")
    ] = False,
) -> None:
    """Say whether the settings can work; every problem is named with its line and remedy."""
    from distributary.ingest.settings.model import load_with_places

    # Whoever looks at a file that others wrote must not run what it names.
    settings, document = load_with_places(file, given=given or (), asks=False)
    routing_expression(document, settings)
    read_conditions(document, settings)
    read_derived(document, settings)
    typer.echo(json.dumps(settings.effective(), indent=2) if as_json else f"{file}: {settings.name} can run")


def read_conditions(document: Document, settings: Settings) -> None:
    """Read the conditions of deletes, of what is erased and of expectations, as a run does. Raises ConfigError with the line for one that cannot be read."""
    whole: list[tuple[Keys, str | None]] = [
        (("erased", n), one) for n, one in enumerate(settings.erased) if isinstance(one, str)
    ]
    expected: list[tuple[Keys, str | None]] = []
    for number, rule in enumerate(settings.tables):
        keys, of_deletes = rule.condition()
        whole.append((("tables", number, *keys), of_deletes))
        expected += [(("tables", number, *keys), text) for keys, text in rule.expected()]
    _read(document, [(place, text) for place, text in whole if text is not None], each=False)
    _read(document, [(place, text) for place, text in expected if text is not None], each=True)


def read_derived(document: Document, settings: Settings) -> None:
    """Have Spark's parser read what derived tables are made by. Raises ConfigError with the line for what it cannot read."""
    from distributary.ingest.derived.instances import in_sql
    from distributary.ingest.routing.queries import are_read_alike, require_readable

    given: list[tuple[Keys, InSql]] = [
        (("derive", number, *keys), one)
        for number, rule in enumerate(settings.derive)
        for keys, one in in_sql(rule)
    ]
    if not given or not are_read_alike(settings.spark.conf):
        return
    places = {dotted(place): place for place, _ in given}
    try:
        require_readable((dotted(place), one) for place, one in given)
    except SetupError as error:
        typer.echo(f"derive is not looked at, which takes Java: {error}", err=True)
    except ConfigError as error:
        place = places[str(error).partition(": ")[0]]
        raise ConfigError(document.told(place, str(error))) from None


def _read(document: Document, given: Sequence[tuple[Keys, str]], *, each: bool) -> None:
    """Read conditions, all of them at once: Java takes a second to start."""
    from distributary.ingest.routing.conditions import conditions_ahead

    try:
        conditions_ahead([(dotted(place), text) for place, text in given], each=each)
    except SetupError as error:
        for place, _ in given:
            typer.echo(f"{dotted(place)} is not looked at, which takes Java: {error}", err=True)
    except ConfigError as error:
        if len(given) > 1:
            # Which of them it is, and so the line, is found one by one.
            for one in given:
                _read(document, [one], each=each)
        raise ConfigError(document.told(given[0][0], str(error))) from None


def routing_expression(document: Document, settings: Settings, unseen: str = "") -> ReadExpression | None:
    """The routing expression as a run reads it; None where there is none, or no Java to read it, which is said.

    `unseen` is what else nobody looks at then. Raises ConfigError with the line for an expression that cannot be read.
    """
    text = settings.route.expression
    if text is None:
        return None
    from distributary.ingest.routing.read_ahead import read_ahead

    try:
        return read_ahead(text, native=settings.decode.engine == "arrow")
    except SetupError as error:
        typer.echo(f"route.expression is not looked at{unseen}, which takes Java: {error}", err=True)
        return None
    except ConfigError as error:
        raise ConfigError(document.told(("route", "expression"), str(error))) from None
