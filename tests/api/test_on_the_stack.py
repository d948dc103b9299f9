"""The examples of the docstrings and the code of docs/how-to/run-from-python.md, run on a real broker and registry."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.api import examples

import distributary
from distributary.errors import PipelineError
from distributary.producer_sim.stack.local import LocalStack

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/run-from-python.md"
EVENTS = 200


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that relative paths are relative to."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def pipeline(here: Path, stack: LocalStack, topic: str) -> Callable[..., Path]:
    """Writes games.yaml for a topic of its own."""

    def write(**groups: Any) -> Path:
        given = {
            "name": "games",
            "source": {"kafka": {"bootstrap.servers": stack.bootstrap_servers}, "topics": [topic]},
            "registry": {"url": stack.registry_url},
            "decode": {"format": "protobuf"},
            "route": {"by": "field", "field": "game_name", "table": "silver_{entity}_events"},
            "sink": {"root": "./lake"},
        }
        file = here / "games.yaml"
        file.write_text(yaml.safe_dump(given | groups), encoding="utf-8")
        return file

    return write


@pytest.fixture
def registry(stack: LocalStack) -> Iterator[distributary.ConfluentRegistry]:
    with distributary.ConfluentRegistry(distributary.RegistryOptions(url=stack.registry_url)) as asked:
        yield asked


def simulation(stack: LocalStack, topic: str, **more: Any) -> distributary.Simulation:
    return distributary.Simulation.of(
        bootstrap_servers=stack.bootstrap_servers, topic=topic, games=2, events=EVENTS, **more
    )


@pytest.mark.usefixtures("spark")
def test_the_examples_of_the_docstrings_are_true(
    stack: LocalStack,
    topic: str,
    pipeline: Callable[..., Path],
    registry: distributary.ConfluentRegistry,
) -> None:
    file, found = pipeline(), examples.found()
    names: dict[str, Any] = {
        "distributary": distributary,
        "Path": Path,
        "registry": registry,
        "simulation": simulation(stack, topic),
    }
    for name in examples.ON_THE_STACK:
        examples.hold(name, found[name], names)
    distributary.simulate(simulation(stack, f"{topic}-json", format="json"))
    inferring = file.read_text(encoding="utf-8").replace("protobuf", "json").replace(topic, f"{topic}-json")
    names["settings"] = distributary.Settings.from_yaml(inferring, file.parent)
    examples.hold("infer", found["infer"], names)


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


# Lighter: test_the_examples_of_the_docstrings_are_true calls the same.
@pytest.mark.heavy
@pytest.mark.usefixtures("spark")
def test_the_code_of_the_page_runs(
    stack: LocalStack,
    topic: str,
    pipeline: Callable[..., Path],
    registry: distributary.ConfluentRegistry,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pipeline()
    distributary.simulate(simulation(stack, topic), registry)
    names: dict[str, Any] = {}
    once, notebook, task, service, proof = blocks()
    execute(once, names)
    assert f"{EVENTS} records in 1 batches" in capsys.readouterr().out
    execute(notebook, names)
    assert names["running"].result().summary.rows == 0
    execute(task, names)
    assert names["ingest_games"]()["rows"] == 0
    execute(service, names)
    assert ended_by_a_signal(names["serve"]).summary.rows == 0
    execute(proof, names)
    assert f"True {EVENTS}" in capsys.readouterr().out


def execute(code: str, names: dict[str, Any]) -> None:
    exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 the page's own code is what is tested


def ended_by_a_signal(serve: Callable[[], distributary.Outcome]) -> distributary.Outcome:
    """What it comes to when the process is told to end once it listens."""
    before = signal.getsignal(signal.SIGTERM)
    told = threading.Thread(target=tell_once_it_listens, args=(before,))
    told.start()
    try:
        return serve()
    finally:
        told.join()
        signal.signal(signal.SIGTERM, before)


def tell_once_it_listens(before: object) -> None:
    waited = threading.Event()
    while signal.getsignal(signal.SIGTERM) is before:
        waited.wait(0.01)
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.usefixtures("spark")
def test_a_task_raises_where_a_new_schema_needs_a_decision(
    stack: LocalStack,
    topic: str,
    pipeline: Callable[..., Path],
    registry: distributary.ConfluentRegistry,
) -> None:
    file = pipeline()
    distributary.simulate(simulation(stack, topic), registry)
    names: dict[str, Any] = {"distributary": distributary}
    execute(blocks()[2], names)
    assert names["ingest_games"](str(file))["rows"] == EVENTS
    distributary.simulate(simulation(stack, topic, changes=["changed"]).only(2), registry)
    with pytest.raises(PipelineError, match="a new schema needs a decision"):
        names["ingest_games"](str(file))


def test_a_schema_is_planned_with_before_it_is_registered(
    stack: LocalStack, topic: str, pipeline: Callable[..., Path], registry: distributary.ConfluentRegistry
) -> None:
    registry.register(f"{topic}-value", 'syntax = "proto3"; message E { string game_name = 1; }', "PROTOBUF")
    settings = distributary.Settings.from_file(pipeline())
    assert not distributary.plan(settings).open
    offer = distributary.Offer('syntax = "proto3"; message E { string other = 1; }')
    plan = distributary.plan(settings, offer)
    assert (plan.open, [one.offered for one in plan.subjects]) == (True, [True])
    assert [verdict.kind for step in plan.steps for verdict in step.verdicts] == ["dropped"]
