"""A store behind TLS whose authority is nobody's but its own, reached by `ca_file`, by the seam and by delta-rs."""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from tests.certificates import self_signed, signed_by
from tests.ingest.storage.relay import Relay, relayed
from tests.ingest.storage.stores import Store

# In a process of its own, as a pipeline is: delta-rs reads whom to trust from the environment, and only once.
SEAM = """
files = open_files(place, options)
assert files.put_new("one", b"first") and not files.put_new("one", b"second")
assert (files.read("one"), [info.name for info in files.list()]) == (b"first", ["one"])
"""
DELTA_RS = """
files, rows = open_files(place, options), pa.table({"level": [1, 2]})
url, options = f"{files.url}/table", dict(files.options)
for _ in range(2):
    write_deltalake(url, rows, storage_options=options, mode="append")
table = DeltaTable(url, storage_options=options)
assert table.optimize.compact()["numFilesRemoved"] == 2
assert table.version() == 2
"""
BEGIN = """
import json, sys
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
place, options = Place.parse(sys.argv[1]), StorageOptions.model_validate(json.loads(sys.argv[2]))
"""


@pytest.fixture
def ca_file(tmp_path: Path) -> Path:
    return tmp_path / "ca.pem"


@pytest.fixture
def relay(s3_store: Store, tmp_path: Path, ca_file: Path) -> Iterator[Relay]:
    """What ends TLS before the store, with a certificate of an authority that only `ca_file` knows."""
    authority_key, authority = self_signed("own authority")
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    key, certificate = signed_by(authority_key, authority, "store", address)
    ca_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    shown = tmp_path / "store.pem"
    shown.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    behind = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    behind.load_cert_chain(shown)
    with relayed(s3_store.port, behind) as relay:
        yield relay


def used(program: str, store: Store, relay: Relay, **http: str) -> subprocess.CompletedProcess[str]:
    """What comes of a program that is given a place in the store by its address with TLS."""
    login = {"access_key_id": "anybody", "secret_access_key": "anything"}
    s3 = {"endpoint": f"https://127.0.0.1:{relay.port}", "region": "us-east-1", "login": login}
    options = json.dumps({"s3": s3, "http": {**http, "retry_seconds": 0}})
    trusting = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    return subprocess.run(
        [sys.executable, "-c", BEGIN + program, f"{store.url}/{uuid.uuid4().hex}", options],
        env=trusting,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("program", [SEAM, DELTA_RS], ids=["seam", "delta-rs"])
def test_it_is_reached_by_whoever_is_given_its_authority_and_by_nobody_else(
    s3_store: Store, relay: Relay, ca_file: Path, program: str
) -> None:
    done = used(program, s3_store, relay, ca_file=str(ca_file))
    assert done.returncode == 0, done.stderr
    assert relay.heads
    relay.heads.clear()
    refused = used(program, s3_store, relay)
    assert refused.returncode != 0
    assert not relay.heads, "it told something to whom it does not know"
