"""The command line: what each command is called and takes. The work is done elsewhere.

Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 a check did not hold, 130 interrupted.
Whatever is heavy (Spark, Delta) is imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import io
import logging
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from distributary import __version__
from distributary.commands import demo as commands_demo
from distributary.commands import infer as commands_infer
from distributary.commands import package as commands_package
from distributary.commands import plan as commands_plan
from distributary.commands import run as commands_run
from distributary.commands import schema as commands_schema
from distributary.commands import settings as commands_settings
from distributary.commands import simulate as commands_simulate
from distributary.commands import simulations as commands_simulations
from distributary.commands import stack as commands_stack
from distributary.commands import verify as commands_verify
from distributary.commands.pipelines import graph as commands_graph
from distributary.commands.pipelines.switches import with_switches
from distributary.commands.quarantine import changing as commands_changing
from distributary.commands.quarantine import looking as commands_looking
from distributary.commands.tables import derive as commands_derive
from distributary.commands.tables import erase as commands_erase
from distributary.commands.tables import expectations as commands_expectations
from distributary.commands.tables import maintain as commands_maintain
from distributary.commands.tables import rebuild as commands_rebuild
from distributary.commands.tables import resolve as commands_resolve
from distributary.commands.tables import versions as commands_versions
from distributary.errors import DistributaryError, unforeseen
from distributary.views.terminal import console, printable

# PySpark logs an error of a query with its stack traces, in one line of JSON, before it raises the same error.
_SPARKS_OWN = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

_MAY_NOT = "let the user of this process read and write there or, in a store, the one whose keys it has"


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs to the root logger, with its stack trace, that the JVM is gone; the error that is raised says so."""
    return record.module != "java_gateway"


app = typer.Typer(
    name="distributary",
    help="One Kafka topic in, one Delta table an entity out, in one pass.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.command()(commands_run.run)

app.command()(commands_resolve.resolve)

app.command()(commands_infer.infer)

app.command()(commands_plan.plan)

app.command()(commands_package.package)

app.add_typer(commands_stack.app, name="stack")

app.add_typer(commands_settings.app, name="settings")

app.add_typer(commands_schema.app, name="schema")

app.command()(commands_simulate.simulate)

app.add_typer(commands_simulations.app, name="simulations")

app.command()(commands_verify.verify)

app.command()(commands_versions.versions)

app.command()(commands_expectations.expectations)

app.command()(commands_maintain.maintain)

app.command()(commands_derive.derive)

app.command()(commands_rebuild.replay)

app.command()(commands_rebuild.reset)

app.command()(commands_erase.erase)

quarantine = typer.Typer(help="What waits in quarantine: seen, brought back, deleted.", no_args_is_help=True)

quarantine.command("list")(commands_looking.list_)

quarantine.command()(commands_looking.show)

quarantine.command()(commands_changing.replay)

quarantine.command()(commands_changing.purge)

app.add_typer(quarantine, name="quarantine")
app.command()(commands_graph.graph)

app.command()(commands_demo.demo)

with_switches(app)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the command line and ends the process with its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    _write_whatever_it_is()
    if "--debug" not in given:
        for name in _SPARKS_OWN:
            logging.getLogger(name).disabled = True
        logging.getLogger("py4j").propagate = False
        logging.getLogger().addFilter(_is_not_of_py4j)
    else:
        logging.getLogger("distributary").setLevel(logging.DEBUG)
    try:
        app(given, prog_name="distributary")
    except Exception as error:  # noqa: BLE001 whatever it is, who typed the command gets a sentence
        if "--debug" in given:
            traceback.print_exc()
        lines = _said(error).splitlines()
        console().print("error:", "\n".join(printable(line) for line in lines), soft_wrap=True)
        sys.exit(getattr(error, "exit_code", 1))
    sys.exit(0)


def _write_whatever_it_is() -> None:
    """Have a letter that the terminal's encoding lacks be written by its number: names of files and of what is in topics have any."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _said(error: Exception) -> str:
    if isinstance(error, DistributaryError):
        return str(error)
    if not isinstance(error, OSError):
        # Its own words may quote a value of a record.
        return (
            f"{unforeseen(error)}: a defect of distributary. `distributary --debug ...` shows the stack trace"
        )
    # A store's, or a disk's, which each command may meet anywhere.
    from distributary.values import without_logins

    said = without_logins(f"{type(error).__name__}: {error}")
    # delta-rs tells of a file in a folder by the system's words alone.
    denied = isinstance(error, PermissionError) or "Permission denied (os error 13)" in said
    return f"{said}; {_MAY_NOT}" if denied else said


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"distributary {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")] = False,
) -> None:
    """One Kafka topic in, one Delta table an entity out, in one pass."""


@app.command()
def jars(
    paths: Annotated[
        bool,
        typer.Option("--paths", help="Print where Spark's jars are, as `spark-submit --jars` takes them."),
    ] = False,
) -> None:
    """Fetch what Spark, the broker and the registry need into the user's cache, and write from what Spark starts sooner."""
    from distributary.ingest.spark.artifact_list import read_artifact_list
    from distributary.ingest.spark.artifacts import resolve, spark_jars
    from distributary.ingest.spark.class_archive_writing import write_class_archive
    from distributary.ingest.spark.java import find_java
    from distributary.ingest.spark.versions import installed_spark
    from distributary.producer_sim.stack.apicurio import REGISTRY_ARCHIVE
    from distributary.producer_sim.stack.kafka_broker import BROKER_JARS

    find_java()
    found = spark_jars()
    if paths:
        typer.echo(",".join(map(str, found)))
        return
    for wanted in (BROKER_JARS, REGISTRY_ARCHIVE):
        resolve(read_artifact_list(wanted))
    write_class_archive(find_java(line=installed_spark()))
