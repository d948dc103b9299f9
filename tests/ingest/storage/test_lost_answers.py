"""Who was first, told from what is there, where a store's answer is lost or means something else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.ingest.storage.relay import Loss
from tests.ingest.storage.stores import Store

from distributary.ingest.storage.lost_answers import put_or_compare


class Told:
    """A store of one name that does what it is told to, one step a call."""

    def __init__(self, *steps: Callable[[Told], None], there: bytes | None = None) -> None:
        self.steps, self.there = list(steps), there

    def create(self) -> None:
        self.steps.pop(0)(self)

    def read(self) -> bytes:
        if self.there is None:
            raise FileNotFoundError
        return self.there

    def put(self, data: bytes) -> bool:
        return put_or_compare(self.create, self.read, data)


def does(content: bytes | None, error: OSError | None = None) -> Callable[[Told], None]:
    def step(store: Told) -> None:
        store.there = content
        if error is not None:
            raise error

    return step


TAKEN = FileExistsError("taken")


def test_what_was_done_and_told_is_done() -> None:
    assert Told(does(b"mine")).put(b"mine")


@pytest.mark.parametrize("error", [TAKEN, ConnectionResetError(), TimeoutError(), OSError("500")])
def test_what_was_done_and_not_told_is_done(error: OSError) -> None:
    assert Told(does(b"mine", error)).put(b"mine")


@pytest.mark.parametrize("error", [TAKEN, ConnectionResetError(), OSError("500")])
def test_another_s_file_is_a_rival_s(error: OSError) -> None:
    assert not Told(does(b"another's", error)).put(b"mine")


def test_taken_by_nobody_is_tried_again() -> None:
    assert Told(does(None, TAKEN), does(None, TAKEN), does(b"mine")).put(b"mine")


def test_taken_by_nobody_is_not_tried_for_ever() -> None:
    with pytest.raises(FileExistsError, match="taken"):
        Told(*[does(None, TAKEN)] * 5).put(b"mine")


def test_what_was_not_done_is_told_as_the_store_told_it() -> None:
    with pytest.raises(OSError, match="No space left"):
        Told(does(None, OSError(28, "No space left on device"))).put(b"mine")


def test_who_may_not_write_is_told_so_whatever_is_there() -> None:
    with pytest.raises(PermissionError):
        Told(does(b"mine", PermissionError())).put(b"mine")


@pytest.mark.parametrize("how", ["cut", "500", "503"])
def test_a_large_file_is_there_though_the_answer_to_its_end_is_lost(store: Store, how: Loss) -> None:
    """Asked again for its end, S3 knows of no such upload any more."""
    if not store.port:
        pytest.skip("its answers are not HTTP's")
    content = b"0123456789abcdef" * 2**20
    end = b"comp=blocklist" if store.url.startswith("az:") else b"?uploadId="
    with store.relayed() as (relay, files):
        relay.lose(how, of=end)
        with files.writer("streamed") as file:
            file.write(content)
        assert not relay.losses
        relay.lose(how, of=end)
        files.put("put", content[:-1])
        assert not relay.losses
        assert files.read("streamed") == content
        assert files.read("put") == content[:-1]
