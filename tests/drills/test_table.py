"""What the docs say of the drills is what came of them, and nothing was lost."""

from __future__ import annotations

from drills.__main__ import DRILLS
from drills.table import PAGE, recorded, with_table

ROW = {
    "drill": "one",
    "rounds": 2,
    "faults": 1,
    "records": 6000,
    "lost": 0,
    "twice": 0,
    "recovery_seconds": 2.5,
}


def test_the_page_shows_what_is_on_record() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, recorded()) == page


def test_nothing_on_record_was_lost_or_twice() -> None:
    assert [row["drill"] for row in recorded() if row["lost"] or row["twice"] or not row["faults"]] == []


def test_what_is_on_record_is_in_the_order_of_the_drills() -> None:
    told = [row["drill"] for row in recorded()]
    assert told == [drill.name for drill in DRILLS if drill.name in told]


def test_each_drill_says_what_it_does() -> None:
    assert [drill.name for drill in DRILLS if not drill.does] == []
    page = PAGE.read_text(encoding="utf-8")
    assert [drill.name for drill in DRILLS if f"`{drill.name}`" not in page] == []


def test_the_table_is_made_anew_and_nothing_else() -> None:
    page = "a\n<!-- drills: begin -->\nold\n<!-- drills: end -->\nb\n"
    made = with_table(
        page, [{**ROW, "refused": ["Fenced"]}, {**ROW, "drill": "two", "recovery_seconds": None}]
    )
    assert made.startswith("a\n<!-- drills: begin -->\n| drill |")
    assert "| `one` | 2 | 1 | 6,000 | 0 | 0 | 2.5 | `Fenced` |" in made
    assert "| `two` | 2 | 1 | 6,000 | 0 | 0 |  |  |" in made
    assert made.endswith("<!-- drills: end -->\nb\n")
    assert with_table(made, [ROW]) == with_table(page, [ROW])
