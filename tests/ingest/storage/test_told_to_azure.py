"""Who asks Azure where that is left to the environment, by the seam and by delta-rs: both are the same one, or the run is refused."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from deltalake.exceptions import DeltaError

from distributary.errors import ConfigError
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.tables.handle import opened

CONTAINER = Place.parse("abfss://lake@games.dfs.core.windows.net/tables")

IDS = {"AZURE_CLIENT_ID": "client", "AZURE_TENANT_ID": "tenant"}

IDENTITY = {"AZURE_FEDERATED_TOKEN_FILE": "/token"}

SECRET = {"AZURE_CLIENT_SECRET": "planted"}

TOKEN, KEY, SIGNATURE = (
    {"AZURE_STORAGE_TOKEN": "planted"},
    {"AZURE_STORAGE_ACCOUNT_KEY": "cGxhbnRlZA=="},
    {"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=planted"},
)


@pytest.fixture(autouse=True)
def _nobodys_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*IDS, *IDENTITY, *SECRET, *TOKEN, *KEY, *SIGNATURE, "IDENTITY_ENDPOINT", "IDENTITY_HEADER"):
        monkeypatch.delenv(name, raising=False)


@dataclass
class Cloud:
    """All that is asked by way of a proxy: where, and with which token."""

    port: int = 0
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def hosts(self) -> dict[str, set[str | None]]:
        """The tokens that each host was asked with since this was asked last."""
        found: dict[str, set[str | None]] = {}
        for url, token in self.asked:
            found.setdefault(url.split("/")[2], set()).add(token)
        self.asked.clear()
        return found


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """A proxy that answers itself: with a token who asks for one, and that there is no such file to all else."""
    told = Cloud()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.asked.append((self.path, self.headers["Authorization"]))
            is_identity = "/token" in self.path
            token = {"access_token": "of-the-container", "expires_on": str(int(time.time()) + 3600)}
            body = json.dumps(token).encode() if is_identity else b""
            self.send_response(200 if is_identity else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        told.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield told
        server.shutdown()
        thread.join()


def test_tables_are_asked_for_by_the_identity_that_files_are_where_a_container_has_one(
    monkeypatch: pytest.MonkeyPatch, cloud: Cloud
) -> None:
    """As Azure's App Service and Container Apps tell it: delta-rs asked the machine for one, which has another one there, or none."""
    monkeypatch.setenv("IDENTITY_ENDPOINT", "http://identity:9/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "planted")
    given = {
        "azure": {"account": "games", "endpoint": "http://nobody:9/games"},
        "http": {"proxy": f"http://127.0.0.1:{cloud.port}", "retry_seconds": 0},
    }
    files = open_files(Place.parse("az://lake/tables"), StorageOptions.model_validate(given))
    same = {"identity:9": {None}, "nobody:9": {"Bearer of-the-container"}}
    with pytest.raises(FileNotFoundError):
        files.read("one")
    assert cloud.hosts() == same
    with pytest.raises((DeltaError, OSError)):
        opened(files)
    assert cloud.hosts() == same


@pytest.mark.parametrize(
    "named", [{"client_id": "client"}, {"tenant_id": "tenant"}, {"client_id": "c", "tenant_id": "t"}]
)
@pytest.mark.parametrize(
    ("environment", "two"),
    [
        ({**TOKEN, **KEY}, True),
        ({**TOKEN, **SIGNATURE}, True),
        ({**IDS, **TOKEN, **IDENTITY}, True),
        ({**IDS, **TOKEN, **SECRET}, True),
        ({**IDS, **SIGNATURE, **IDENTITY}, False),
        ({**IDS, **SIGNATURE, **SECRET}, False),
        ({**IDS, **SECRET, **IDENTITY}, False),
        ({**IDS, **KEY, **IDENTITY}, False),
        ({**IDS, **IDENTITY}, False),
        (TOKEN, False),
    ],
)  # fmt: skip
def test_who_is_named_without_what_he_asks_by_is_refused_where_tables_would_be_opened_by_something_else(
    monkeypatch: pytest.MonkeyPatch, named: dict[str, str], environment: dict[str, str], two: bool
) -> None:
    """delta-rs looks for what goes with a client or a tenant that it is told before it looks at signatures and tokens, and obstore at tokens first."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    given = StorageOptions.model_validate({"azure": named})
    given.for_obstore(CONTAINER)
    if not two:
        given.for_delta(CONTAINER)
        return
    with pytest.raises(ConfigError, match=r"AZURE_STORAGE_TOKEN.* are two who would ask") as caught:
        given.for_delta(CONTAINER)
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize("where", ["games.dfs.core.usgovcloudapi.net", "onelake.dfs.fabric.microsoft.com"])
def test_an_account_of_another_cloud_is_not_taken_for_the_one_of_its_name_in_the_public_one(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Which may be anybody's, and was asked by whatever keys there are. delta-rs knows no such URL in any case."""
    place = Place.parse(f"abfss://lake@{where}/tables")
    given = StorageOptions.model_validate({"azure": {"sas_token": "sv=1&sig=planted"}})
    for told in (given.for_obstore, given.for_delta):
        with pytest.raises(
            ConfigError, match=r"write az://container/lake, with account and endpoint"
        ) as caught:
            told(place)
        assert "planted" not in str(caught.value)
    # Files that land there are read where its address is said.
    StorageOptions.model_validate({"azure": {"endpoint": f"https://{where}"}}).for_obstore(place)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"https://{where}")
    given.for_obstore(place)
    with pytest.raises(ConfigError, match="in another cloud"):
        given.for_delta(place)
