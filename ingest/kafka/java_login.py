"""What a login within the JVM failed of: the options, or a server of the login's own (of tokens, or Kerberos) that is down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from distributary.ingest.kafka.java_errors import JavaErrors
from distributary.ingest.spark.error_classes import java_exception

_LOGIN_FAILED = ("javax.security.auth.login.LoginException",)

_LOGIN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

_LOG4J, _LOGGING = "org.apache.logging.log4j", ("LogManager", "Level", "core.config.Configurator")

_HANDLER = "sasl.login.callback.handler.class"

_SILENCE = ("java.io.IOException",)

# A file that is not there or not ours to read, and a server that nobody vouches for: no server is down.
_NO_OUTAGE = (
    "java.io.FileNotFoundException",
    "java.nio.file.FileSystemException",
    "javax.net.ssl.SSLException",
    "java.net.MalformedURLException",
)

# Asked once more for the reason alone.
_ONCE = {"sasl.login.retry.backoff.ms": "1", "sasl.login.retry.backoff.max.ms": "1"}


@contextmanager
def unlogged(jvm: Any) -> Iterator[None]:
    """Without the log of a login for a token, which has a stack trace and what the tokens' server answered, unmasked."""
    # By their whole names: by its parts each would be asked for several times.
    managers, levels, configurator = (getattr(jvm, f"{_LOG4J}.{name}") for name in _LOGGING)
    before = managers.getLogger(_LOGIN_MODULE).getLevel()
    configurator.setLevel(_LOGIN_MODULE, levels.OFF)
    try:
        yield
    finally:
        configurator.setLevel(_LOGIN_MODULE, before)


def failure(error: Any, jvm: Any, gateway: Any, properties: Any, errors: JavaErrors) -> tuple[Any, bool]:
    """What a client could not be made of, and whether it is an outage. `error` is what its constructor raised.

    A login for a token keeps the reason for the log (OAuthBearerLoginModule.identifyToken), so that its handler is asked again.
    """
    if not errors.any_cause(error, _LOGIN_FAILED):
        return error, False
    if properties.get("sasl.mechanism") == "OAUTHBEARER":
        error = _no_token(jvm, gateway, properties) or error
        # What a server answered against the credential is wrapped; that it gave no answer is not.
        return error, errors.is_any(error, _SILENCE) and not errors.is_any(error, _NO_OUTAGE)
    return error, errors.any_cause(error, _SILENCE) and not errors.any_cause(error, _NO_OUTAGE)


def _no_token(jvm: Any, gateway: Any, properties: Any) -> Any:
    """What the options' handler says when it is asked for a token; None where it gives one, or there is none to ask."""
    once = jvm.java.util.HashMap(properties)
    for name, value in _ONCE.items():
        once.put(name, value)
    config = jvm.org.apache.kafka.clients.admin.AdminClientConfig(once)
    if config.get(_HANDLER) is None:
        return None
    security = jvm.org.apache.kafka.common.security
    handler = config.getConfiguredInstance(
        _HANDLER, security.auth.AuthenticateCallbackHandler._java_lang_class
    )
    asked = gateway.new_array(jvm.javax.security.auth.callback.Callback, 1)
    asked[0] = security.oauthbearer.OAuthBearerTokenCallback()
    try:
        entries = security.JaasContext.loadClientContext(config.values()).configurationEntries()
        handler.configure(config.values(), "OAUTHBEARER", entries)
        handler.handle(asked)
    except (Py4JJavaError, PySparkException) as error:
        return java_exception(error)
    finally:
        handler.close()
    return None
