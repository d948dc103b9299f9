import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distributary.errors import ConfigError
from distributary.ingest.columns import safe_names as names

TEMPLATES = st.sampled_from(["{entity}", "silver_{entity}_events", "ledger_{entity}", "{entity}_x"])
# Anything a payload may hold, and what is nasty on purpose.
ENTITIES = st.one_of(
    st.text(st.characters(exclude_categories=[]), max_size=80),
    st.text("aA_./ -0", max_size=6),
    st.sampled_from(
        [
            "..",
            ".",
            "",
            "con",
            "NUL",
            "lpt1",
            "quarantine",
            "ledger_batches",
            "../../etc/passwd",
            "a\0b",
            "_x",
            "\u202eabc",
            "batches",
        ]
    ),
)


@given(TEMPLATES, ENTITIES, st.booleans())
def test_a_table_name_is_one_plain_safe_folder_name(template: str, entity: str, fold_case: bool) -> None:
    name = names.table_name(template, entity, fold_case)
    assert re.fullmatch(r"[a-z0-9][a-z0-9_]*", name)
    assert len(name) <= names.TABLE_NAME_LENGTH
    names.check_table(name)


@given(ENTITIES, st.booleans())
def test_a_table_never_leaves_the_root(
    tmp_path_factory: pytest.TempPathFactory, entity: str, fold_case: bool
) -> None:
    root = tmp_path_factory.getbasetemp().resolve()
    assert (root / names.table_name("{entity}", entity, fold_case)).resolve().parent == root


@given(TEMPLATES, ENTITIES, ENTITIES)
@example("{entity}", "a" * 64, "a" * 65)
@example("ledger_{entity}", "batches", "batches_")
def test_two_values_never_share_a_table(template: str, one: str, other: str) -> None:
    same = names.table_name(template, one, False) == names.table_name(template, other, False)
    assert same == (one == other)
    folded = names.table_name(template, one, True) == names.table_name(template, other, True)
    assert folded == (one.casefold() == other.casefold())


@given(TEMPLATES, ENTITIES)
def test_a_value_that_is_another_ones_name_gets_a_name_of_its_own(template: str, entity: str) -> None:
    prefix, _, suffix = template.partition("{entity}")
    name = names.table_name(template, entity, False)
    inside = name[len(prefix) : len(name) - len(suffix)]
    if inside != entity:
        assert names.table_name(template, inside, False) != name


@pytest.mark.parametrize(
    ("entity", "fold_case", "expected"),
    [
        ("zelda", True, "silver_zelda_events"),
        ("ZELDA", True, "silver_zelda_events"),
        ("ZELDA", False, "silver_zelda_ea99f081a7f25be2_events"),
        ("Space Raiders", True, "silver_space_raiders_921e9a627a1be353_events"),
        ("", True, "silver_entity_e3b0c44298fc1c14_events"),
        ("日本", True, "silver_entity_cf2abf0c5be326cb_events"),
        ("../../etc", True, "silver_etc_74ccf3c5b4c19a81_events"),
    ],
)
def test_names_stay_what_they_are_from_release_to_release(
    entity: str, fold_case: bool, expected: str
) -> None:
    assert names.table_name("silver_{entity}_events", entity, fold_case) == expected


@pytest.mark.parametrize("entity", sorted(names.RESERVED_TABLES))
def test_no_entity_takes_a_table_of_distributarys_own(entity: str) -> None:
    assert names.table_name("{entity}", entity, True).startswith(f"{entity}_")
    assert names.table_name("ledger_{entity}", "batches", True) != "ledger_batches"


@pytest.mark.parametrize(
    "template",
    [
        "silver",
        "{entity}{entity}",
        "Silver_{entity}",
        "_{entity}",
        "a/{entity}",
        "../{entity}",
        "{entity}.d",
        "x" * 60 + "{entity}",
        "",
    ],
)
def test_a_template_that_cannot_be_safe_is_refused(template: str) -> None:
    with pytest.raises(ConfigError):
        names.check_template(template)


@pytest.mark.parametrize("name", ["quarantine", "_x", "", "a/b", "..", "Con", "nul", "x" * 64, "a\n"])
def test_a_table_named_by_the_user_is_held_to_the_same_rules(name: str) -> None:
    with pytest.raises(ConfigError):
        names.check_table(name)


@given(TEMPLATES, ENTITIES)
def test_every_name_that_an_entity_gets_is_known_to_be_possible(template: str, entity: str) -> None:
    assert names.may_be_an_entity(template, names.table_name(template, entity, True))
    assert not names.may_be_an_entity("silver_{entity}", "no_game")


FIELDS = st.one_of(
    st.text(st.characters(exclude_categories=[]), max_size=12),
    st.text("aA.b ", max_size=4),
    st.just("x" * 400),
)


@given(st.lists(FIELDS, unique=True, max_size=12))
def test_column_names_are_distinct_case_aside_and_safe(fields: list[str]) -> None:
    taken: set[str] = set()
    for field in fields:
        name = names.column_name(field, taken)
        assert names.fold(name) not in taken
        assert 0 < len(name) <= names.COLUMN_NAME_LENGTH
        assert not set(name) & set(" ,;{}()\n\t=.`\0\u202e")
        taken.add(names.fold(name))


@given(FIELDS)
def test_a_column_name_given_once_is_kept_when_it_comes_back_as_a_field(field: str) -> None:
    name = names.column_name(field, set())
    assert names.column_name(name, set()) == name


@pytest.mark.parametrize(
    ("field", "taken", "expected"),
    [
        ("level", set(), "level"),
        ("Level", {"level"}, "Level_1709305c"),
        ("kafka_key", {"kafka_key"}, "kafka_key_f2a006a4"),
        ("a b", set(), "a_b_c8687a08"),
        ("a.b", set(), "a_b_2e7336dc"),
        ("", set(), "field_e3b0c442"),
    ],
)
def test_a_renamed_column_keeps_its_name_for_ever(field: str, taken: set[str], expected: str) -> None:
    assert names.column_name(field, taken) == expected


def test_a_field_called_like_a_renamed_one_is_renamed_again() -> None:
    renamed = names.column_name("A", {"a"})
    again = names.column_name(renamed, {"a", names.fold(renamed)})
    assert names.fold(again) not in {"a", names.fold(renamed)}


@pytest.mark.parametrize(
    ("one", "other"), [("\u0131", "I"), ("\u0130", "i"), ("\u017f", "S"), ("\u212a", "k"), ("ß", "SS")]
)
def test_names_that_any_engine_may_take_for_one_are_told_apart(one: str, other: str) -> None:
    assert names.fold(one) == names.fold(other)
