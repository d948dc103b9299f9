"""A real broker that asks who it speaks to, in each of the ways that Kafka has, and what a client needs to be let in.

One process: its plain listener is for the test's own sending and for topics, each other one for one way to log in.
"""

from __future__ import annotations

import base64
import http.server
import json
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qs

from confluent_kafka.admin import (  # type: ignore[attr-defined] # exported, though not for the checker
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from distributary.ingest.spark.java import find_java
from distributary.producer_sim.stack.kafka_broker import KafkaBroker
from distributary.producer_sim.stack.ports import LOOPBACK

USER = "reader"

# Searched for in all that is written: it must be nowhere.
PLANTED = "planted"

_MODULES = "org.apache.kafka.common.security"

_LISTENERS = ("tls", "mutual", "plain", "scram", "oauth")

_SECURED = """\
listeners=PLAINTEXT://{host}:{main},CONTROLLER://{host}:{controller},{secured}
advertised.listeners=PLAINTEXT://{host}:{main},{secured}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,MUTUAL:SSL,PLAIN:SASL_SSL,SCRAM:SASL_SSL,OAUTH:SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.mutual.ssl.client.auth=required
listener.name.plain.ssl.client.auth=required
listener.name.plain.sasl.enabled.mechanisms=PLAIN
listener.name.plain.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required user_{user}="{password}";
listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.scram.scram-sha-512.sasl.jaas.config={modules}.scram.ScramLoginModule required;
listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.oauth.oauthbearer.sasl.jaas.config={modules}.oauthbearer.OAuthBearerLoginModule required;
listener.name.oauth.oauthbearer.sasl.server.callback.handler.class={modules}.oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.oauth.sasl.oauthbearer.jwks.endpoint.url=file://{folder}/jwks.json
listener.name.oauth.sasl.oauthbearer.expected.audience=kafka
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
"""


@dataclass(frozen=True)
class Secrets:
    """One for each purpose, so that a leak tells which."""

    password: str
    store: str
    client: str

    @classmethod
    def new(cls) -> Secrets:
        """Secrets that nobody had before."""
        return cls(*(f"{PLANTED}-{name}-{uuid.uuid4().hex[:8]}" for name in ("password", "store", "client")))


class SecuredBroker(KafkaBroker):
    """A broker with a listener for each way to log in."""

    port_names = ("main", "controller", *_LISTENERS)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 0)
        self.folder.mkdir(parents=True)
        self.secrets, self.ports = Secrets.new(), dict[str, int]()
        self.authority = Authority(self.folder, self.secrets)
        jwks = f"file://{self.folder}/jwks.json"
        self.java_options = (
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks}",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={self.folder}/jwks.json",
        )

    def _properties(self, ports: Mapping[str, int]) -> str:
        self.ports = dict(ports)
        secured = ",".join(f"{name.upper()}://{LOOPBACK}:{ports[name]}" for name in _LISTENERS)
        return super()._properties(ports) + _SECURED.format(
            host=LOOPBACK,
            folder=self.folder,
            secured=secured,
            modules=_MODULES,
            user=USER,
            password=self.secrets.password,
            **ports,
        )

    def add_users(self) -> None:
        """Make the user whom the broker itself keeps (SCRAM)."""
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = UserScramCredentialUpsertion(USER, credential, self.secrets.password.encode())
        admin = self.admin()
        admin.alter_user_scram_credentials([wanted])[USER].result(30)

    def keep_for_others(self, topic: str) -> None:
        """Let only somebody else read a topic."""
        self._allow(topic, "somebody-else", AclOperation.ALL)

    def let_describe(self, topic: str) -> None:
        """Let the user see that there is such a topic, and no more."""
        self._allow(topic, USER, AclOperation.DESCRIBE)

    def _allow(self, topic: str, user: str, operation: AclOperation) -> None:
        allowed = AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        admin = self.admin()
        (made,) = admin.create_acls([allowed]).values()
        made.result(30)

    def make_topic(self, name: str, partitions: int = 1) -> None:
        """Make an empty topic."""
        admin = self.admin()
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)

    def admin(self) -> AdminClient:
        """A client by the plain listener; its answers come only while somebody holds it."""
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    # What a client is configured with, by the names of Kafka's Java client

    def options(self, listener: str, *stores: str) -> dict[str, str]:
        """How a client logs in to a listener; the stores are "pem", "jks" or "pkcs12", first whom it trusts, then its own."""
        servers = {"bootstrap.servers": f"{LOOPBACK}:{self.ports[listener]}"}
        trust, *key = stores
        return {
            **servers,
            "security.protocol": "SSL" if listener in ("tls", "mutual") else "SASL_SSL",
            **self.authority.truststore(trust),
            **(self.authority.keystore(key[0]) if key else {}),
            **self._login(listener),
        }

    def _login(self, listener: str) -> dict[str, str]:
        known = f'username="{USER}" password="{self.secrets.password}"'
        if listener == "plain":
            return _sasl("PLAIN", f"plain.PlainLoginModule required {known}")
        if listener == "scram":
            return _sasl("SCRAM-SHA-512", f"scram.ScramLoginModule required {known}")
        if listener == "oauth":
            client = f'clientId="{USER}" clientSecret="{self.secrets.client}"'
            handler = f"{_MODULES}.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
            return {
                **_sasl("OAUTHBEARER", f"oauthbearer.OAuthBearerLoginModule required {client}"),
                "sasl.login.callback.handler.class": handler,
            }
        return {}


def _sasl(mechanism: str, jaas: str) -> dict[str, str]:
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{_MODULES}.{jaas};"}


class Authority:
    """Certificates that trust each other, written as PEM, and as Java's key stores where asked for."""

    def __init__(self, folder: Path, secrets: Secrets) -> None:
        self.folder, self._store_password = folder, secrets.store
        self._key = rsa.generate_private_key(65537, 2048)
        self._name = _name("distributary tests")
        certificate = self._signed(self._name, self._key, authority=True)
        self._write("ca.pem", _pem(certificate))
        for who in ("broker", USER):
            self._issue(who)
        self.token_key = rsa.generate_private_key(65537, 2048)
        self._write("jwks.json", json.dumps({"keys": [_jwk(self.token_key)]}).encode())

    def truststore(self, kind: str) -> dict[str, str]:
        """The options that say whom a client trusts."""
        if kind == "pem":
            return {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{self.folder}/ca.pem"}
        path = self.folder / "trust.jks"
        if not path.exists():
            _keytool("-importcert", "-alias", "ca", "-file", f"{self.folder}/ca.pem", *self._into(path))
        return {"ssl.truststore.location": str(path), "ssl.truststore.password": self._store_password}

    def keystore(self, kind: str) -> dict[str, str]:
        """The options that say who a client is."""
        if kind == "pem":
            return {"ssl.keystore.type": "PEM", "ssl.keystore.location": f"{self.folder}/{USER}.pem"}
        own = {"ssl.keystore.password": self._store_password, "ssl.key.password": self._store_password}
        if kind == "pkcs12":
            path = self.folder / f"{USER}.p12"
            return {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(path), **own}
        path = self.folder / "key.jks"
        if not path.exists():
            source = ("-srckeystore", f"{self.folder}/{USER}.p12", "-srcstoretype", "PKCS12")
            password = ("-srcstorepass", self._store_password)
            into = ("-destkeystore", str(path), "-deststoretype", "JKS")
            _keytool("-importkeystore", *source, *password, *into, "-deststorepass", self._store_password)
        return {"ssl.keystore.location": str(path), **own}

    def _into(self, path: Path) -> Sequence[str]:
        return ("-keystore", str(path), "-storetype", "JKS", "-storepass", self._store_password)

    def _issue(self, who: str) -> None:
        key = rsa.generate_private_key(65537, 2048)
        certificate = self._signed(_name(who), key)
        self._write(f"{who}.pem", _private(key) + _pem(certificate))
        encryption = serialization.BestAvailableEncryption(self._store_password.encode())
        store = pkcs12.serialize_key_and_certificates(who.encode(), key, certificate, None, encryption)
        self._write(f"{who}.p12", store)

    def _signed(self, name: x509.Name, key: rsa.RSAPrivateKey, authority: bool = False) -> x509.Certificate:
        now = datetime.now(timezone.utc)
        unsigned = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(authority, None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK))]), critical=False
            )
        )
        return unsigned.sign(self._key, hashes.SHA256())

    def _write(self, name: str, content: bytes) -> None:
        (self.folder / name).write_bytes(content)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _keytool(*arguments: str) -> None:
    command = [str(find_java().path.with_name("keytool")), *arguments, "-noprompt"]
    subprocess.run(command, check=True, capture_output=True)


# Tokens

_KEY_ID = "tests"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _jwk(key: rsa.RSAPrivateKey) -> dict[str, str]:
    public = key.public_key().public_numbers()
    numbers = {"n": _number(public.n), "e": _number(public.e)}
    return {"kty": "RSA", "kid": _KEY_ID, "use": "sig", "alg": "RS256", **numbers}


def _token(key: rsa.RSAPrivateKey) -> str:
    now = int(time.time())
    head = {"alg": "RS256", "kid": _KEY_ID, "typ": "JWT"}
    claims = {"sub": USER, "aud": "kafka", "iss": "tests", "iat": now, "exp": now + 3600, "scope": "kafka"}
    signed = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
    return f"{signed}.{_base64(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


@contextmanager
def token_endpoint(broker: SecuredBroker) -> Iterator[str]:
    """A server of tokens for who knows the client's secret (RFC 6749, section 4.4); its URL."""
    known = base64.b64encode(f"{USER}:{broker.secrets.client}".encode()).decode()

    class Endpoint(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            granted = self.headers["Authorization"] == f"Basic {known}" and asked["grant_type"] == [
                "client_credentials"
            ]
            token = {
                "access_token": _token(broker.authority.token_key),
                "token_type": "Bearer",
                "expires_in": 3600,
            }
            answer = json.dumps(token if granted else {"error": "invalid_client"}).encode()
            self.send_response(200 if granted else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    with http.server.ThreadingHTTPServer((LOOPBACK, 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{server.server_address[1]}/token"
        finally:
            server.shutdown()
            thread.join()
