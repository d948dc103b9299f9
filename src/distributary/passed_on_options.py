"""Options handed on to clients of Kafka, Hadoop and Spark: kept as text, their secrets never shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from distributary.values import MASK, WrongValues, without_logins

# Java's client and librdkafka, whose options a simulation has, call their secrets otherwise.
# https://kafka.apache.org/documentation/#consumerconfigs
# https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
_SECRET = re.compile(
    r"secret|password|passphrase|jaas|token|credential|access[._]?key|keystore\.key|user\.info"
    r"|(^|\.)ssl\.key\.pem$|private\.key\.pem$|oauthbearer\.config$",
    re.IGNORECASE,
)

_SECRET_INSIDE = re.compile(r"password|secret|token", re.IGNORECASE)

# Names that speak of a secret without holding one.
_NOT_ITSELF = re.compile(
    r"(url|uri|class|provider|file|location|path|seconds|ms|enabled?|type|claim\.name)$", re.IGNORECASE
)

# An address, of which all that may be a secret is told by no name: a user with a password, and a query.
_ADDRESS = re.compile(r"ur[li]s?$", re.IGNORECASE)

# A property of Java's, as options for its JVM have them, whatever such an option is called.
_PROPERTY = re.compile(r"""-D([^\s=]+)=("[^"]*"|'[^']*'|\S+)""")

# A shorter part of a query, such as `v=1`, is no secret, and would be masked in words that have nothing to do with it.
_SHORTEST_IN_A_QUERY = 6

# The words of a login configuration, and those that every one of them may have. Java's tokenizer ends a word at a quote
# within a password and after a number, so that any piece of a value may come back in its error.
_PARTS = (
    re.compile(r'''"([^"]*)"'''),
    re.compile(r"'([^']*)'"),
    re.compile(r"""[^\s=;"']+"""),
    re.compile(r"[\w.$-]+"),
    re.compile(r"\w{3,}"),
    re.compile(r"[^\W\d]\w{2,}"),
)

_LOGIN_MODULE = re.compile(r"^\s*[\w.$]+LoginModule(?=\s)")

_OPEN = re.compile(
    r"[\w.$]+LoginModule|required|requisite|sufficient|optional|true|false|username|password|clientId|clientSecret|scope"
    r"|useKeyTab|keyTab|storeKey|useTicketCache|principal|serviceName"
)


class ClientOptions(Mapping[str, str]):
    """A frozen mapping of option names to texts whose `repr` masks what looks like a secret."""

    __slots__ = ("_options",)

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def __getitem__(self, name: str) -> str:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __hash__(self) -> int:
        return hash(frozenset(self._options.items()))

    def __repr__(self) -> str:
        return repr(self.masked())

    def masked(self) -> dict[str, str]:
        """The options with a mask in place of every value that may be a secret."""
        return {
            name: MASK if _SECRET.search(name) else without_secrets(value, {name: value})
            for name, value in self._options.items()
        }

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Taken from a mapping with scalar values; dumped masked."""
        return core_schema.no_info_plain_validator_function(
            _options,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda options: options.masked()),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Any names, scalar values."""
        return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


def without_secrets(text: str, options: Mapping[str, str]) -> str:
    """A text that somebody else wrote, with a mask in place of every word in it that an option keeps secret."""
    words = {word for name, value in options.items() for word in _words(name, value)}
    for word in sorted(words, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", lambda _: MASK, text)
    return without_logins(text)


def _words(name: str, value: str) -> set[str]:
    """What must not be told of an option: a secret's value, every word of a login configuration that may be one, an address's, a property's of Java."""
    inside = _words_of_address(value) if _ADDRESS.search(name) or "://" in value else set()
    for property_, its in _PROPERTY.findall(value):
        if _is_secret(property_):
            inside |= {word for word in (its, its.strip("\"'")) if word}
    if not _is_secret(name):
        return inside
    parts = _login_parts(value) if "jaas" in name.lower() else []
    return inside | {word for word in (value, *parts) if word and not _OPEN.fullmatch(word)}


def _is_secret(name: str) -> bool:
    return bool(_SECRET.search(name)) and not _NOT_ITSELF.search(name)


def _words_of_address(value: str) -> set[str]:
    """An address's user and password and its query, whole and in parts: an error may quote a part, or what is no URL."""
    address, _, query = (value.partition("://")[2] or value).partition("?")
    user = address.rpartition("@")[0]
    inside = (one.partition("=")[2] for one in query.split("&"))
    parts = {
        user,
        user.partition(":")[2],
        query,
        *(one for one in inside if len(one) >= _SHORTEST_IN_A_QUERY),
    }
    return {word for part in parts for word in (part, unquote(part)) if word}


def _login_parts(value: str) -> list[str]:
    settings = _LOGIN_MODULE.sub("", value)
    return [part for pattern in _PARTS for part in pattern.findall(settings)]


def is_literal_secret(name: str, value: str) -> bool:
    """Whether an option written out in the file is a secret that belongs into the environment."""
    if not value or not _is_secret(name):
        return False
    # A login configuration may do without a secret (Kerberos with a key tab).
    return bool(_SECRET_INSIDE.search(value)) if "jaas" in name.lower() else True


def reject(options: ClientOptions, refused: Callable[[str, str], str | None]) -> ClientOptions:
    """The options, if `refused` has no reason against any of them; WrongValues with all reasons if it has."""
    reasons = [((name,), reason) for name, value in options.items() if (reason := refused(name, value))]
    if reasons:
        raise WrongValues(*reasons)
    return options


def _options(value: Any) -> ClientOptions:
    if isinstance(value, ClientOptions):
        return value
    if not isinstance(value, Mapping):
        raise WrongValues(((), "write a mapping of option names to values"))
    wrong = [
        ((str(name),), _remedy(str(name), option)) for name, option in value.items() if not _is_plain(option)
    ]
    wrong += [
        ((str(name),), f"{MASK} is only shown in place of a secret; write the secret itself")
        for name, option in value.items()
        if isinstance(option, str) and MASK in option
    ]
    if wrong:
        raise WrongValues(*wrong)
    return ClientOptions({str(name): _text(option) for name, option in value.items()})


def _remedy(name: str, value: Any) -> str:
    """What to write instead of what is no value: a name with dots is taken apart by who groups settings, and by `--set`."""
    whole, below = name, value
    # Of a secret's name what is below may be the secret, which YAML takes for a mapping where it stands in braces.
    while isinstance(below, Mapping) and below and not _SECRET.search(whole):
        first, below = next(iter(below.items()))
        whole += f".{first}"
    if whole == name:
        return "write one value, in quotes"
    whole += "…" if isinstance(below, Mapping) else ""
    return f'write one value; "{whole}" is one name, which with --set stands in quotes'


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
