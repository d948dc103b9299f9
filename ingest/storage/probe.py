"""Whether a store keeps the one promise that everything rests on, asked once before it is relied on; and whether it is there."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from errno import EACCES, EEXIST, ELOOP, ENAMETOOLONG, ENOTDIR, EPERM, EROFS
from functools import partial
from pathlib import Path

from distributary.errors import SetupError
from distributary.files import make_folder
from distributary.ingest.interruptible import answer_to, until_answered
from distributary.ingest.storage.contract import Files

_FOLDER = "_probe"

# What says that a folder will not come about by itself: all else may be over with the next try.
_NO_FOLDER = (EACCES, EEXIST, ELOOP, ENAMETOOLONG, ENOTDIR, EPERM, EROFS)

# By the store's own clock. What somebody looks for just now is there for minutes.
_LEFT_MILLISECONDS = 86_400_000


def require_usable(files: Files) -> None:
    """A folder is made where it is missing; a store is probed. Raises SetupError as `require_put_if_absent` does."""
    if files.remote:
        require_put_if_absent(files)
    else:
        require_folder(Path(files.url))


def require_folder(path: Path) -> None:
    """Make a folder where it is missing. Raises SetupError where there can be none, and OSError where a disk does not answer, or is full."""
    try:
        make_folder(path)
    except OSError as error:
        if error.errno not in _NO_FOLDER:
            raise
        raise SetupError(
            f"{path} cannot be made a folder ({error.strerror}: {error.filename}); name another place in the settings, or "
            "let the user of this process write there"
        ) from error


def require_answers(places: Iterable[Files], stop: threading.Event) -> None:
    """Each of these places has answered once; asked aside, since nobody who waits for a client's answer sees that he is to stop.

    Raises SetupError for one that does not answer for as long as its client asks, and Stopped once `stop` is set and no answer comes. What else is
    wrong is told by whoever meets it.
    """
    for files in places:
        try:
            answer_to(partial(files.has_files, _FOLDER), stop)
        except ConnectionError as error:
            raise SetupError(_unusable(files, error)) from error
        except OSError:
            continue


def was_silent(files: Files, tell: Callable[[str, float], None], stop: threading.Event) -> bool:
    """Wait until a place that is only read answers; whether it did not at once, of which `tell` is told. Raises Stopped."""
    return _waited_for([(files, _look)], tell, stop)


def were_away(places: Iterable[Files], tell: Callable[[str, float], None], stop: threading.Event) -> bool:
    """Wait until each of these places takes a file; whether one did not at once, of which `tell` is told. Raises Stopped.

    Only for what looks like an outage: who is refused may be refused until somebody mends it.
    """
    return _waited_for([(files, _ask) for files in places], tell, stop)


def _waited_for(
    places: Iterable[tuple[Files, Callable[[Files], None]]],
    tell: Callable[[str, float], None],
    stop: threading.Event,
) -> bool:
    told: list[str] = []

    def note(reason: str, seconds: float) -> None:
        told.append(reason)
        tell(reason, seconds)

    for files, ask in places:
        if files.remote:
            until_answered(partial(answer_to, partial(ask, files), stop), ConnectionError, note, stop)
    return bool(told)


def _look(files: Files) -> None:
    try:
        files.has_files()
    except ConnectionError as error:
        raise ConnectionError(f"{files.url} does not answer ({error})") from None
    except OSError:
        return


def _ask(files: Files) -> None:
    # Always the same one: where the answer to its delete is lost, the next time takes it away.
    path = f"{_FOLDER}/away"
    try:
        files.put(path, b"distributary looks whether this store takes files again\n")
        files.delete([path])
    except ConnectionError as error:
        raise ConnectionError(f"{files.url} does not answer ({error})") from None
    except OSError:
        return


@contextmanager
def sign(files: Files) -> Iterator[str]:
    """The path of a file that is here during the block: who is to write here from another machine has to see it."""
    path = f"{_FOLDER}/{uuid.uuid4().hex}"
    files.put(path, b"distributary looks here for what the driver has written\n", named_later=True)
    try:
        yield path
    finally:
        files.delete([path])
        files.remove_folder(_FOLDER)


def require_put_if_absent(files: Files) -> None:
    """Raises SetupError for a store that lets a second writer of one name pass, or lacks a right that is needed.

    Six requests. It cannot tell a store that keeps the promise only as long as nobody else asks at the same time.
    """
    path = f"{_FOLDER}/{uuid.uuid4().hex}"
    try:
        _try(files, path)
        files.delete([path])
    except PermissionError as error:
        raise SetupError(
            f"{files.url} may not be used as it has to be: to read, write, list and delete ({error}); grant that, or check "
            "the keys in `storage`"
        ) from error
    except OSError as error:
        raise SetupError(_unusable(files, error)) from error


def _unusable(files: Files, error: OSError) -> str:
    return f"{files.url} cannot be used ({error}); check the place and `storage`"


def _try(files: Files, path: str) -> None:
    one, other = (f"{who} {uuid.uuid4().hex}".encode() for who in ("first", "second"))
    if not files.put_new(path, one) or files.put_new(path, other) or files.read(path) != one:
        files.delete([path])
        raise SetupError(
            f"{files.url} lets a second writer take the place of a first one: it ignores conditions on writing "
            "(`If-None-Match`), without which two runs could spoil each other's tables; use a store that knows them"
        )
    there = {info.path: info.modified for info in files.list(_FOLDER)}
    if path not in there:
        raise SetupError(f"{files.url} does not list what was just written; use a store that does")
    # Of those who were killed amid this.
    files.delete([left for left, at in there.items() if at < there[path] - _LEFT_MILLISECONDS])
