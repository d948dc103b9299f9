"""A folder beside the tables that who asks may not read, as where a bucket's policy keeps a prefix for others."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest
from tests.ingest.storage.relay import Relay, no, served
from tests.ingest.storage.stores import Store

from distributary.ingest.batch.sweep import sweep
from distributary.ingest.checkpoint.earlier_runs import earlier_commits
from distributary.ingest.settings.groups import Columns
from distributary.ingest.tables.change import create
from distributary.ingest.tables.known import ENTITY_PROPERTY, TableBook
from distributary.ingest.tables.log import tables_under

A = pa.schema([("a", pa.int64())])


@dataclass
class Refusing(Relay):
    """Refuses requests for what is below a prefix: to list it, to read it, or both."""

    refused: tuple[bytes, ...] = ()

    def _asked(self, request: bytes) -> bytes:
        first = request.partition(b"\r\n")[0]
        if b"others" in first and any(one in first for one in self.refused):
            return no("403 Forbidden")
        return super()._asked(request)


# A listing names the prefix in its query, all else in the path.
LISTING, READING = b"prefix=", b"/others"


@pytest.mark.parametrize("refused", [(LISTING,), (READING,), (LISTING, READING)])
def test_a_folder_that_is_kept_for_others_keeps_nobody_from_the_tables_beside_it(
    s3_store: Store, refused: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """A new checkpoint looks at all that is under the root, and could not begin."""
    direct = s3_store.files()
    for folder, entity in (("t", "golf"), ("others", "quest")):
        create(direct.below(folder), A, {ENTITY_PROPERTY: entity})
    with served(Refusing(s3_store.port, refused=refused)) as relay:
        root = s3_store.files_at(direct.url, relay.port)
        assert TableBook(root, Columns(), None).entities_there() == {"golf": "t"}
        assert "others is passed by, since it may not be read" in caplog.text
        if LISTING in refused:
            assert tables_under(root) == ["t"]
            assert earlier_commits(root) == []
        assert sweep(root, "0" * 32, [range(3)], ()) == []
