"""Places for files as settings have them: a folder, relative to the settings file's unless it is absolute, or a store's URL."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

from distributary.ingest.storage.place import SCHEMES, Place
from distributary.values import EmptyIsNone, folder_of, table_folder_of

# `s3://bucket` as a Path.
_PATH_OF_A_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")

# What lacks a colon or a slash to be one.
_NEARLY_A_URL = re.compile(rf"({'|'.join(SCHEMES)})(?::|//)", re.IGNORECASE)

_Folder = Callable[[Any, ValidationInfo], Path]


def _place(value: Any, info: ValidationInfo, folder: _Folder) -> Place:
    if isinstance(value, Place):
        return value
    if isinstance(value, str) and "://" in value:
        return Place.parse(value)
    if isinstance(value, Path) and (url := _PATH_OF_A_URL.match(str(value))):
        raise ValueError(f"a Path makes one slash of two; give {url[1]}:// as a text")
    if isinstance(value, str) and (url := _NEARLY_A_URL.match(value)):
        raise ValueError(
            f"it is no URL; write {url[1]}://… for one, or ./{value} for a folder that is called so"
        )
    return Place.parse(str(folder(value, info)))


def _any_place(value: Any, info: ValidationInfo) -> Place:
    return _place(value, info, folder_of)


def _place_of_tables(value: Any, info: ValidationInfo) -> Place:
    return _place(value, info, table_folder_of)


_AS_TEXT = PlainSerializer(str)

_PATH_OR_URL = WithJsonSchema({"type": "string", "format": "place"})

AnyPlace = Annotated[Place, PlainValidator(_any_place), _AS_TEXT, _PATH_OR_URL]

PlaceOfTables = Annotated[Place, PlainValidator(_place_of_tables), _AS_TEXT, _PATH_OR_URL]

OptionalPlace = Annotated[AnyPlace | None, EmptyIsNone]
