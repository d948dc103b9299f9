"""What the pages about clusters show hangs together; what runs on one is in test_standalone.py."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main
import yaml

from distributary.cli import app
from distributary.errors import SetupError
from distributary.ingest.settings.model import load
from distributary.ingest.spark import daemon, ivy

PAGES = Path(__file__).resolve().parents[2] / "docs/how-to/clusters"

MANIFEST = list(yaml.safe_load_all((PAGES / "kubernetes/games.yaml").read_text(encoding="utf-8")))


def names(kind: str) -> set[str]:
    return {one["metadata"]["name"] for one in MANIFEST if one["kind"] == kind}


def the(kind: str) -> dict[str, Any]:
    (found,) = [one for one in MANIFEST if one["kind"] == kind]
    return dict(found)


def test_the_settings_in_the_manifest_can_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_JAAS", "a login")
    (text,) = the("ConfigMap")["data"].values()
    file = tmp_path / "games.yaml"
    file.write_text(text, encoding="utf-8")
    settings = load(file)
    assert {settings.sink.root.kind, settings.checkpoint.kind} == {"s3"}, "no pod's own disk is asked to last"


def test_what_the_manifest_names_is_in_it() -> None:
    spec = the("SparkApplication")["spec"]
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert {one["name"] for one in spec["driver"]["volumeMounts"]} == set(volumes)
    assert {volumes["settings"]["configMap"]["name"]} == names("ConfigMap")
    accounts = {spec["driver"]["serviceAccount"], spec["executor"]["serviceAccount"]}
    assert accounts == names("ServiceAccount")
    binding = the("RoleBinding")
    assert binding["subjects"][0]["name"] == spec["driver"]["serviceAccount"]
    assert {binding["roleRef"]["name"]} == names("Role")
    assert len({one["metadata"]["namespace"] for one in MANIFEST}) == 1


def test_the_manifest_starts_what_the_image_has() -> None:
    spec, dockerfile = (
        the("SparkApplication")["spec"],
        (PAGES / "kubernetes/Dockerfile").read_text(encoding="utf-8"),
    )
    assert spec["mainApplicationFile"].removeprefix("local://") in dockerfile
    assert f"FROM apache/spark:{spec['sparkVersion']}-" in dockerfile
    assert f"'pyspark=={spec['sparkVersion']}'" in dockerfile
    assert spec["image"] in (PAGES / "kubernetes.md").read_text(encoding="utf-8")


def test_the_image_has_what_jars_are_fetched_by_until_they_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark brings it, among the jars that the image drops."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    with monkeypatch.context() as patched:
        patched.setattr(
            ivy, "find_spec", lambda _: SimpleNamespace(origin=str(tmp_path / "pyspark/__init__.py"))
        )
        with pytest.raises(SetupError, match=r"no ivy-\*\.jar"):
            ivy._ivy_jar()
    dockerfile = (PAGES / "kubernetes/Dockerfile").read_text(encoding="utf-8")
    fetched, dropped = dockerfile.index("distributary jars --paths"), dockerfile.index(")/jars")
    assert fetched < dropped


DAEMON = f"spark.python.daemon.module={daemon.__name__}"


def test_workers_are_forked_from_a_process_that_is_ready() -> None:
    conf = the("SparkApplication")["spec"]["sparkConf"]
    assert [f"{name}={value}" for name, value in conf.items()] == [DAEMON]
    for page in sorted(PAGES.glob("*.md")):
        # From the command that submits to what it is told to run.
        found = re.findall(
            r"(?:spark-submit --|add-steps|gcloud dataproc)(.*?)\n *(?:\n|$)",
            page.read_text(encoding="utf-8"),
            re.DOTALL,
        )
        assert all(DAEMON in command for command in found), page.name
        assert bool(found) == (page.stem in {"standalone", "yarn", "emr", "dataproc"}), page.name


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_what_is_submitted_can_be_typed(page: Path) -> None:
    submitted = re.findall(
        r"distributary_cli\.py[ ,](run[ ,].*?)\]?$", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    command = typer.main.get_command(app)
    for words in submitted:
        context = command.make_context(
            "distributary", shlex.split(words.replace(",", " ")), resilient_parsing=True
        )
        assert words.startswith("run") and context is not None


def test_the_index_names_each_page_and_what_was_tried_there() -> None:
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    for page in sorted(PAGES.glob("*.md")):
        if page.name != "README.md":
            assert f"({page.name})" in index
            text = page.read_text(encoding="utf-8").split("\n\n")[1]
            assert text.startswith(("Tried: ", "Only read")), page.name
