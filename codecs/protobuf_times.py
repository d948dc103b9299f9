"""Which times Protobuf allows (timestamp.proto, duration.proto), in microseconds: what lies outside is an error, not clamped."""

from __future__ import annotations

from typing import Final

from distributary.codecs.protobuf_types import Shape

SECOND: Final = 1_000_000
# 0001-01-01T00:00:00Z to the last microsecond of 9999, and ten thousand years either way.
LIMITS: Final = {
    Shape.TIMESTAMP: (-62_135_596_800 * SECOND, 253_402_300_800 * SECOND - 1),
    Shape.DURATION: (-315_576_000_000 * SECOND - SECOND + 1, 315_576_000_000 * SECOND + SECOND - 1),
}
