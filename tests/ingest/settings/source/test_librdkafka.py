"""Java's names of connection options in librdkafka's spelling."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import ConfigError
from distributary.ingest.settings.source.librdkafka import is_known, librdkafka_options

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="s3cret";'
SCRAM = PLAIN.replace("plain.Plain", "scram.Scram")
OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required\n"
    " clientId='me' clientSecret=s3cret scope=\"a b\" ;"
)
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def test_tuning_is_left_to_spark() -> None:
    kafka = {**SERVERS, "fetch.max.bytes": "1", "isolation.level": "read_committed", "max.poll.records": "5"}
    assert librdkafka_options(kafka) == SERVERS


def test_a_user_and_password() -> None:
    kafka = {**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
    expected = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    assert librdkafka_options(kafka) == {**SERVERS, **expected, "sasl.password": "s3cret"}


def test_a_token_from_a_server() -> None:
    kafka = {
        **SERVERS,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": OAUTH,
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        "sasl.login.retry.backoff.ms": "7",
        "sasl.login.callback.handler.class": HANDLER,
    }
    found = librdkafka_options(kafka)
    assert found["sasl.oauthbearer.method"] == "oidc"
    assert found["sasl.oauthbearer.client.id"] == "me"
    assert found["sasl.oauthbearer.client.secret"] == "s3cret"
    assert found["sasl.oauthbearer.scope"] == "a b"
    assert "sasl.login.retry.backoff.ms" not in found


def test_certificates() -> None:
    kafka = {
        **SERVERS,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "pem",
        "ssl.keystore.location": "/me.pem",
        "ssl.key.password": "s3cret",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.enabled.protocols": "TLSv1.3",
    }
    assert librdkafka_options(kafka) == {
        **SERVERS,
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "ssl.key.password": "s3cret",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_a_pkcs12_key_store() -> None:
    kafka = {
        **SERVERS,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "/p",
        "ssl.keystore.password": "s",
    }
    assert librdkafka_options(kafka) == {
        **SERVERS,
        "ssl.keystore.location": "/p",
        "ssl.keystore.password": "s",
    }


def test_certificates_given_as_text() -> None:
    kafka = {
        "ssl.truststore.certificates": "a",
        "ssl.keystore.certificate.chain": "b",
        "ssl.keystore.key": "c",
    }
    assert librdkafka_options(kafka) == {"ssl.ca.pem": "a", "ssl.certificate.pem": "b", "ssl.key.pem": "c"}
    assert is_known(kafka)


SASL = {**SERVERS, "security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    ("kafka", "said"),
    [
        (SASL, "GSSAPI"),
        ({**SASL, "sasl.mechanism": "AWS_MSK_IAM"}, "AWS_MSK_IAM"),
        ({**SASL, "sasl.mechanism": "PLAIN"}, r"jaas\.config is missing"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": "s3cret"}, "not of the form"),
        (
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": 'M required password="s3cret";'},
            "no username",
        ),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": PLAIN}, "no clientId"),
        (
            {**SERVERS, "sasl.client.callback.handler.class": "s3cret"},
            r"sasl\.client\.callback\.handler\.class",
        ),
        (
            {**SERVERS, "sasl.login.callback.handler.class": "com.example.OAuthBearerLoginCallbackHandler"},
            r"sasl\.login\.callback\.handler\.class cannot be used without a Spark session",
        ),
        ({**SERVERS, "ssl.engine.factory.class": "s3cret"}, r"ssl\.engine\.factory\.class"),
        ({**SERVERS, "ssl.truststore.location": "/a.jks", "ssl.truststore.password": "s3cret"}, "JKS"),
        ({**SERVERS, "ssl.keystore.location": "/a.jks", "ssl.keystore.password": "s3cret"}, "JKS"),
    ],
)
def test_what_cannot_be_translated_is_said_without_its_secrets(kafka: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        librdkafka_options(kafka)
    assert "s3cret" not in str(caught.value)
    assert not is_known(kafka)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_librdkafka_takes_what_comes_out(mechanism: str) -> None:
    kafka = {
        **SASL,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": {"PLAIN": PLAIN, "OAUTHBEARER": OAUTH}.get(mechanism, SCRAM),
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        "ssl.endpoint.identification.algorithm": "HTTPS",
        "client.id": "test",
    }
    AdminClient({**librdkafka_options(kafka), "log_level": 0})


def test_librdkafka_knows_the_names_of_certificates() -> None:
    kafka = {
        "ssl.truststore.certificates": "a",
        "ssl.keystore.certificate.chain": "b",
        "ssl.keystore.key": "c",
    }
    with pytest.raises(KafkaException, match="PEM"):
        AdminClient({**SERVERS, "security.protocol": "SSL", **librdkafka_options(kafka), "log_level": 0})


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from("'\""))
def test_any_password_survives_its_quotes(password: str, quote: str) -> None:
    quoted = password.replace("\\", "\\\\").replace(quote, "\\" + quote)
    jaas = f"a.b.Module required username={quote}me{quote} password={quote}{quoted}{quote};"
    kafka = {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    assert librdkafka_options(kafka)["sasl.password"] == password
