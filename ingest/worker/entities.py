"""The entities a worker's task has met: each one's table, and the payload columns its file has so far."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.ingest.columns.growth import GrowthRules, grown
from distributary.ingest.columns.layout import NO_COLUMNS, Layout
from distributary.ingest.columns.safe_names import ENTITY_LENGTH, MEMORY_SUFFIX
from distributary.ingest.conform.conversion import Conversion, conversion_for
from distributary.ingest.expectations.given import Expectation
from distributary.ingest.history.bounds import with_bounds
from distributary.ingest.kafka.columns import of_records, with_rescued
from distributary.ingest.partitioned import PartitionedBy, partitioned_by
from distributary.ingest.pins import Pins
from distributary.ingest.reshaping.rule import Reshape
from distributary.ingest.reshaping.shape import Shape, Unshapeable, shape_of
from distributary.ingest.settings.rule_book import FitRules
from distributary.ingest.settings.upserts import Upsert
from distributary.ingest.worker.keyed import with_mark

# Instead of an entity's number, in the numbers that `codes` gives.
NONE, DENIED, WAITING = -1, -2, -3


@dataclass(frozen=True, slots=True)
class Reshaping:
    """What becomes of the columns of a record type, for all tables of one rule.

    rule   what it says
    place  of the rule, which tells it from others
    shape  how; None where the record type cannot be what it says
    why    not, then
    """

    rule: Reshape
    place: int
    shape: Shape | None
    why: str = ""


class EntityBook:
    """Numbers entities from 0 as they come, and grows their layouts as the pins allow.

    What is worked out for a layout holds for all entities that have the same columns: a thousand tables cost one conversion.
    """

    def __init__(self, pins: Pins) -> None:
        self._pins = pins
        self._numbers: dict[str, int] = {}
        self._new = 0
        self.names: list[str] = []
        self.folders: list[str] = []
        self.layouts: list[Layout] = []
        self._fits: list[FitRules | None] = []
        self._upserts: list[Upsert | None] = []
        self._partitions: list[PartitionedBy] = []
        self._expects: list[tuple[Expectation, ...]] = []
        self._by_folder: dict[str, int] = {}
        self._grown: dict[tuple[Layout, Hashable, tuple[int, ...] | None, bool, Upsert | None], Layout] = {}
        self._wider: dict[tuple[Layout, Hashable, tuple[int, ...] | None, frozenset[str]], Layout] = {}
        self._wished: set[tuple[int, Layout]] = set()
        self._rescued: dict[Layout, Layout] = {}
        self._conversions: dict[tuple[Layout, Hashable, int | None], Conversion] = {}
        self._reshapes: list[int | None] = []
        self._reshapings: dict[tuple[int, int], Reshaping] = {}

    def codes(self, entities: pa.DictionaryArray) -> npt.NDArray[np.int32]:
        """The number of each row's entity, or NONE, DENIED or WAITING."""
        numbers = [self._number(entity) for entity in entities.dictionary.to_pylist()]
        table = np.array([*numbers, NONE], dtype=np.int32)
        places = entities.indices
        if places.null_count:
            places = places.fill_null(len(numbers))
        codes: npt.NDArray[np.int32] = table[places.to_numpy()]
        return codes

    def named_table(self, folder: str) -> int:
        """The number of the table that takes rows without an entity; its entity is the empty text, which no row has."""
        return self._add("", folder)

    def reshaping(self, code: int) -> int | None:
        """The rule of tables that has columns of an entity's records otherwise; None where they stay as they are."""
        return self._reshapes[code]

    def reshaped(self, place: int, record: int, columns: pa.Schema) -> Reshaping:
        """What the rule at this place makes of a record type with these columns."""
        found = self._reshapings.get((place, record))
        if found is None:
            rule = self._pins.rules.tables.specs[place].reshape or Reshape()
            try:
                found = Reshaping(rule, place, shape_of(rule, columns))
            except Unshapeable as error:
                found = Reshaping(rule, place, None, str(error))
            self._reshapings[place, record] = found
        return found

    def grow(
        self, code: int, record: Hashable, columns: pa.Schema, places: tuple[int, ...] | None = None
    ) -> bool:
        """Let an entity's layout take up a record type's columns, or only those at `places`; whether it changed."""
        before = self.layouts[code]
        # A table that may not grow can share its layout with a new one that may.
        frozen = not self._grows(code) and self.folders[code] in self._pins.tables.known
        upsert = self._upserts[code]
        key = (before, record, places, frozen, upsert if upsert is not None and upsert.history else None)
        if key not in self._grown:
            brought = _brought(columns, places)
            after = before if frozen else grown(before, brought, self._adding(upsert))
            self._grown[key] = with_bounds(upsert, after)
        self.layouts[code] = self._grown[key]
        return self.layouts[code] != before

    def wish(
        self, code: int, record: Hashable, columns: pa.Schema, places: tuple[int, ...] | None = None
    ) -> Layout | None:
        """The columns that an entity's table should have to hold what a record type brings, told once; None where it does.

        Rows that are here already fit the columns as they are, so it is for the driver to begin again with wider ones.
        """
        fit = self._fits[code]
        if not (self._pins.tables.widen if fit is None else fit.widens):
            return None
        known, layout = self._pins.tables.known.get(self.folders[code]), self.layouts[code]
        by = self._partitions[code].columns(layout)
        fixed = frozenset(by) if known is None else known.fixed.union(by)
        key = (layout, record, places, fixed)
        if key not in self._wider:
            held = of_records(self._pins.rules.columns, layout)
            wide = grown(held, _brought(columns, places), GrowthRules(adds=False, widens=True, fixed=fixed))
            self._wider[key] = layout if wide == held else wide
        wide = self._wider[key]
        if wide == layout or (code, wide) in self._wished:
            return None
        self._wished.add((code, wide))
        return wide

    def rule(self, code: int) -> int | None:
        """The rule of tables whose policies an entity's table has; None where it has those of all."""
        return None if self._fits[code] is None else self._pins.rules.tables.of(self.names[code]).place

    def upsert(self, code: int) -> Upsert | None:
        """How rows of an entity's table take the place of earlier ones; None where each is added."""
        return self._upserts[code]

    def expects(self, code: int) -> tuple[Expectation, ...]:
        """What records of an entity's table are to meet."""
        return self._expects[code]

    def partitions(self, code: int) -> PartitionedBy:
        """What an entity's table is partitioned by."""
        return self._partitions[code]

    def conversion(self, record: Hashable, columns: pa.Schema, code: int) -> Conversion:
        """How a record type's columns become those of an entity's layout, which it shares with those of the same rule."""
        layout, fit = self.layouts[code], self._fits[code]
        key = (layout, record, self.rule(code))
        if key not in self._conversions:
            full = of_records(self._pins.rules.columns, layout)
            policies = self._pins.rules.policies if fit is None else fit.policies
            self._conversions[key] = conversion_for(columns, full.columns, policies)
        return self._conversions[key]

    def rescue(self, codes: Sequence[int]) -> None:
        """Give these entities' files the column of rescued values."""
        for code in codes:
            before = self.layouts[code]
            if before not in self._rescued:
                self._rescued[before] = with_rescued(self._pins.rules.columns, before)
            self.layouts[code] = self._rescued[before]

    def entity_of(self, folder: str) -> str:
        """The entity whose table this is."""
        return self.names[self._by_folder[folder]]

    def layout_of(self, folder: str) -> Layout:
        """The payload columns of this table's file as of now."""
        return self.layouts[self._by_folder[folder]]

    def _adding(self, upsert: Upsert | None) -> GrowthRules:
        bounds = () if upsert is None else upsert.bounds
        return GrowthRules(reserved=self._pins.rules.columns.reserved().union(bounds))

    def _grows(self, code: int) -> bool:
        fit = self._fits[code]
        return self._pins.tables.grow if fit is None else fit.grows

    def _number(self, entity: str) -> int:
        if entity not in self._numbers:
            folder = self._pins.rules.route.folder(entity)
            number = self._by_folder[folder] if folder in self._by_folder else self._admit(entity, folder)
            if number < 0:  # not kept: a million names without a table would be kept for nothing
                return number
            self._numbers[entity] = number
        return self._numbers[entity]

    def _admit(self, entity: str, folder: str) -> int:
        pins = self._pins
        # What remembers the deletes of another table is called so, whatever is there by that name.
        taken = folder.endswith(MEMORY_SUFFIX) and pins.rules.tables.remembers
        if taken or folder in pins.tables.denied:
            return DENIED
        if folder not in pins.tables.known and folder not in pins.tables.admitted:
            if is_too_long(pins, entity):
                return DENIED
            if self._new >= pins.tables.new_tables:
                return DENIED if pins.turn.tables_final else WAITING
            self._new += 1
        return self._add(entity, folder)

    def _add(self, entity: str, folder: str) -> int:
        if folder not in self._by_folder:
            known = self._pins.tables.known.get(folder)
            self.names.append(known.entity if known else entity)
            self.folders.append(folder)
            self._fits.append(self._pins.rules.tables.fit(self.names[-1]))
            self._upserts.append(self._pins.rules.tables.upsert(self.names[-1]))
            self._partitions.append(partitioned_by(self._pins, folder, self.names[-1]))
            self._expects.append(self._pins.rules.tables.expects(self.names[-1]))
            reshape = self._pins.rules.tables.reshape(self.names[-1])
            self._reshapes.append(
                None if reshape is None else self._pins.rules.tables.of(self.names[-1]).place
            )
            self.layouts.append(with_mark(self._upserts[-1], known.layout if known else NO_COLUMNS))
            self._by_folder[folder] = len(self.names) - 1
        return self._by_folder[folder]


def is_too_long(pins: Pins, entity: str) -> bool:
    """Whether an entity gets no new table for its name's length; where none is to be new, who stops the run is to hear of it."""
    return len(entity) > ENTITY_LENGTH and pins.rules.policies.new_entity != "fail"


def _brought(columns: pa.Schema, places: tuple[int, ...] | None) -> pa.Schema:
    return columns if places is None else pa.schema([columns.field(place) for place in places])
