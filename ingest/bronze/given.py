"""What the settings say of records that are kept as they came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import field_validator

from distributary.errors import ConfigError
from distributary.ingest.bronze.rule import TOPIC, AsTheyCame, folder_of
from distributary.ingest.columns import safe_names as names
from distributary.values import Group, Name, Wrong


class Bronze(Group):
    """Every record that is read, once and as it came, in a table beside those of the entities."""

    table: Name = "bronze"
    """The table's name: a-z, 0-9 and _. With `{topic}` in it each topic has one of its own, such as `bronze_{topic}`; a topic's name that is not made of those characters gets a hash appended."""

    @field_validator("table")
    @classmethod
    def _usable(cls, name: str) -> str:
        if TOPIC in name:
            try:
                names.check_template(name.replace(TOPIC, names.ENTITY))
            except ConfigError as error:
                raise ConfigError(str(error).replace(names.ENTITY, TOPIC)) from None
        else:
            names.check_table(name)
        if name.endswith(names.MEMORY_SUFFIX):
            raise ConfigError(
                f"what remembers the deletes of a table is called so; choose a name that does not end in {names.MEMORY_SUFFIX}"
            )
        return name

    def tables(self, topics: Sequence[str]) -> AsTheyCame:
        """Where the records of these topics go."""
        return AsTheyCame({topic: folder_of(self.table, topic) for topic in topics}, headers=True)

    def wrong_for(
        self, topics: Sequence[str], erased: Sequence[object], no_entity: str | None
    ) -> Iterator[Wrong]:
        """What does not go with the rest of the settings.

        no_entity  the table that takes records without an entity, if there is one
        """
        if erased:
            why = "`erased` keeps records out by what their fields say, which is known only once they are decoded, and bronze takes each as it came"
            yield (), f"{why}: leave one of the two out"
        if no_entity in self.tables(topics).folders:
            yield ("table",), "policies.no_entity has a table of this name; choose another"
