"""Events on their way to a file or an address, on a thread of their own: whoever tells them never waits, and what nobody takes is counted."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from distributary.errors import ConfigError
from distributary.ingest.settings.lineage.given import Lineage

# What comes meanwhile is let go: a run tells a few in a minute.
_MOST_WAITING = 100


class Transport(Protocol):
    """What takes events; those of OpenLineage's client are such."""

    def emit(self, event: Any) -> Any:
        """Take one. It may raise, and may take long."""
        ...


def transport_of(given: Lineage) -> Transport:
    """The client's transport that the settings mean. Raises ConfigError where the client is not there."""
    try:
        # The client that puts them together would read files and variables beside the settings, and tell of the folder's git.
        from openlineage.client.transport.file import FileConfig, FileTransport  # noqa: PLC0415 an extra
        from openlineage.client.transport.http import HttpConfig, HttpTransport  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "lineage: events are told by the package `openlineage-python`; install distributary[lineage], or take it out of the settings"
        ) from error
    if given.file is not None:
        return FileTransport(FileConfig(log_file_path=given.file, append=True))
    options: dict[str, Any] = {
        "url": given.url,
        "endpoint": f"{given.url}/{given.endpoint.lstrip('/')}",
        "timeout": given.timeout_seconds,
        # What is not taken is told again by the next one, which has all that this one has.
        "retry": {"total": 0, "connect": 0, "read": 0},
    }
    if given.token is not None:
        options["auth"] = {"type": "api_key", "apiKey": given.token}
    return HttpTransport(HttpConfig.from_dict(options))


@dataclass(slots=True)
class Told:
    """How many events were taken, how many were not, and why the first of those was not."""

    taken: int = 0
    lost: int = 0
    why: str = ""


class Sending:
    """Hands events to a transport, one behind the other."""

    def __init__(self, transport: Transport, folder: Path | None = None) -> None:
        """`folder` is one that is made where it is not there."""
        self.told = Told()
        self._transport, self._folder = transport, folder
        self._waiting: queue.Queue[Callable[[], Iterable[Any]] | None] = queue.Queue(_MOST_WAITING)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="lineage", daemon=True)
        self._thread.start()

    def send(self, made: Callable[[], Iterable[Any]]) -> None:
        """Have the events that `made` answers with sent when it is their turn; it is called on the other thread."""
        try:
            self._waiting.put_nowait(made)
        except queue.Full:
            self._lose("the ones before it are not taken yet")

    def close(self, seconds: float) -> None:
        """Wait for so long for what is on its way; what is not taken then is lost."""
        try:
            self._waiting.put(None, timeout=seconds)
            self._thread.join(seconds)
        except queue.Full:
            pass
        if self._thread.is_alive():
            # The thread is given up: it ends with the process.
            left = sum(one is not None for one in list(self._waiting.queue))
            for _ in range(left + 1):
                self._lose(f"no answer within {seconds:g} s")

    def _run(self) -> None:
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                self._lose(_said(error))
        while (made := self._waiting.get()) is not None:
            try:
                for event in made():
                    self._transport.emit(event)
                    with self._lock:
                        self.told.taken += 1
            except Exception as error:  # noqa: BLE001 whatever it is, the run goes on without
                self._lose(_said(error))

    def _lose(self, why: str) -> None:
        with self._lock:
            self.told.lost += 1
            self.told.why = self.told.why or why


def _said(error: BaseException) -> str:
    """An error's class, or what an address answered: its words may quote what was sent."""
    answer = getattr(getattr(error, "response", None), "status_code", None)
    cause = error.__cause__ or error
    return f"HTTP {answer}" if answer else type(cause).__name__
