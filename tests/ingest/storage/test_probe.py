"""The question that a store is asked before it is relied on."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ingest.storage.relay import Loss, Relay, relayed
from tests.ingest.storage.stores import Store
from typing_extensions import Buffer

from distributary.errors import SetupError
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.interruptible import Stopped
from distributary.ingest.storage import probe
from distributary.ingest.storage.contract import Files, Info
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.place import Place
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.storage.probe import (
    require_answers,
    require_put_if_absent,
    require_usable,
    sign,
    were_away,
)


class Overwriting(PosixFiles):
    """As old stores are: the condition is not looked at."""

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        self.put(path, data)
        return True


class Refusing(PosixFiles):
    """As stores are that know no conditions and say so."""

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        raise OSError("501 Not Implemented")


class Forgetful(PosixFiles):
    """As stores were whose listings came later."""

    def list(self, folder: str = "", after: str = "") -> Iterator[Info]:
        return iter(())


class ReadOnly(PosixFiles):
    """As a key is that may only read."""

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        raise PermissionError("403 Forbidden")


@pytest.mark.parametrize("below", ["", "lake"])
def test_what_can_be_no_folder_is_told_with_what_to_do(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / below
    with pytest.raises(SetupError, match=f"^{place} cannot be made a folder .*: {tmp_path}/.*; name another"):
        require_usable(PosixFiles(place))
    with pytest.raises(SetupError, match=f"^{place}/changes cannot be made a folder"):
        Checkpoint(PosixFiles(place)).make()


def test_a_disk_that_does_not_answer_for_a_moment_is_not_taken_for_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that opens its pipeline anew, as for a new topic, tries again then; it ended at once."""

    def stale(_: Path) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(tmp_path))

    monkeypatch.setattr(probe, "make_folder", stale)
    with pytest.raises(OSError, match="Stale file handle"):
        require_usable(PosixFiles(tmp_path))


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (Overwriting, "lets a second writer take the place of a first one"),
        (Refusing, "cannot be used .*501 Not Implemented"),
        (Forgetful, "does not list what was just written"),
        (ReadOnly, "to read, write, list and delete .*403 Forbidden"),
    ],
)
def test_a_store_that_cannot_be_relied_on_is_refused_by_name(
    tmp_path: Path, store: type[PosixFiles], said: str
) -> None:
    with pytest.raises(SetupError, match=f"{tmp_path} {said}|{tmp_path} .*{said}"):
        require_put_if_absent(store(tmp_path))


def test_one_that_can_be_is_passed_and_left_as_it_was(tmp_path: Path) -> None:
    files = PosixFiles(tmp_path)
    require_put_if_absent(files)
    assert [*files.list("_probe")] == []


def test_what_those_left_who_were_killed_amid_the_question_goes_a_day_later(tmp_path: Path) -> None:
    files = PosixFiles(tmp_path)
    for name in ("old", "young"):
        files.put(f"_probe/{name}", b"")
    os.utime(tmp_path / "_probe" / "old", (time.time() - 90_000,) * 2)
    require_put_if_absent(files)
    assert [*files.names("_probe")] == ["young"]


def test_nothing_stays_in_one_that_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError):
        require_put_if_absent(Overwriting(tmp_path))
    assert [*PosixFiles(tmp_path).list("_probe")] == []


def test_a_folder_is_made_and_asked_nothing_and_a_store_is_asked(tmp_path: Path) -> None:
    class Far(Overwriting):
        """Behind a network."""

        remote = True

    require_usable(Overwriting(tmp_path / "below" / "lake"))
    assert (tmp_path / "below" / "lake").is_dir()
    with pytest.raises(SetupError, match="lets a second writer"):
        require_usable(Far(tmp_path / "far"))


def test_a_sign_is_there_for_as_long_as_somebody_looks(tmp_path: Path) -> None:
    files = PosixFiles(tmp_path)
    with sign(files) as path:
        assert files.info(path) is not None
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def behind(s3_store: Store) -> Iterator[tuple[Relay, Files]]:
    """A relay, and a place behind it whose client asks but once."""
    with relayed(s3_store.port) as relay:
        options = s3_store.options_by(relay.port)
        once = options.model_copy(update={"http": options.http.model_copy(update={"retry_seconds": 0.0})})
        yield relay, open_files(Place.parse(s3_store.files().url), once)


@pytest.mark.parametrize("how", ["cut", "500", "503", "429"])
def test_a_store_that_does_not_answer_is_waited_for(behind: tuple[Relay, Files], how: Loss) -> None:
    relay, files = behind
    told: list[str] = []

    def tell(reason: str, seconds: float) -> None:
        told.append(reason)
        relay.away = None

    stop = threading.Event()
    assert not were_away([files], tell, stop)
    relay.away = how
    with pytest.raises(ConnectionError):
        files.read("file")
    with pytest.raises(ConnectionError, match=f"{files.url}/file: "), files.writer("file") as file:
        file.write(b"1")
    assert were_away([files], tell, stop)
    assert told[0].startswith(f"{files.url} does not answer ({files.url}/_probe/away: ")
    assert list(files.names("_probe")) == []


def test_a_run_that_is_told_to_end_waits_for_no_store(behind: tuple[Relay, Files]) -> None:
    relay, files = behind
    relay.away = "503"
    stop = threading.Event()
    with pytest.raises(Stopped):
        were_away([files], lambda reason, seconds: stop.set(), stop)


def test_a_store_that_does_not_answer_at_the_start_is_told_and_one_that_refuses_is_left_to_others(
    behind: tuple[Relay, Files], tmp_path: Path
) -> None:
    relay, files = behind
    stop = threading.Event()
    require_answers([files, PosixFiles(tmp_path / "not made")], stop)
    for how in ("403", "400"):
        relay.away = how
        require_answers([files], stop)
    relay.away = "503"
    with pytest.raises(
        SetupError, match=f"^{files.url} cannot be used .*; check the place and `storage`$"
    ) as told:
        require_answers([files], stop)
    # By this one that comes amid a run is waited for.
    assert isinstance(told.value.__cause__, ConnectionError)


def never_told(reason: str, seconds: float) -> None:
    pytest.fail(f"{reason} was told")


def test_a_store_that_refuses_is_no_store_that_is_away(behind: tuple[Relay, Files], tmp_path: Path) -> None:
    relay, files = behind
    for how in ("403", "400"):
        relay.away = how
        assert not were_away([files, PosixFiles(tmp_path)], never_told, threading.Event())
    assert list(tmp_path.iterdir()) == [], "a folder is not asked"
