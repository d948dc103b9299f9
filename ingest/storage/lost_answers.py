"""Put-if-absent where the answer may get lost on its way: what is there then says who was first."""

from __future__ import annotations

from collections.abc import Callable

from distributary.files import NotSafe

_TRIES = 5


def put_or_compare(create: Callable[[], None], read: Callable[[], bytes], data: bytes | memoryview) -> bool:
    """Whether `create` made the file, in this call or in one whose answer was lost.

    It raises an OSError where the file is there already, or seems to be: a store's client may have repeated a call by
    itself, and then finds the file of its own first try. So what is there is read, as `data` is nobody else's. Where
    nothing is there, FileExistsError was a store's word for a race with a delete (S3's 409), and it is tried again.
    """
    tries = 0
    while True:
        try:
            create()
        # What is there may be gone after a loss of power.
        except (PermissionError, NotSafe):
            raise
        except OSError as error:
            found = _found(read)
            if found is not None:
                return found == data
            tries += 1
            if tries == _TRIES or not isinstance(error, FileExistsError):
                raise
        else:
            return True


def _found(read: Callable[[], bytes]) -> bytes | None:
    try:
        return read()
    except FileNotFoundError:
        return None
