"""What settings and options are made of: frozen groups that check themselves, values as users write them, and what is wrong with them."""

from __future__ import annotations

import ast
import base64
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails
from typing_extensions import Self

# The keys that lead to a setting, from the top of the file.
Keys = tuple[str | int, ...]

# One thing that is wrong: at which setting, and a sentence that ends in the remedy.
Wrong = tuple[Keys, str]

MASK = "**********"


class WrongValues(ValueError):
    """Raised by a validator that knows which of the settings below its own are wrong."""

    def __init__(self, *found: Wrong) -> None:
        super().__init__(*found)
        self.found = found

    def __str__(self) -> str:
        return "; ".join(f"{dotted(keys)}: {message}" if keys else message for keys, message in self.found)


def dotted(keys: Keys) -> str:
    """Keys as users write them: `source.topics[0]`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".")


def wrong_by(error: ErrorDetails) -> tuple[Wrong, ...]:
    """What one of pydantic's errors says, each with the keys below the error's own place."""
    raised = error.get("ctx", {}).get("error")
    if isinstance(raised, WrongValues):
        return raised.found
    if raised is not None:
        return (((), str(raised)),)
    remedy = _REMEDIES.get(error["type"])
    return (((), remedy(error.get("ctx", {})) if remedy else error["msg"]),)


_REMEDIES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "extra_forbidden": lambda ctx: "no setting is called so; remove it",
    "missing": lambda ctx: "this setting is missing; write it",
    "literal_error": lambda ctx: f"write one of {ctx['expected']}",
    "string_type": lambda ctx: "it must be a text; put it in quotes",
    "string_too_short": lambda ctx: "it is empty; write a value or remove the line",
    "string_too_long": lambda ctx: f"write at most {ctx['max_length']} characters",
    "string_pattern_mismatch": lambda ctx: f"it does not match {ctx['pattern']}; use those characters only",
    "bool_parsing": lambda ctx: "write true or false",
    "bool_type": lambda ctx: "write true or false",
    "int_parsing": lambda ctx: "write a whole number",
    "int_type": lambda ctx: "write a whole number",
    "int_from_float": lambda ctx: "write a whole number",
    "float_parsing": lambda ctx: "write a number",
    "float_type": lambda ctx: "write a number",
    "finite_number": lambda ctx: "write a finite number",
    "greater_than": lambda ctx: f"write a number greater than {ctx['gt']}",
    "greater_than_equal": lambda ctx: f"write a number of at least {ctx['ge']}",
    "less_than_equal": lambda ctx: f"write a number of at most {ctx['le']}",
    "tuple_type": lambda ctx: "write a list, for example [one, another]",
    "too_short": lambda ctx: f"write at least {ctx['min_length']} of them",
    "too_long": lambda ctx: f"write at most {ctx['max_length']} of them",
    "model_type": lambda ctx: "write a mapping of settings, each as `key: value` on a line of its own",
    "model_attributes_type": lambda ctx: (
        "write a mapping of settings, each as `key: value` on a line of its own"
    ),
}


# What a request carries to log in, as a server or a proxy may quote it.
_LOGIN = re.compile(r"\b(basic|bearer)(\s+)([A-Za-z0-9+/=._~-]+)", re.IGNORECASE)


# What S3 quotes of a request that it refuses: the token of keys that expire, by itself or among the headers.
_TOKEN = re.compile(r"(<Token-\d+>|x-amz-security-token\s*[:=]\s*)[^\s<>&\"']+", re.IGNORECASE)


# A URL, with what stands before its last @ and behind its first ?. Before the @ of a container of Azure's no user stands.
_URL = re.compile(
    r"""(?P<scheme>\b(?!(?:abfs|wasb)s?:)[a-z][a-z0-9+.-]*://)(?P<user>[^\s"'<>`]*@)?(?P<place>[^\s"'<>`?]*)"""
    r"""(?P<query>\?[^\s"'<>`]*?(?=[).,;:]*(?:[\s"'<>`]|$)))?""",
    re.IGNORECASE,
)


def without_logins(text: str) -> str:
    """A text that a server or a library wrote, with a mask in place of each login that it quotes.

    Those are what a request's headers have, and a URL's user and query, either of which may be a secret.
    https://www.rfc-editor.org/rfc/rfc7617#section-2, https://www.rfc-editor.org/rfc/rfc6750#section-2.1 and
    https://www.rfc-editor.org/rfc/rfc3986#section-3
    """
    plain = _LOGIN.sub(lambda found: f"{found[1]}{found[2]}{_masked_login(found[1], found[3])}", text)
    return _URL.sub(_masked_url, _TOKEN.sub(rf"\g<1>{MASK}", plain))


def _masked_url(found: re.Match[str]) -> str:
    user = f"{MASK}@" if found["user"] else ""
    query = f"?{MASK}" if found["query"] and found["query"] != "?" else found["query"] or ""
    return f"{found['scheme']}{user}{found['place']}{query}"


def _masked_login(scheme: str, word: str) -> str:
    if scheme.lower() == "bearer":
        return word if word.isalpha() and word.islower() else MASK
    try:
        said = base64.b64decode(word.rstrip("=") + "=" * (-len(word.rstrip("=")) % 4), validate=True)
    except ValueError:
        return word
    return MASK if b":" in said else word


class Group(BaseModel):
    """What all groups have in common: frozen, no unknown settings, no values in error messages."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    if not TYPE_CHECKING:  # which takes a class with this method for one whose fields can be set

        def __setattr__(self, name: str, value: object) -> NoReturn:
            # Pydantic's own error quotes the value, which may be a secret.
            wrong = InitErrorDetails(type="frozen_instance", loc=(name,), input=None)
            raise ValidationError.from_exception_data(type(self).__name__, [wrong], hide_input=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The schema, with what stands below each setting as its description.

        Pydantic itself would read the source for that whenever a group is imported, a quarter of a second for all of them.
        """
        schema = handler(core_schema)
        settings = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in _docstrings(cls).items():
            setting = settings.get(name, {})
            told = handler.resolve_ref_schema(setting) if "$ref" in setting else {}
            # What only repeats the group's is left out, as Pydantic does.
            if setting and told.get("description") != text:
                setting.setdefault("description", text)
        return schema

    @field_validator("*", mode="before")
    @classmethod
    def _no_number_is_true(cls, value: Any, info: ValidationInfo) -> Any:
        # Pydantic makes one of it: records that are kept `true` days would be gone the day after.
        if isinstance(value, bool) and _is_number(cls.model_fields[str(info.field_name)].annotation):
            raise ValueError("it is true or false, as YAML reads yes, no, on and off; write a number")
        return value

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together, of values that are each right by themselves."""
        return iter(())

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if found := tuple(self.wrong()):
            raise WrongValues(*found)
        return self


def _is_number(annotation: Any) -> bool:
    """Whether a setting's value is a number, or nothing."""
    if get_origin(annotation) is Annotated:
        return _is_number(get_args(annotation)[0])
    parts = [one for one in get_args(annotation) if one is not type(None)]
    return all(map(_is_number, parts)) if parts else annotation in (int, float)


def _docstrings(group: type[Group]) -> dict[str, str]:
    """What stands below each setting of a group, those of the groups that it is made of among them."""
    found = dict[str, str]()
    for one in reversed(group.__mro__):
        if issubclass(one, Group):
            found |= _own_docstrings(one)
    return found


# A group's schema is made once for each setting that has it, and all of them are made of one.
@cache
def _own_docstrings(group: type[Group]) -> Mapping[str, str]:
    found = dict[str, str]()
    (body,) = ast.parse(dedent(getsource(group))).body
    for setting, below in pairwise(getattr(body, "body", ())):
        if (
            isinstance(setting, ast.AnnAssign)
            and isinstance(setting.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            found[setting.target.id] = cleandoc(below.value.value)
    return found


def _empty_is_none(value: Any, info: ValidationInfo) -> Any:
    # `${TOKEN:-}` is how a file says: a secret if there is one. In Python, which has None, an empty text is a mistake.
    return None if value == "" and info.context is not None else value


# `s3://bucket` as a Path, which makes one slash of two.
_PATH_OF_A_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


# It makes a slash of the one, and refuses the other.
_LOST_BY_DELTA_RS = re.compile(r"[\\\x00-\x1f\x7f]")


def _path(value: Any, info: ValidationInfo, wanted: str) -> Path:
    """An absolute path: `~` expanded, a relative one taken from the settings file's folder."""
    if not isinstance(value, str | Path):
        raise WrongValues(((), f"it must be a path; {wanted}"))
    text = str(value)
    if "://" in text or (isinstance(value, Path) and _PATH_OF_A_URI.match(text)):
        raise ValueError(
            f"{text.partition(':')[0]}:// is not supported: driver and workers write a POSIX file system that both see; "
            "mount the storage and write its path"
        )
    if not text.strip() or "\0" in text:
        raise ValueError(f"it is empty or holds a NUL character; {wanted}")
    base = (info.context or {}).get("folder", Path.cwd())
    try:
        expanded = Path(text).expanduser()
    except RuntimeError:
        raise ValueError("the home folder behind ~ is not known; write the whole path") from None
    return Path(os.path.abspath(Path(base) / expanded))


def folder_of(value: Any, info: ValidationInfo) -> Path:
    """A folder's absolute path, a relative one taken from the settings file's folder. Raises ValueError with what to write."""
    path = _path(value, info, "write a folder, for example ./lake")
    if "%" in str(value):
        raise ValueError("delta-rs takes % in a path for the start of an escape; write a path without it")
    return path


def table_folder_of(value: Any, info: ValidationInfo) -> Path:
    """The same for a folder with tables in it, which delta-rs has to find."""
    path = folder_of(value, info)
    if "%" in str(path):
        raise ValueError(
            f"it is {path}, and delta-rs takes % for the start of an escape; write a whole path without it"
        )
    if _LOST_BY_DELTA_RS.search(str(path)):
        raise ValueError(
            f"it is {str(path)!r}, and delta-rs finds no table by a path with a backslash or a control character; write another one"
        )
    return path


def _file_name(value: Any, info: ValidationInfo) -> str | None:
    return None if value is None else str(_path(value, info, "write a file, for example ./ca.pem"))


Folder = Annotated[Path, BeforeValidator(folder_of)]

EmptyIsNone = BeforeValidator(_empty_is_none)

OptionalFolder = Annotated[Folder | None, EmptyIsNone]


def _text_or_null(**of: Any) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "string", **of}, {"type": "null"}]})


OptionalFile = Annotated[str | None, BeforeValidator(_file_name), EmptyIsNone, _text_or_null(format="path")]


def _no_mask(value: Any) -> Any:
    if value == MASK:
        raise ValueError(f"{MASK} is only shown in place of a secret; write the secret itself")
    return value


@dataclass(frozen=True, slots=True)
class _Secret:
    """Marks a setting whose value is never shown and, in a file, comes from the environment."""


Secret = Annotated[
    str | None,
    _Secret(),
    Field(repr=False),
    BeforeValidator(_no_mask),
    EmptyIsNone,
    PlainSerializer(lambda secret: secret and MASK),
    _text_or_null(format="password", writeOnly=True),
]


def is_secret(setting: FieldInfo) -> bool:
    """Whether a setting's value is a secret."""
    return any(isinstance(mark, _Secret) for mark in setting.metadata)


Name = Annotated[str, Field(min_length=1)]

_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")


def bytes_of(value: Any) -> Any:
    """`"192 MiB"` as a number of bytes; anything that is not a text with a unit is left as it is."""
    found = _with_unit(value)
    if found is None:
        return value
    number, unit = found
    # Pydantic knows the units, but of `1,5 GiB` it would make one byte and of `true` another.
    if unit not in ByteSize.byte_sizes:
        raise ValueError(f"no size has the unit {unit!r}; write a number of bytes, or for example 192 MiB")
    return round(number * ByteSize.byte_sizes[unit])


def seconds_of(value: Any) -> Any:
    """`"10 s"` as a number of seconds; anything that is not a text with a unit is left as it is."""
    found = _with_unit(value)
    if found is None:
        return value
    number, unit = found
    if unit not in _SECONDS:
        raise ValueError(f"no duration has the unit {unit!r}; write a number of seconds, or for example 10 s")
    # As a double 1.1 h is a trifle more than 3,960 s, which would be no whole number.
    return round(number * _SECONDS[unit], 9)


def whole_seconds_of(value: Any) -> Any:
    """The same for what takes whole seconds only."""
    seconds = seconds_of(value)
    if isinstance(seconds, float) and not seconds.is_integer():
        raise ValueError("it is no whole number of seconds; write one, or for example 1 h")
    return seconds


def _with_unit(value: Any) -> tuple[float, str] | None:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return (float(match[1]), match[2].lower()) if match else None


def _or_text(kind: str, example: str, **bounds: int) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind, **bounds}, {"type": "string", "examples": [example]}]})


Bytes = Annotated[int, Field(ge=1), BeforeValidator(bytes_of), _or_text("integer", "192 MiB", minimum=1)]

# A hundred years, as of days elsewhere. Of three hundred no thread can be told to wait for them.
_MOST_SECONDS = 36_500 * 86_400

Seconds = Annotated[
    float,
    Field(ge=0, le=_MOST_SECONDS, allow_inf_nan=False),
    BeforeValidator(seconds_of),
    _or_text("number", "10 s", minimum=0, maximum=_MOST_SECONDS),
]

PositiveSeconds = Annotated[
    float,
    Field(gt=0, le=_MOST_SECONDS, allow_inf_nan=False),
    BeforeValidator(seconds_of),
    _or_text("number", "10 s", exclusiveMinimum=0, maximum=_MOST_SECONDS),
]

WholeSeconds = Annotated[
    int, Field(ge=1), BeforeValidator(whole_seconds_of), _or_text("integer", "1 h", minimum=1)
]
