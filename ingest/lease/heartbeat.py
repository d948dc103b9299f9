"""A lease in a store, which knows no locks: the holder gives a sign of life every few seconds.

No clock is compared with another one. Who wants the lease looks, by his own clock, whether the sign changes while he watches.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from typing import final

from distributary.ingest.interruptible import answer_to, aside
from distributary.ingest.lease.keeper import HOLDER
from distributary.ingest.storage.contract import Files

# A sign of life is a read and a put. Three that fail to come are one dead holder: he is watched for some six seconds, in which
# a session is made.
BEAT_SECONDS, MISSED = 2.0, 3

_log = logging.getLogger(__name__)

# Each sign says of so many who were followed: in the minute for which a put is tried again no more are found dead.
_FOLLOWED = 10

# Whose signs this process gives no more: one of them that was under way may come yet.
_let_go = set[str]()


class _Alive(Exception):
    """Somebody gives signs of life."""


@final
class Heartbeat:
    """A sign of life in a place, given by this process or watched by it."""

    def __init__(self, files: Files, beat_seconds: float = BEAT_SECONDS) -> None:
        self._files, self._beat_seconds = files, beat_seconds
        self._id, self._said = uuid.uuid4().hex, b"{}"
        self._followed = list[str]()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._looked: Future[bytes | None] | None = None

    def look(self) -> None:
        """Begin to watch, aside, for a sign of life: it takes six seconds to find somebody dead."""
        self._looked = self._looked or aside(self._dead_sign)

    def acquire(self, holder: bytes) -> bool:
        """Whether nobody else gives a sign of life, so that this process does from here on."""
        looked, self._looked = self._looked or aside(self._dead_sign), None
        try:
            dead = looked.result()
        except _Alive:
            return False
        # Somebody may have come to life since it was looked at.
        if (sign := self._newest()) not in (dead, None) and not _is_let_go(sign):
            return False
        self._said = holder
        # One that was under way when its process fell asleep may come yet, and is no newer run's.
        self._followed = _followed_by_next(dead)
        self._files.put(HOLDER, self._sign(0))
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()
        return True

    def holder(self) -> bytes:
        """The newest sign of life. Raises FileNotFoundError where there is none."""
        return self._files.read(HOLDER)

    def release(self) -> None:
        """Give no sign any more, and take the last one away, unless somebody else lives by now.

        A store that does not answer is waited for no longer than it takes whoever comes to find it dead: its client asks again for a minute and more.
        """
        self._ended.set()
        _let_go.add(self._id)
        with suppress(OSError, NotInTime):
            answer_to(self._take_away, threading.Event(), MISSED * self._beat_seconds)

    def _take_away(self) -> None:
        if self._thread is not None:
            self._thread.join()
        if _id_of(self._newest()) == self._id:
            self._files.delete([HOLDER])

    def _dead_sign(self) -> bytes | None:
        """The sign that stood still for long enough to be a dead one's, None where there is none. Raises _Alive."""
        seen = self._newest()
        until = time.monotonic() + MISSED * self._beat_seconds
        while seen is not None and time.monotonic() < until:
            time.sleep(self._beat_seconds / MISSED)
            now = self._newest()
            if now not in (seen, None) and not _is_let_go(now):
                raise _Alive
            seen = now
        return seen

    def _beat(self) -> None:
        number, seen, told = 0, time.monotonic(), False
        while not self._ended.wait(self._beat_seconds):
            number += 1
            looked = time.monotonic()
            try:
                if not self._is_mine(gone=looked - seen < MISSED * self._beat_seconds):
                    return
                if not self._ended.is_set():
                    self._files.put(HOLDER, self._sign(number))
            except OSError as error:
                # All else may be granted, and then nothing else tells of it.
                if not told and looked - seen >= MISSED * self._beat_seconds:
                    _log.warning(
                        "no sign of life is given (%s): whoever starts now takes this run for dead and shuts it out",
                        error,
                    )
                    told = True
            else:
                seen, told = looked, False

    def _sign(self, number: int) -> bytes:
        mine = {"id": self._id, "beat": number, "followed": self._followed}
        return json.dumps({**json.loads(self._said), **mine}).encode()

    def _is_mine(self, *, gone: bool) -> bool:
        """Whether the newest sign is this process's, or of one of those who were followed: one that stood still for long may have been given up for dead.

        `gone` is whether that holds where there is none, too: a store may once say so of one that is there, or a user take it away.
        """
        newest = self._newest()
        if newest is None:
            return gone
        return _id_of(newest) in {self._id, *self._followed} or _is_let_go(newest)

    def _newest(self) -> bytes | None:
        try:
            return self._files.read(HOLDER)
        except FileNotFoundError:
            return None


def _id_of(sign: bytes | None) -> str | None:
    """Whose sign it is; None of one that is broken, or where there is none."""
    if sign is None:
        return None
    with suppress(ValueError, TypeError, AttributeError):
        return str(json.loads(sign).get("id"))
    return None


def _followed_by_next(dead: bytes | None) -> list[str]:
    """Whom somebody follows who finds this one dead: that one, and those whom it says that it followed itself."""
    if dead is None or (last := _id_of(dead)) is None:
        return []
    before = json.loads(dead).get("followed")
    return [*map(str, before if isinstance(before, list) else []), last][-_FOLLOWED:]


def _is_let_go(sign: bytes | None) -> bool:
    return _id_of(sign) in _let_go
