from __future__ import annotations

from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

from distributary.errors import SetupError
from distributary.packing.distributions import files_of, needed


def made(folder: Path, direct_url: str = "", **files: str) -> Distribution:
    """An installed distribution of these files."""
    metadata = folder / "made-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: made\nVersion: 1.0\n")
    if direct_url:
        (metadata / "direct_url.json").write_text(direct_url)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    named = [f"{name}.py,," for name in files]
    (metadata / "RECORD").write_text("\n".join(["../../bin/made,,", "made-1.0.dist-info/METADATA,,", *named]))
    return Distribution.at(metadata)


def test_an_environment_is_all_that_is_needed_but_what_spark_brings_and_what_developers_use() -> None:
    names = {one.name.lower().replace("_", "-") for one in needed()}
    assert {"distributary", "pyarrow", "numpy", "deltalake", "ptars", "obstore", "delta-spark"} <= names
    assert "attrs" in names, "what confluent-kafka's extra needs"
    assert not names & {"pyspark", "py4j", "pytest", "ruff", "mypy"}


def test_extras_that_are_installed_are_taken_along() -> None:
    names = {one.name for one in needed()}
    assert {"hdfs-native", "jsonschema"} <= names, "the tools for developers have both installed"


def test_a_package_that_is_named_is_taken_along_with_what_it_needs() -> None:
    more = {one.name for one in needed(["pytest"])} - {one.name for one in needed()}
    assert {"pytest", "pluggy"} <= more


def test_a_package_that_is_not_there_is_told() -> None:
    with pytest.raises(SetupError, match="no-such-package is not installed here"):
        needed(["no-such-package"])


def test_programs_stay_behind_since_they_hold_the_path_of_their_interpreter(tmp_path: Path) -> None:
    found = dict(files_of(made(tmp_path, module="x = 1")))
    assert set(found) == {"made-1.0.dist-info/METADATA", "module.py"}
    assert found["module.py"] == tmp_path / "module.py"


def test_a_package_of_which_no_copy_can_be_taken_is_refused(tmp_path: Path) -> None:
    editable = made(tmp_path, '{"url": "file:///somewhere", "dir_info": {"editable": true}}')
    with pytest.raises(SetupError, match=r"made is installed as an editable package.*pip install \."):
        list(files_of(editable))


def test_our_own_files_are_taken_through_the_links_of_a_checkout_and_tell_of_no_folder() -> None:
    found = dict(files_of(distribution("distributary")))
    assert {
        "distributary/ingest/spark/daemon.py",
        "distributary/cli.py",
        "distributary/codecs/base.py",
    } <= set(found)
    assert "distributary/ingest/spark/spark_log4j2.xml" in found
    assert not [name for name in found if name.endswith("direct_url.json") or "__pycache__" in name]
    assert all(file.is_file() for file in found.values())
