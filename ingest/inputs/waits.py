"""How an outage of a place that a source only reads is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from distributary.ingest.source.contract import Tell
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.probe import was_silent

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Waits:
    """Who is told of outages, and what ends the wait.

    told  who is told; where nobody is, a question does not wait
    stop  ends the wait
    """

    told: Tell | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def tell(self, why: str, seconds: float) -> None:
        """Tell of an outage, and for how long nobody asks again."""
        if self.told is not None:
            self.told(why, seconds)

    def were_silent(self, places: Iterable[Files]) -> bool:
        """Wait until these places answer, up to the first that did not at once; whether there was one. Raises Stopped."""
        return any(was_silent(place, self.tell, self.stop) for place in places)

    def answer(self, ask: Callable[[], T], places: Iterable[Files]) -> T:
        """The answer of one who asks these places, once they give one. Raises what it raises, and Stopped where the run is to end while it waits."""
        places = tuple(places)
        while True:
            try:
                return ask()
            except OSError:
                # Asked once more where one was away; else that is another place's, or over at once, and an error as others are.
                if self.told is None or not self.were_silent(places):
                    raise
