"""What records of a source will be made of, as far as the source itself says that: looked up without a session, and without writing anything."""

from __future__ import annotations

from collections.abc import Sequence

from distributary.codecs.containers.base import Merging, Naming, load_container
from distributary.ingest.inputs.delta.channels import Tables
from distributary.ingest.inputs.from_files import LOOKED_INTO, REGISTERS
from distributary.ingest.landing.reading import Landing, schema_if_readable
from distributary.ingest.landing.wanted import newest
from distributary.ingest.landing.written_with import WrittenWith
from distributary.ingest.settings.model import Settings
from distributary.ingest.settings.source.landing import FilesSource
from distributary.ingest.storage.opening import open_files


def schemas_there(settings: Settings) -> WrittenWith | None:
    """The schemas that records of the source name and bring with them, as far as they are there now; None where a registry has them, or nobody."""
    chosen = settings.source.files
    if chosen is None or not isinstance(load_container(chosen.format), Naming):
        return None
    landing = _landing(settings, chosen)
    return WrittenWith(landing.register, f"{chosen.topic}-value", _newest_schemas(landing, chosen))


def columns_there(settings: Settings) -> str | None:
    """The columns that the source's records bring now, as a StructType's JSON; None where only the records tell, or nothing is there.

    Of files the newest ones are looked into. Raises SetupError for a table that is not there, ConfigError for one that cannot be read.
    """
    if settings.source.delta is not None:
        tables = Tables(settings.source.delta, settings.storage)
        tables.topic_ids()
        return tables.columns()
    chosen = settings.source.files
    container = None if chosen is None else load_container(chosen.format)
    if chosen is None or not isinstance(container, Merging):
        return None
    found = _newest_schemas(_landing(settings, chosen), chosen)
    return container.merged(found) if found else None


def _landing(settings: Settings, chosen: FilesSource) -> Landing:
    root = open_files(settings.sink.root, settings.storage)
    folder = open_files(chosen.path, settings.storage)
    return Landing(folder, chosen.topic, chosen.format, root.below(f"{REGISTERS}/{chosen.topic}"))


def _newest_schemas(landing: Landing, chosen: FilesSource) -> Sequence[str]:
    """Those of the newest files, each once."""
    found = (schema_if_readable(landing, one) for one in newest(landing.folder, chosen, LOOKED_INTO))
    return tuple(dict.fromkeys(one for one in found if one is not None))
