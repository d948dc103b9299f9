"""What exceptions of the session's JVM are and say, without the secrets of the options they came of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from py4j.java_gateway import is_instance_of

from distributary.ingest.settings.passed_on_options import without_secrets
from distributary.ingest.spark.error_classes import chain


class JavaErrors:
    """Exceptions of one JVM, where `kafka` are the options of the client that raised them."""

    def __init__(self, gateway: Any, kafka: Mapping[str, str]) -> None:
        self._gateway, self._kafka = gateway, kafka

    def is_any(self, error: Any, classes: Sequence[str]) -> bool:
        """Whether it is of one of these classes, or of a class below."""
        return any(is_instance_of(self._gateway, error, name) for name in classes)

    def any_cause(self, error: Any, classes: Sequence[str]) -> bool:
        """Whether it or one of its causes is."""
        return any(self.is_any(one, classes) for one in chain(error))

    def reason(self, error: Any) -> str:
        """What it and its causes say, from the outermost in, each once; its class where none says anything."""
        said: list[str] = []
        name = ""
        for one in chain(error):
            name, message, cause = one.getClass().getSimpleName(), one.getMessage(), one.getCause()
            # One that only wraps another repeats it as its own message.
            if message and (cause is None or not message.endswith(str(cause.getMessage()))):
                said.append(str(message).splitlines()[0])
        return without_secrets(": ".join(said) or name, self._kafka)
