"""Why a record cannot be decoded: the closed list of reason codes, each with its sentence.

The codes are data (they stand in the quarantine table), so they never change their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

NO_HEADER: Final = "no_header"

BAD_MAGIC: Final = "bad_magic"

GLUE_HEADER: Final = "glue_header"

TRUNCATED_HEADER: Final = "truncated_header"

BAD_MESSAGE_INDEX: Final = "bad_message_index"

NO_GLUE_HEADER: Final = "no_glue_header"

UNKNOWN_COMPRESSION: Final = "unknown_compression"

BAD_COMPRESSION: Final = "bad_compression"

INFLATED_TOO_LARGE: Final = "inflated_too_large"

MALFORMED: Final = "malformed"

INVALID_UTF8: Final = "invalid_utf8"

OUT_OF_RANGE: Final = "out_of_range"

TOO_DEEP: Final = "too_deep"

TRAILING_BYTES: Final = "trailing_bytes"

TOO_MANY_ITEMS: Final = "too_many_items"

TOO_LARGE: Final = "too_large"

INVALID: Final = "invalid"

NO_ENVELOPE: Final = "no_envelope"

NO_ROW: Final = "no_row"

TRUNCATE: Final = "truncate"

SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        NO_HEADER: "the value is empty: it has no schema header",
        BAD_MAGIC: "the value starts with neither 0x00 nor 0x01: it is not in the Confluent wire format",
        GLUE_HEADER: "the value starts with 0x03: it is in the wire format of the AWS Glue Schema Registry",
        TRUNCATED_HEADER: "the value ends within its schema header",
        BAD_MESSAGE_INDEX: "the Protobuf message index of the header is negative, too long or too large",
        NO_GLUE_HEADER: "the value does not start with 0x03: it is not in the wire format of the AWS Glue Schema Registry",
        UNKNOWN_COMPRESSION: "the header's second byte is neither 0x00 (plain) nor 0x05 (zlib)",
        BAD_COMPRESSION: "what follows the header is not one whole zlib stream, as the header says that it is",
        INFLATED_TOO_LARGE: "what follows the header is compressed, and more than 64 MiB without that",
        MALFORMED: "the payload does not fit the wire format of its schema's type",
        INVALID_UTF8: "a string of the payload is not valid UTF-8",
        OUT_OF_RANGE: "a time or a decimal number is outside of the range that its type allows",
        TOO_DEEP: "the payload is nested more deeply than decoders allow",
        TRAILING_BYTES: "bytes follow the end of the record: it was not written with the schema that its header names",
        TOO_MANY_ITEMS: "an array has far more items, which take no byte, than any table should hold",
        TOO_LARGE: "the record's lists have so many items, nearly all of them empty, that its columns take more than 256 MiB",
        INVALID: "the record can be decoded, but does not meet all of its JSON Schema",
        NO_ENVELOPE: "the record is no envelope with `op` and `source`, or the row in it is no record, or has a field that is called as a column made of the envelope",
        NO_ROW: "its envelope tells of a change, and has no row as it was afterwards (`after`)",
        TRUNCATE: "its envelope says that a table was emptied, which says nothing of any single row",
    }
)
