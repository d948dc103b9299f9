"""The newest schemas that a pipeline will be given, however many subjects it watches."""

from __future__ import annotations

from pathlib import Path

from tests.ingest.schemas.far_away import FarAway

from distributary.codecs.base import load_codec
from distributary.ingest.evolution.candidates import Candidates
from distributary.ingest.schemas.inferred_per_entity import NO_FIELDS, EntitySchemas


def test_many_subjects_are_asked_for_at_once(tmp_path: Path) -> None:
    """Where each of a thousand entities has a schema of its own, a plan would take minutes otherwise."""
    files = FarAway(tmp_path / "schemas")
    names = [f"game_{number:02}" for number in range(16)]
    location = EntitySchemas(files, "inferred:games")
    location.register_each(dict.fromkeys(names, NO_FIELDS))
    location.register_each(dict.fromkeys(names, NO_FIELDS.replace("[]", "[{}]").replace("{}", FIELD)))
    anew = EntitySchemas(files, "inferred:games")
    files.only_together(8)
    subjects = [*map(anew.subject_of, names)]
    found = Candidates(load_codec("json"), anew, subjects)
    assert [(one.subject, one.version) for one in found.newest] == [
        (subject, number) for number, subject in enumerate(subjects, 17)
    ]
    assert (list(found.of_entities), found.empty, files.reads) == (names, (), 16)


FIELD = '{"name":"a","type":"long","nullable":true,"metadata":{}}'
