"""Records that contain themselves as columns nested so many times, in place of JSON text: Spark's `recursiveFieldMaxDepth`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distributary.codecs.avro.types.columns import Columns
from distributary.codecs.avro.types.schema import AvroType, Kind


def unrolled(top: AvroType, most: int) -> AvroType:
    """The type with each record at most `most` times within itself, itself counted; fields that would be deeper are left out.

    Raises BadSchema where that makes more columns than any table can hold.
    """
    return _Unroller(top.name, most).copy(top, {}, 1) or AvroType(Kind.NULL)


class _Unroller:
    def __init__(self, name: str, most: int) -> None:
        self.columns = Columns(name)
        self.most = most

    def copy(self, avro: AvroType, above: Mapping[str, int], depth: int) -> AvroType | None:
        """None where all there could be is too deep."""
        self.columns.count(depth)
        if not avro.parts:
            return avro
        if avro.kind is Kind.RECORD:
            if above.get(avro.name, 0) >= self.most:
                return None
            above = {**above, avro.name: above.get(avro.name, 0) + 1}
        parts = [self.copy(part, above, depth + 1) for part in avro.parts]
        kept = [number for number, part in enumerate(parts) if part is not None]
        found = tuple(part for part in parts if part is not None)
        if avro.kind is Kind.RECORD:
            names = tuple(avro.names[number] for number in kept)
            return replace(
                avro, parts=found, names=names, extras=tuple(avro.extras[number] for number in kept)
            )
        only_null = all(part.kind is Kind.NULL for part in found)
        return None if len(found) < len(parts) and only_null else replace(avro, parts=found)
