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
from dataclasses import dataclass
from pathlib import Path

import certifi
import obstore
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from obstore.exceptions import GenericError
from obstore.store import S3Store
from tests.certificates import self_signed, signed_by
from tests.ingest.storage.relay import Relay, relayed, served
from tests.ingest.storage.stores import Store

from distributary.ingest.storage.answers.errors import NO_KEYS_YET, is_outage

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
# The second time its certificate is another authority's.
TWICE = """
files, rows = open_files(place, options), pa.table({"level": [1, 2]})
for time in range(2):
    files.put(f"{time}", b"content")
    assert [info.name for info in files.list()] == [f"{one}" for one in range(time + 1)]
    write_deltalake(f"{files.url}/table", rows, storage_options=dict(files.options), mode="append")
    assert DeltaTable(f"{files.url}/table", storage_options=dict(files.options)).version() == time
    print("done", flush=True)
    sys.stdin.readline()
"""
# Two stores, each with an authority of its own.
BOTH = """
for options in (options, StorageOptions.model_validate(json.loads(sys.argv[3]))):
    files = open_files(place.parse(f"{place}/{options.http.ca_file.rpartition('/')[2]}"), options)
    files.put("one", b"content")
    write_deltalake(f"{files.url}/table", pa.table({"level": [1]}), storage_options=dict(files.options))
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
def relay(s3_store: Store, ca_file: Path) -> Iterator[Relay]:
    """What ends TLS before the store, with a certificate of an authority that only `ca_file` knows."""
    with relayed(s3_store.port, shown_by(ca_file)) as relay:
        yield relay


def shown_by(ca_file: Path) -> ssl.SSLContext:
    """A certificate of a new authority, which alone is in `ca_file` from here on."""
    authority_key, authority = self_signed("own authority")
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    key, certificate = signed_by(authority_key, authority, "store", address)
    ca_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    shown = ca_file.with_name("store.pem")
    shown.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    behind = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    behind.load_cert_chain(shown)
    return behind


def options_of(relay: Relay, **http: str) -> str:
    """What a store is reached with by its address with TLS."""
    login = {"access_key_id": "anybody", "secret_access_key": "anything"}
    s3 = {"endpoint": f"https://127.0.0.1:{relay.port}", "region": "us-east-1", "login": login}
    return json.dumps({"s3": s3, "http": {**http, "retry_seconds": 0}})


def begun(program: str, store: Store, *options: str, **environment: str) -> subprocess.Popen[str]:
    """A program that is given a place in the store, and what that is reached with."""
    trusting = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + program, f"{store.url}/{uuid.uuid4().hex}", *options],
        env={**trusting, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("program", [SEAM, DELTA_RS], ids=["seam", "delta-rs"])
def test_it_is_reached_by_whoever_is_given_its_authority_and_by_nobody_else(
    s3_store: Store, relay: Relay, ca_file: Path, program: str
) -> None:
    with begun(program, s3_store, options_of(relay, ca_file=str(ca_file))) as trusting:
        _, said = trusting.communicate()
    assert trusting.returncode == 0, said
    assert relay.heads
    relay.heads.clear()
    with begun(program, s3_store, options_of(relay)) as refused:
        refused.communicate()
    assert refused.returncode != 0
    assert not relay.heads, "it told something to whom it does not know"


def test_whoever_uses_it_goes_on_once_its_authority_was_replaced_in_the_file(
    s3_store: Store, relay: Relay, ca_file: Path
) -> None:
    with begun(TWICE, s3_store, options_of(relay, ca_file=str(ca_file))) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "done\n"
        # One of before would let a client in again without being looked at.
        relay.behind = shown_by(ca_file)
        said, error = program.communicate("\n\n")
    assert (program.returncode, said) == (0, "done\n"), error


def test_two_stores_of_one_process_are_reached_by_an_authority_each(
    s3_store: Store, relay: Relay, ca_file: Path, tmp_path: Path
) -> None:
    another = tmp_path / "another" / "another.pem"
    another.parent.mkdir()
    with relayed(s3_store.port, shown_by(another)) as second:
        options = options_of(relay, ca_file=str(ca_file)), options_of(second, ca_file=str(another))
        with begun(BOTH, s3_store, *options) as program:
            _, said = program.communicate()
    assert program.returncode == 0, said


def test_an_authority_is_trusted_beside_those_that_the_environment_names(
    s3_store: Store, relay: Relay, ca_file: Path
) -> None:
    options = options_of(relay, ca_file=str(ca_file))
    with begun(DELTA_RS, s3_store, options, SSL_CERT_FILE=certifi.where()) as program:
        _, said = program.communicate()
    assert program.returncode == 0, said


@dataclass
class TokenService(Relay):
    """AWS's, which takes this token for no keys."""

    code: str = ""

    def _asked(self, request: bytes) -> bytes:
        assert b"AssumeRoleWithWebIdentity" in request
        body = f"<ErrorResponse><Error><Type>Sender</Type><Code>{self.code}</Code><Message>No.</Message></Error></ErrorResponse>"
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return f"{head}{body}".encode()


@pytest.mark.parametrize(
    ("code", "outage"), [*((one, True) for one in NO_KEYS_YET), ("InvalidIdentityToken", False)]
)
def test_a_pods_role_is_waited_for_where_it_is_not_given_for_now(
    tmp_path: Path, ca_file: Path, monkeypatch: pytest.MonkeyPatch, code: str, outage: bool
) -> None:
    """The token service says so with status 400, which is that of what is refused."""
    (tmp_path / "token").write_text("token")
    with served(TokenService(0, behind=shown_by(ca_file), code=code)) as sts:
        told = {
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
            "AWS_ROLE_ARN": "arn:role",
            "AWS_REGION": "us-east-1",
        }
        for name, value in {**told, "AWS_ENDPOINT_URL_STS": f"https://127.0.0.1:{sts.port}"}.items():
            monkeypatch.setenv(name, value)
        store = S3Store("lake", client_options={"root_certificate": ca_file.read_bytes()})
        with pytest.raises(GenericError, match=code) as caught:
            obstore.get(store, "x")
    assert is_outage(caught.value) is outage
