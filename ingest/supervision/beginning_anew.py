"""Why a query ends for another one to begin, which costs nothing of what is allowed to fail."""

from __future__ import annotations


class BeginsAnew(Exception):
    """The query has ended for another one to begin; it says why."""


CLOCK = BeginsAnew("the machine's clock was set back, so reading begins anew")

COLUMNS = BeginsAnew("what is read has other columns from here on, so reading begins anew")

TOPICS = BeginsAnew("other topics fit source.topics by now, so reading begins anew")
