"""Kafka's client options in the spelling of librdkafka, which asks the cluster where there is no JVM of ours.

Spark's source and `java.py` use Kafka's Java client and take the options as they are written. Only what decides how to connect is
translated (https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md); the rest is tuning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from distributary.errors import ConfigError

_SAME = {
    "bootstrap.servers",
    "security.protocol",
    "client.id",
    "client.dns.lookup",
    "socket.connection.setup.timeout.ms",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.key.password",
    "ssl.cipher.suites",
}

_RENAMED = {
    "sasl.mechanism": "sasl.mechanism",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}

# Translated together with others, below.
_TOGETHER = {
    "sasl.jaas.config",
    "sasl.kerberos.service.name",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.endpoint.identification.algorithm",
}

# How Java goes about it, not whom it trusts or who it is.
_JAVA_ONLY = re.compile(
    r"sasl\.login\.(connect|read|refresh|retry)\..*"
    r"|sasl\.kerberos\.(kinit|min|ticket)\..*"
    r"|ssl\.(protocol|enabled\.protocols|provider|secure\.random\.implementation|(key|trust)manager\.algorithm)"
)

# Kafka's own way to a token, which librdkafka has too.
_OWN_LOGIN = re.compile(
    r"org\.apache\.kafka\.common\.security\.oauthbearer\.(secured\.)?OAuthBearerLoginCallbackHandler"
)

_DECIDES = ("security.", "sasl.", "ssl.")

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_MODULE = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*)", re.DOTALL
)

_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")


def librdkafka_options(kafka: Mapping[str, str]) -> dict[str, str]:
    """The options that decide how to connect. Raises ConfigError, never quoting a value that may be a secret."""
    for name, value in kafka.items():
        _check_known(name, value)
    return {
        **{name: value for name, value in kafka.items() if name in _SAME},
        **{_RENAMED[name]: value for name, value in kafka.items() if name in _RENAMED},
        **dict(_login(kafka)),
        **dict(_trust(kafka)),
        **dict(_key(kafka)),
        **dict(_host_names(kafka)),
    }


def is_known(kafka: Mapping[str, str]) -> bool:
    """Whether librdkafka can connect by these options; a store of Java's own format it cannot read."""
    try:
        librdkafka_options(kafka)
    except ConfigError:
        return False
    return True


def _check_known(name: str, value: str) -> None:
    known = name in _SAME or name in _RENAMED or name in _TOGETHER or _JAVA_ONLY.fullmatch(name)
    if name == "sasl.login.callback.handler.class":
        known = _OWN_LOGIN.fullmatch(value)
    if name.startswith(_DECIDES) and not known:
        raise ConfigError(
            f"source.kafka.{name} cannot be used without a Spark session: librdkafka, which then asks the cluster, has no "
            f"such option. Authenticate by one of {', '.join(_MECHANISMS)} or by a certificate (PEM or PKCS12)"
        )


def _login(kafka: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if not kafka.get("security.protocol", "").upper().startswith("SASL"):
        return
    mechanism = kafka.get("sasl.mechanism", "GSSAPI")
    if mechanism not in _MECHANISMS:
        raise ConfigError(
            f"source.kafka: the SASL mechanism {mechanism} (Java's default is GSSAPI) cannot be used without a Spark "
            f"session: librdkafka, which then asks the cluster, knows {', '.join(_MECHANISMS)}; set sasl.mechanism to one of them"
        )
    options = _jaas(kafka.get("sasl.jaas.config", ""))
    if mechanism == "OAUTHBEARER":
        yield "sasl.oauthbearer.method", "oidc"
        yield "sasl.oauthbearer.client.id", _needed(options, "clientId")
        yield "sasl.oauthbearer.client.secret", _needed(options, "clientSecret")
        if "scope" in options:
            yield "sasl.oauthbearer.scope", options["scope"]
    else:
        yield "sasl.username", _needed(options, "username")
        yield "sasl.password", _needed(options, "password")


def _jaas(text: str) -> dict[str, str]:
    found = _MODULE.fullmatch(text)
    if found is None:
        raise ConfigError(
            'source.kafka.sasl.jaas.config is missing or not of the form `MODULE required name="value" ...;`, '
            "such as org.apache.kafka.common.security.plain.PlainLoginModule required username=... password=...;"
        )
    options = found["options"]
    return {
        name: re.sub(r"\\(.)", r"\1", double or single) or plain
        for name, double, single, plain in _OPTION.findall(options)
    }


def _needed(options: Mapping[str, str], name: str) -> str:
    if name not in options:
        raise ConfigError(f'source.kafka.sasl.jaas.config has no {name}; write {name}="..." into it')
    return options[name]


def _trust(kafka: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if "ssl.truststore.location" in kafka:
        _store_type(kafka, "ssl.truststore", ("PEM",))
        yield "ssl.ca.location", kafka["ssl.truststore.location"]


def _key(kafka: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if "ssl.keystore.location" not in kafka:
        return
    location = kafka["ssl.keystore.location"]
    if _store_type(kafka, "ssl.keystore", ("PEM", "PKCS12")) == "PEM":
        yield "ssl.certificate.location", location
        yield "ssl.key.location", location
        return
    yield "ssl.keystore.location", location
    if "ssl.keystore.password" in kafka:
        yield "ssl.keystore.password", kafka["ssl.keystore.password"]


def _store_type(kafka: Mapping[str, str], store: str, readable: tuple[str, ...]) -> str:
    found = kafka.get(f"{store}.type", "JKS").upper()
    if found not in readable:
        raise ConfigError(
            f"source.kafka.{store}.location is of the type {found} (Java's default is JKS), which librdkafka, "
            f"which asks the cluster where there is no Spark session, cannot read; convert it (keytool, openssl) and set {store}.type to "
            f"{' or '.join(readable)}"
        )
    return found


def _host_names(kafka: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    name = "ssl.endpoint.identification.algorithm"
    if name in kafka:
        yield name, kafka[name].lower() or "none"
