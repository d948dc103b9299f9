from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from distributary.errors import SetupError
from distributary.files import file_lock
from distributary.ingest.spark.artifact_list import Artifact, ArtifactList, read_artifact_list
from distributary.ingest.spark.artifacts import cache_folder, resolve, spark_jars

ROOT = Path(__file__).resolve().parents[3]
LISTS = sorted([*(ROOT / "ingest").rglob("*.lock"), *(ROOT / "producer_sim").rglob("*.lock")])

# A mirror as a user would name it, but on disk: real Ivy, no network.
MIRROR = """\
<ivysettings>
  <settings defaultResolver="mirror"/>
  <resolvers>
    <filesystem name="mirror" checkmodified="true">
      <artifact pattern="{folder}/[organisation]/[artifact]-[revision](-[classifier]).[ext]"/>
    </filesystem>
  </resolvers>
</ivysettings>
"""

Publish = Callable[..., Artifact]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DISTRIBUTARY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Puts a file into the mirror and returns its line of a list."""
    settings = tmp_path / "mirror.xml"
    settings.write_text(MIRROR.format(folder=tmp_path / "mirror"), encoding="utf-8")
    monkeypatch.setenv("DISTRIBUTARY_IVY_SETTINGS", str(settings))

    def put(name: str, content: bytes, classifier: str = "", extension: str = "jar") -> Artifact:
        digest = hashlib.sha256(content).hexdigest()
        artifact = Artifact("org.example", name, "1.0", classifier, extension, digest, len(content))
        file = tmp_path / "mirror" / artifact.org / artifact.file_name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return artifact

    return put


def no_ivy(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, whoever starts Ivy fails."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_shipped_lists_are_exact(path: Path) -> None:
    found = read_artifact_list(path)
    assert found.artifacts
    assert len({artifact.file_name for artifact in found.artifacts}) == len(found.artifacts)
    for artifact in found.artifacts:
        assert int(artifact.sha256, 16) > 0
        assert artifact.bytes > 1000
    assert "://" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("line", ["a:b:1", "a:b 0 1", f"a:b:1:c {'0' * 64} 1", f"a:b:1 {'0' * 64} many"])
def test_a_damaged_list_names_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "bad.lock").write_text(f"# heading\n{line}\n", encoding="utf-8")
    with pytest.raises(SetupError, match=r"bad\.lock:2: not a line"):
        read_artifact_list(tmp_path / "bad.lock")


def test_files_come_from_the_users_own_settings_and_are_announced(publish: Publish) -> None:
    wanted = ArtifactList("test_files", (publish("one", b"1"), publish("two", b"22", "all", "tar.gz")))
    lines: list[str] = []
    paths = resolve(wanted, lines.append)
    assert [path.name for path in paths] == ["one-1.0.jar", "two-1.0-all.tar.gz"]
    assert [path.read_bytes() for path in paths] == [b"1", b"22"]
    assert lines[0].startswith("fetching 2 files, 0 MB (test files)")
    assert not list(cache_folder().rglob("*.work")), "Ivy's own copies are gone"


def test_what_is_there_needs_neither_ivy_nor_words(publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ArtifactList("files", (publish("one", b"1"),))
    first = resolve(wanted)
    no_ivy(monkeypatch)
    lines: list[str] = []
    assert resolve(wanted, lines.append) == first
    assert lines == []


def test_a_touched_file_is_checked_again_but_not_fetched(
    publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ArtifactList("files", (publish("one", b"1"),))
    [path] = resolve(wanted)
    os.utime(path, (1, 1))
    no_ivy(monkeypatch)
    assert resolve(wanted) == [path]


@pytest.mark.parametrize("harm", [lambda path: path.write_bytes(b"2"), lambda path: path.unlink()])
def test_a_damaged_file_is_fetched_again(publish: Publish, harm: Callable[[Path], object]) -> None:
    wanted = ArtifactList("files", (publish("one", b"1"), publish("two", b"2")))
    path, _ = resolve(wanted)
    harm(path)
    lines: list[str] = []
    assert resolve(wanted, lines.append)[0].read_bytes() == b"1"
    assert lines[0].startswith("fetching 1 file,")


def test_a_list_whose_name_has_a_version_has_a_folder_and_a_lock_of_its_own(publish: Publish) -> None:
    [path] = resolve(ArtifactList("jars_4.0", (publish("one", b"1"),)))
    assert path.parent.name.startswith("jars_4.0-")
    assert path.parent.with_name(f"{path.parent.name}.lock").exists()


def test_a_list_of_another_release_has_another_folder(publish: Publish) -> None:
    one, two = publish("one", b"1"), publish("two", b"2")
    [old] = resolve(ArtifactList("files", (one,)))
    new = resolve(ArtifactList("files", (one, two)))
    assert old.is_file()
    assert old.parent not in {path.parent for path in new}


def test_a_wrong_checksum_is_refused_and_leaves_nothing(publish: Publish, tmp_path: Path) -> None:
    artifact = publish("one", b"1")
    (tmp_path / "mirror" / "org.example" / "one-1.0.jar").write_bytes(b"x")
    with pytest.raises(SetupError, match=r"one-1\.0\.jar has the wrong checksum .* mirror"):
        resolve(ArtifactList("files", (artifact,)))
    assert not list(cache_folder().rglob("one-1.0*"))


def test_a_file_that_cannot_be_had_is_named_with_the_log(publish: Publish) -> None:
    there = publish("one", b"1")
    missing = Artifact("org.example", "nowhere", "2", "", "jar", "0" * 64, 1)
    with pytest.raises(SetupError, match=r"DISTRIBUTARY_IVY_SETTINGS \(log: (.*)\)") as caught:
        resolve(ArtifactList("files", (there, missing)))
    assert "nowhere-2.jar" in str(caught.value)
    log = Path(str(caught.value).split("log: ")[1].rstrip(")"))
    assert "nowhere" in log.read_text(encoding="utf-8")


def test_no_network_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing listens on port 1: as with no network at all, every connection fails.
    options = [f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=1" for scheme in ("http", "https")]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join(options))
    monkeypatch.delenv("DISTRIBUTARY_IVY_SETTINGS", raising=False)
    with pytest.raises(SetupError, match="no network: cannot fetch delta-spark") as caught:
        spark_jars()
    assert "\n" not in str(caught.value)


def test_no_disk_is_said_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    no_ivy(monkeypatch)
    huge = Artifact("org.example", "huge", "1", "", "jar", "0" * 64, 10**18)
    with pytest.raises(SetupError, match=r"not enough disk .* DISTRIBUTARY_CACHE"):
        resolve(ArtifactList("files", (huge,)))


def test_no_java_is_said_when_something_must_be_fetched(
    publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = publish("one", b"1")
    no_ivy(monkeypatch)
    with pytest.raises(SetupError, match="JAVA_HOME is /nowhere"):
        resolve(ArtifactList("files", (artifact,)))


def test_a_cache_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DISTRIBUTARY_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(SetupError, match=r"cannot use the cache .* set DISTRIBUTARY_CACHE"):
        spark_jars()


def test_settings_that_are_not_there_are_named(publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = publish("one", b"1")
    monkeypatch.setenv("DISTRIBUTARY_IVY_SETTINGS", "/nowhere/settings.xml")
    with pytest.raises(SetupError, match=r"DISTRIBUTARY_IVY_SETTINGS names /nowhere/settings\.xml"):
        resolve(ArtifactList("files", (artifact,)))


RESOLVE = """\
import sys
from distributary.ingest.spark.artifact_list import Artifact, ArtifactList
from distributary.ingest.spark.artifacts import resolve
[path] = resolve(ArtifactList("files", (Artifact("org.example", "one", "1.0", "", "jar", sys.argv[1], 1),)))
print(path.read_bytes() == b"1")
"""


def test_two_processes_fetch_once(publish: Publish, cache: Path) -> None:
    artifact = publish("one", b"1")
    command = [sys.executable, "-c", RESOLVE, artifact.sha256]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    lock = cache / "artifacts" / f"files-{ArtifactList('files', (artifact,)).fingerprint}.lock"
    with file_lock(lock):
        both = [
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
    answers = [process.communicate(timeout=120) for process in both]
    assert [out for out, _ in answers] == ["True\n", "True\n"]
    assert sum("fetching" in err for _, err in answers) == 1
