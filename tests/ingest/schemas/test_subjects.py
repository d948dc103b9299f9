from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.pipelines import settings

from distributary.ingest.schemas.subjects import inferred_subject, key_subjects, value_subjects


def test_the_subjects_of_values_are_those_of_the_topics_unless_others_are_given(tmp_path: Path) -> None:
    plain = settings(tmp_path, source={"topics": ["a", "b"]})
    assert value_subjects(plain.source, plain.registry, plain.decode) == ("a-value", "b-value")
    given = settings(tmp_path, registry={"subjects": ["mine"]})
    assert value_subjects(given.source, given.registry, given.decode) == ("mine",)


@pytest.mark.parametrize(
    ("format_", "watched", "inferred"),
    [("protobuf", True, None), ("json", False, "inferred:games"), ("auto", True, "inferred:games")],
)
def test_a_format_has_subjects_where_records_name_a_schema_and_one_where_they_do_not(
    tmp_path: Path, format_: str, watched: bool, inferred: str | None
) -> None:
    chosen = settings(tmp_path, decode={"format": format_})
    assert bool(value_subjects(chosen.source, chosen.registry, chosen.decode)) is watched
    assert inferred_subject(chosen.name, chosen.decode) == inferred


def test_keys_have_subjects_of_their_own(tmp_path: Path) -> None:
    assert key_subjects(settings(tmp_path, source={"topics": ["a", "b"]}).source) == ("a-key", "b-key")
