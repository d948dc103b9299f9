"""Jars and archives by exact list: fetched once into the user's cache, checked against their sha256."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import platformdirs

from distributary.errors import SetupError
from distributary.files import file_lock, replace
from distributary.ingest.spark.artifact_list import Artifact, ArtifactList, read_artifact_list
from distributary.ingest.spark.ivy import retrieve
from distributary.ingest.spark.versions import installed_spark

CACHE_VARIABLE = "DISTRIBUTARY_CACHE"

# What was checked once is known again by its size and time of change, instead of hashing it each time.
_VERIFIED = "verified.json"

Report = Callable[[str], None]


def to_stderr(line: str) -> None:
    """Say one line of progress where it does not mix with a command's output."""
    print(line, file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """The user's cache of distributary, or the folder that DISTRIBUTARY_CACHE names."""
    own = os.environ.get(CACHE_VARIABLE)
    return Path(own).expanduser().absolute() if own else platformdirs.user_cache_path("distributary")


def spark_jars(report: Report = to_stderr) -> list[Path]:
    """The jars that the installed Spark needs on its class path, fetched if they are not there yet. Raises SetupError."""
    return resolve(read_artifact_list(installed_spark().jar_list), report)


def resolve(wanted: ArtifactList, report: Report = to_stderr) -> list[Path]:
    """The files of a list, in its order, in one folder of their own; fetched if they are not there yet.

    Every file was checked against its sha256 when it came, and is again when its size or time changed.
    Raises SetupError with the remedy: no Java, no network, no disk, a wrong checksum.
    """
    folder = cache_folder() / "artifacts" / f"{wanted.name}-{wanted.fingerprint}"
    try:
        if _unverified(folder, wanted.artifacts):
            with file_lock(folder.with_name(f"{folder.name}.lock")):
                _complete(folder, wanted, report)
    except OSError as error:
        raise SetupError(
            f"cannot use the cache {folder}: {error.strerror or error}; make it writable or set {CACHE_VARIABLE}"
        ) from error
    return [folder / artifact.file_name for artifact in wanted.artifacts]


def _complete(folder: Path, wanted: ArtifactList, report: Report) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Another process may have fetched while this one waited for the lock, or a file was only copied or touched.
    for artifact in _unverified(folder, wanted.artifacts):
        if _sha256(folder / artifact.file_name) == artifact.sha256:
            _remember(folder, artifact)
    missing = _unverified(folder, wanted.artifacts)
    if missing:
        _fetch(folder, wanted.name, missing, report)


def _fetch(folder: Path, name: str, missing: Sequence[Artifact], report: Report) -> None:
    size = sum(artifact.bytes for artifact in missing)
    _check_space(folder, size)
    files = "1 file" if len(missing) == 1 else f"{len(missing)} files"
    report(f"fetching {files}, {size / 1e6:.0f} MB ({name.replace('_', ' ')}), once for this user ...")
    work = folder.with_name(f"{folder.name}.work")
    incoming = work / "incoming"
    shutil.rmtree(incoming, ignore_errors=True)
    retrieve(missing, incoming, work)
    for artifact in missing:
        _admit(incoming / artifact.file_name, folder, artifact)
    shutil.rmtree(work, ignore_errors=True)
    report(f"fetched and checked {files} into {folder}")


def _check_space(folder: Path, size: int) -> None:
    # Ivy's own copy and ours exist side by side for a moment.
    free = shutil.disk_usage(folder).free
    if free < 2 * size:
        raise SetupError(
            f"not enough disk for {2 * size / 1e6:.0f} MB in {folder} ({free / 1e6:.0f} MB free);"
            f" free some space or set {CACHE_VARIABLE} to a folder on another disk"
        )


def _admit(file: Path, folder: Path, artifact: Artifact) -> None:
    found = _sha256(file)
    if found != artifact.sha256:
        shutil.rmtree(file.parent.parent, ignore_errors=True)
        raise SetupError(
            f"{artifact.file_name} has the wrong checksum (sha256 {found}, expected {artifact.sha256}) and was"
            " thrown away; try again, and if it stays wrong, correct the mirror that your Ivy settings name"
        )
    file.replace(folder / artifact.file_name)
    _remember(folder, artifact)


def _sha256(file: Path) -> str:
    if not file.is_file():
        return "missing"
    with file.open("rb") as handle:
        digest = hashlib.sha256()
        while chunk := handle.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _unverified(folder: Path, artifacts: Sequence[Artifact]) -> list[Artifact]:
    verified = _read_verified(folder)
    return [artifact for artifact in artifacts if verified.get(artifact.file_name) != _mark(folder, artifact)]


def _remember(folder: Path, artifact: Artifact) -> None:
    verified = _read_verified(folder) | {artifact.file_name: _mark(folder, artifact)}
    replace(folder / _VERIFIED, json.dumps(verified, indent=1).encode())


def _read_verified(folder: Path) -> dict[str, object]:
    try:
        found = json.loads((folder / _VERIFIED).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _mark(folder: Path, artifact: Artifact) -> list[int | str] | str:
    try:
        state = (folder / artifact.file_name).stat()
    except FileNotFoundError:
        return "missing"
    return [state.st_size, state.st_mtime_ns, artifact.sha256]
