"""A folder that files land in, asked as a run asks it; whole pipelines are in tests/ingest/e2e/test_landed.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ingest.storage.relay import Relay, relayed
from tests.ingest.storage.stores import Store

from distributary.ingest.inputs.from_files import LandingFolder, Waits
from distributary.ingest.landing.numbers import first_offset
from distributary.ingest.settings.source.landing import FilesSource
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.place import Place
from distributary.ingest.storage.posix import PosixFiles


@pytest.fixture
def behind(s3_store: Store) -> Iterator[tuple[Relay, Files]]:
    """A relay, and a place behind it whose client asks but once."""
    with relayed(s3_store.port) as relay:
        options = s3_store.options_by(relay.port)
        once = options.model_copy(update={"http": options.http.model_copy(update={"retry_seconds": 0.0})})
        yield relay, open_files(Place.parse(s3_store.files().url), once)


def landing(folder: Files, root: Files, waits: Waits | None = None, **chosen: str) -> LandingFolder:
    source = FilesSource.model_validate({"path": "/landing", **chosen})
    return LandingFolder(folder, root, source, skips_gone=False, waits=waits)


def test_a_store_that_files_land_in_is_waited_for_and_that_is_told(
    behind: tuple[Relay, Files], tmp_path: Path
) -> None:
    relay, folder = behind
    folder.put("a.json", b"{}")
    told: list[str] = []

    def tell(why: str, seconds: float) -> None:
        told.append(why)
        relay.away = None

    waiting = landing(folder, PosixFiles(tmp_path), Waits(tell))
    relay.away = "503"
    assert waiting.end_offsets() == {"landing": {0: first_offset(1)}}
    assert told[0].startswith(f"{folder.url} does not answer")
    assert not waiting.was_away()
    relay.away = "cut"
    assert waiting.was_away()
    assert list(folder.names("_probe")) == [], "where files land nothing is written"
    relay.away = "503"
    with pytest.raises(ConnectionError):
        landing(folder, PosixFiles(tmp_path)).end_offsets()


@pytest.mark.parametrize("kind", ["folder", "store"])
def test_files_are_archived_once_nothing_may_have_to_be_written_again_from_them(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    root: Files = PosixFiles(tmp_path / "root")
    if kind == "store":
        root = request.getfixturevalue("s3_store").files()
    folder, archive = PosixFiles(tmp_path / "landing"), PosixFiles(tmp_path / "archive")
    source = landing(folder, root)
    source.archives_to(archive)
    for number in range(3):
        folder.put(f"{number}.json", b"%d" % number)
        source.lag({"landing": {0: first_offset(number)}})
        source.batch_end(number, number + 1)
        archived = sorted(info.path for info in archive.walk())
        late = 0 if kind == "store" else 1
        assert archived == [f"{n}.json" for n in range(max(0, number - late))]
    source.batch_end(3, 3)
    assert ("2.json" in {info.path for info in archive.walk()}) == (kind == "store")
