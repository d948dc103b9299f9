"""Commands told to data catalogues, as runs are: `replay`, `quarantine replay`, `reset`, `derive`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from distributary.ingest.derived.refresh import Refreshed
from distributary.ingest.lineage.catalogue import Catalogue, why_of
from distributary.ingest.settings.model import Settings

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Heard:
    """What a command says of itself while it goes on; nobody may listen.

    rows  how many rows it has put into tables, by their folders
    """

    catalogue: Catalogue | None = None
    rows: Mapping[str, int] = field(default_factory=dict)

    def derived(self, done: Sequence[Refreshed]) -> None:
        """Some derived tables were made current, or were tried to be."""
        if self.catalogue is not None:
            self.catalogue.derived(done)


@contextmanager
def told_of(settings: Settings, command: str, read: Sequence[str] = ()) -> Iterator[Heard]:
    """With `lineage` in the settings, tells of a command that it began and how it ended; it reads what is of these kinds in the pipeline's graph.

    Raises ConfigError where the package that tells it is not there. Nothing else of it raises, and its end waits for `timeout_seconds` at most.
    """
    given = settings.lineage
    if given is None:
        yield Heard()
        return
    catalogue = Catalogue.opened(given, settings, lambda: settings.source.topics, command)
    heard = Heard(catalogue)
    catalogue.of_command("START", read)
    try:
        yield heard
    except BaseException as error:
        catalogue.of_command("FAIL", read, why=why_of(error, settings.source.kafka))
        raise
    else:
        catalogue.of_command("COMPLETE", read, heard.rows)
    finally:
        catalogue.sending.close(given.timeout_seconds)
        told = catalogue.sending.told
        if told.lost:
            _log.warning(
                "lineage: %s of this command's events were not told (%s)", f"{told.lost:,}", told.why
            )
