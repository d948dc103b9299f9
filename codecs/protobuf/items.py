"""The items that a message's lists hold, counted before they become columns: an empty message takes two bytes, whatever its type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from distributary.codecs.protobuf.columns import Column, Many, schema_of
from distributary.codecs.protobuf.plain_type import wire_message
from distributary.codecs.types.masks import Rows
from distributary.codecs.types.room import MOST_BYTES, item_bytes
from distributary.codecs.wire.binary_rows import BinaryRows

_LEAST_BYTES = 2


class Items:
    """Finds payloads that would take more room than any record should."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self._columns, self._class = columns, GetMessageClass(wire_message(columns, exact=True))
        self._most = MOST_BYTES // max(item_bytes(schema_of(columns)), 1)

    def too_many(self, payloads: pa.BinaryArray) -> Rows:
        """The places of those payloads (no nulls)."""
        view = BinaryRows.of(payloads)
        suspects = np.flatnonzero(view.end - view.begin > self._most * _LEAST_BYTES)
        found = [row for row in suspects.tolist() if self._count(payloads[row].as_py()) > self._most]
        return np.array(found, np.int64)

    def _count(self, payload: bytes) -> int:
        try:
            return self._within(self._columns, self._class.FromString(payload), 0)
        except (DecodeError, ValueError, RecursionError):  # whoever decodes it says what is wrong with it
            return 0

    def _within(self, columns: tuple[Column, ...], message: Any, count: int) -> int:
        for column in columns:
            if column.many is Many.ONE and not column.children:
                continue
            value = getattr(message, column.wire.name)
            if column.many is Many.ONE:
                items = [value] if message.HasField(column.wire.name) else []
            else:
                items = value.values() if column.many is Many.MAP else value
                count += len(items)
            if column.children and any(one.many is not Many.ONE or one.children for one in column.children):
                for item in items:
                    if count > self._most:
                        return count
                    count = self._within(column.children, item, count)
        return count
