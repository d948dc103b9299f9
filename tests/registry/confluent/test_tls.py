"""TLS with an authority of our own: trusted, not trusted, and with a certificate asked of the client."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from tests.certificates import self_signed

from distributary.errors import ConfigError, RegistryUnavailable
from distributary.registry.confluent.registry import ConfluentRegistry

if TYPE_CHECKING:
    from tests.registry.conftest import AnswerServer, Connect

    ServeTls = Callable[[ssl.SSLContext], AnswerServer]

PASSWORD = "key-password"  # noqa: S105
ID = "/schemas/ids/7"


@dataclass(frozen=True)
class Files:
    certificate: str
    key: str
    locked_key: str


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A certificate for 127.0.0.1 that signs itself, its key, and the key under a password."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = self_signed("127.0.0.1", x509.IPAddress(ip_address("127.0.0.1")))

    def kept(file_name: str, content: bytes) -> str:
        path: Path = folder / file_name
        path.write_bytes(content)
        return str(path)

    def pem(protection: serialization.KeySerializationEncryption) -> bytes:
        form = serialization.PrivateFormat.PKCS8
        return key.private_bytes(serialization.Encoding.PEM, form, protection)

    return Files(
        kept("certificate.pem", certificate.public_bytes(serialization.Encoding.PEM)),
        kept("key.pem", pem(serialization.NoEncryption())),
        kept("locked.pem", pem(serialization.BestAvailableEncryption(PASSWORD.encode()))),
    )


@pytest.fixture
def serve(serve_tls: ServeTls, files: Files) -> Callable[[bool], AnswerServer]:
    """Starts a registry behind TLS that asks its clients for a certificate, or does not."""

    def start(asks: bool) -> AnswerServer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        if asks:
            context.load_verify_locations(files.certificate)
            context.verify_mode = ssl.CERT_REQUIRED
        server = serve_tls(context)
        server.on(ID, server.json({"schema": '"int"'}))
        return server

    return start


def test_a_registry_of_a_given_authority_is_trusted(
    serve: Callable[[bool], AnswerServer], connect: Connect, files: Files
) -> None:
    assert connect(serve(False).url, ca_file=files.certificate).by_ref(7).id == 7


def test_a_registry_of_an_unknown_authority_is_a_matter_of_settings_at_once(
    serve: Callable[[bool], AnswerServer], connect: Connect
) -> None:
    with pytest.raises(ConfigError, match=r"registry\.ca_file"):
        connect(serve(False).url, retry_seconds=60).by_ref(7)


def _hang_up(registry: ConfluentRegistry) -> None:
    """Have the next question greet the server anew."""
    for one in registry.connection._client._rest_client.session._transport._pool.connections:
        one.close()


def test_a_registry_that_was_trusted_and_is_not_any_more_is_waited_for(
    serve_tls: ServeTls, connect: Connect, files: Files, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server = serve_tls(context)
    server.on(ID, server.json({"schema": '"int"'}))
    server.on("/schemas/ids/8", server.json({"schema": '"long"'}))
    registry = connect(server.url, ca_file=files.certificate)
    assert registry.by_ref(7).id == 7
    key, certificate = self_signed("127.0.0.1", x509.IPAddress(ip_address("127.0.0.1")))
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "other.pem").write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, *form)
    )
    context.load_cert_chain(tmp_path / "other.pem")
    _hang_up(registry)
    with pytest.raises(RegistryUnavailable, match=r"certificate is not trusted.*registry\.ca_file"):
        registry.by_ref(8)
    context.load_cert_chain(files.certificate, files.key)
    assert registry.by_ref(8).id == 8


def test_a_registry_of_another_authority_is_trusted_once_that_took_the_place_of_the_one_before_in_its_file(
    serve_tls: ServeTls, connect: Connect, files: Files, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server = serve_tls(context)
    for number in (7, 8, 9):
        server.on(f"/schemas/ids/{number}", server.json({"schema": '"int"'}))
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(Path(files.certificate).read_bytes())
    registry = connect(server.url, ca_file=str(ca_file))
    assert registry.by_ref(7).id == 7
    key, certificate = self_signed("127.0.0.1", x509.IPAddress(ip_address("127.0.0.1")))
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    own = certificate.public_bytes(serialization.Encoding.PEM)
    (tmp_path / "other.pem").write_bytes(own + key.private_bytes(serialization.Encoding.PEM, *form))
    context.load_cert_chain(tmp_path / "other.pem")
    # As it is for a moment while somebody writes it.
    ca_file.write_bytes(b"")
    _hang_up(registry)
    with pytest.raises(RegistryUnavailable):
        registry.by_ref(8)
    ca_file.write_bytes(own)
    assert registry.by_ref(8).id == 8
    assert registry.by_ref(9).id == 9


@pytest.mark.parametrize("locked", [False, True])
def test_a_registry_that_asks_for_a_certificate_gets_it(
    serve: Callable[[bool], AnswerServer], connect: Connect, files: Files, locked: bool
) -> None:
    registry = connect(
        serve(True).url,
        ca_file=files.certificate,
        certificate_file=files.certificate,
        key_file=files.locked_key if locked else files.key,
        key_password=PASSWORD if locked else None,
    )
    assert registry.by_ref(7).id == 7


def test_a_registry_that_asks_for_a_certificate_and_gets_none_does_not_answer(
    serve: Callable[[bool], AnswerServer], connect: Connect, files: Files
) -> None:
    with pytest.raises(RegistryUnavailable):
        connect(serve(True).url, ca_file=files.certificate).by_ref(7)


@pytest.mark.parametrize("password", [None, "wrong-password"])
def test_a_locked_key_without_its_password_is_refused_and_nobody_is_asked_for_it(
    connect: Connect, files: Files, password: str | None
) -> None:
    with pytest.raises(ConfigError, match="key_password") as caught:
        connect(
            "https://127.0.0.1:1",
            certificate_file=files.certificate,
            key_file=files.locked_key,
            key_password=password,
        )
    assert "wrong-password" not in str(caught.value)


def test_a_file_that_is_no_certificate_is_refused(connect: Connect) -> None:
    with pytest.raises(ConfigError, match="ca_file"):
        connect("https://127.0.0.1:1", ca_file=__file__)
