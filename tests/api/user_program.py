"""A user's program as the type checker sees it: `make types` reads it strictly, and no test runs it.

Each `assert_type` fails the check where a public name is not what it says; each `type: ignore` does where the name is there.
"""

from __future__ import annotations

import threading
from pathlib import Path

from typing_extensions import assert_type

import distributary
from distributary import Settings, errors, run


def ingest(stop: threading.Event) -> int:
    settings = Settings.from_file("games.yaml").once()
    assert_type(settings, distributary.Settings)
    outcome = run(settings, stop=stop)
    assert_type(outcome, distributary.Outcome)
    assert_type(outcome.restarts, tuple[distributary.Restart, ...])
    return outcome.summary.rows


def prove(settings: Settings) -> bool:
    verdict = distributary.verify(settings, distributary.load_truth(Path("truth.json")))
    assert_type(verdict, distributary.Verdict)
    return verdict.holds


def ask() -> str:
    with distributary.ConfluentRegistry(
        distributary.RegistryOptions(url="http://127.0.0.1:8081")
    ) as registry:
        schema = registry.by_ref(1)
    assert_type(schema, distributary.Schema)
    return schema.text


def decide(settings: Settings) -> None:
    try:
        run(settings)
    except errors.CommitImpossible:
        for stuck in distributary.stuck_tables(settings):
            assert_type(stuck, distributary.StuckTable)
            distributary.resolve(settings, stuck.table, "recreate")


def mistaken() -> None:
    distributary.nonsense()  # type: ignore[attr-defined]
    run("games.yaml")  # type: ignore[arg-type]
