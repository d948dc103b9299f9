"""What became of a record type from one schema to the next: each change named and classed, alike for all formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ChangeClass = Literal[
    "added",  # a field, at any depth
    "widened",  # every value of the old type is one of the new
    "narrowed",  # every value of the new type is one of the old
    "changed",  # neither
    "dropped",  # a field is gone
    "renamed",  # same number, or an alias
    "made_required",
    "made_optional",
    "enum_value_added",
    "enum_value_removed",
    "oneof_arm_added",  # a field that is a new arm of a oneof that was there
    "record_renamed",
    "format_switched",
]


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One change from a schema to the next.

    column  dotted path in the newer schema's payload names (the older's for a dropped field); a list's elements are `element`, a
            map's values `value`; empty for the record as a whole
    before  what was there: a type in Spark's spelling, an old name, a symbol; empty for what is new
    after   what is there now; empty for what is gone
    """

    kind: ChangeClass
    column: str
    before: str = ""
    after: str = ""
