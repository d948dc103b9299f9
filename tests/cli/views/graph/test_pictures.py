"""A pipeline's graph as a flowchart and as a picture: whole for any names, and never too large to look at."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.lineage.flow import Flow, FlowEdge, FlowNode
from distributary.views.graph.mermaid import mermaid
from distributary.views.graph.shown import with_most
from distributary.views.graph.svg import svg

SVG = "{http://www.w3.org/2000/svg}"


def flow(tables: dict[str, int | None], topic: str = "game-events", ran: bool = True) -> Flow:
    hub = FlowNode("pipeline:games", "pipeline", "games", "protobuf, routed by field game_name")
    found = [
        FlowNode(f"table:{name}", "table", name, f"/lake/{name}", name, rows) for name, rows in tables.items()
    ]
    quarantine = FlowNode("table:quarantine", "quarantine", "quarantine", "/lake/quarantine")
    registry = FlowNode("registry", "registry", "schema registry", "http://127.0.0.1:8081")
    source = FlowNode(f"topic:{topic}", "topic", topic)
    edges = [
        FlowEdge(source.id, hub.id, "records", 1_300 if ran else None),
        FlowEdge(registry.id, hub.id, "schemas"),
        *(FlowEdge(hub.id, one.id, "rows") for one in found),
        FlowEdge(hub.id, quarantine.id, "records", 1 if ran else None),
    ]
    return Flow("games", (source, registry, hub, *found, quarantine), tuple(edges), 2 if ran else 0)


def texts(picture: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(picture).iter(f"{SVG}text")]  # noqa: S314


def test_a_flowchart_has_each_thing_with_what_went_there() -> None:
    assert mermaid(flow({"chess": 1_200})).splitlines()[:10] == [
        "flowchart LR",
        '    n0(["game-events<br>1,300 records"]):::topic',
        '    n1[("schema registry<br>127.0.0.1:8081")]:::registry',
        '    n2{{"games<br>protobuf, routed by field game_name"}}:::pipeline',
        '    n3["chess<br>1,200 rows"]:::table',
        '    n4["quarantine<br>1 record"]:::quarantine',
        "    n0 --> n2",
        "    n1 -. schemas .-> n2",
        "    n2 --> n3",
        "    n2 --> n4",
    ]


def test_a_picture_has_each_thing_with_what_went_there() -> None:
    picture = svg(flow({"chess": 1_200, "go": None}))
    assert texts(picture) == [
        "game-events",
        "1,300 records",
        "schema registry",
        "127.0.0.1:8081",
        "games",
        "protobuf, routed by field game_name",
        "chess",
        "1,200 rows",
        "go",
        "rows of an entity",
        "quarantine",
        "1 record",
    ]
    root = ElementTree.fromstring(picture)  # noqa: S314
    ways = {one.get("class"): float(one.get("stroke-width", "")) for one in root.iter(f"{SVG}path")}
    assert set(ways) == {"way", "way asked"}
    assert len(list(root.iter(f"{SVG}path"))) == 5


def test_nothing_is_said_of_what_did_not_run() -> None:
    assert [text for text in texts(svg(flow({"chess": None}, ran=False))) if "record" in text] == []


@given(st.text(), st.text(min_size=1))
def test_names_are_data_and_end_no_label(topic: str, table: str) -> None:
    found = flow({table: 1}, topic)
    assert len(list(ElementTree.fromstring(svg(found)).iter(f"{SVG}rect"))) == 1 + len(found.nodes)  # noqa: S314
    lines = mermaid(found).splitlines()
    assert len(lines) == 1 + len(found.nodes) + len(found.edges) + 10
    for line in lines[1 : 1 + len(found.nodes)]:
        assert line.count('"') == 2


@pytest.mark.parametrize("most", [1, 2, 3])
def test_of_many_tables_those_with_the_most_rows_are_shown(most: int) -> None:
    found = with_most(flow({"a": 1, "b": 30, "c": 2, "d": 20}), most)
    tables = [(one.name, one.rows) for one in found.nodes if one.kind == "table"]
    expected = {
        1: [("4 more tables", 53)],
        2: [("b", 30), ("3 more tables", 23)],
        3: [("b", 30), ("2 more tables", 3), ("d", 20)],
    }
    assert sorted(tables) == sorted(expected[most])
    ends = {edge.target for edge in found.edges} | {edge.source for edge in found.edges}
    assert ends == {node.id for node in found.nodes}


def test_few_tables_are_all_shown() -> None:
    found = flow({"a": 1, "b": 2})
    assert with_most(found, 2) is found


def test_of_tables_whose_rows_nobody_knows_no_sum_is_told() -> None:
    found = with_most(flow({"a": 9, "b": None, "c": 2}), 2)
    assert [(one.name, one.rows) for one in found.nodes if one.kind == "table"][-1] == ("2 more tables", None)


def test_tables_that_are_made_of_tables_come_behind_them() -> None:
    found = flow({"a": 1, "b": 30, "c": 2})
    made = [
        FlowNode("table:gold", "derived", "gold", "/lake/gold", rows=7),
        FlowNode("table:best", "derived", "best"),
    ]
    more = [FlowEdge(f"table:{name}", "table:gold", "rows") for name in ("a", "b", "c")]
    more.append(FlowEdge("table:gold", "table:best", "rows"))
    whole = replace(found, nodes=(*found.nodes, *made), edges=(*found.edges, *more))
    root = ElementTree.fromstring(svg(whole))  # noqa: S314
    lefts = {
        one.get("class", "").partition(" ")[2]: float(one.get("x", ""))
        for one in root.iter(f"{SVG}rect")
        if one.get("x")
    }
    assert lefts["topic"] < lefts["pipeline"] < lefts["table"]
    derived = [
        float(one.get("x", "")) for one in root.iter(f"{SVG}rect") if one.get("class") == "box derived"
    ]
    assert lefts["table"] < derived[0] < derived[1]
    assert {"7 rows", "made of tables"} <= set(texts(svg(whole)))
    few = with_most(whole, 2)
    assert [(one.source, one.target) for one in few.edges if one.target == "table:gold"] == [
        ("table:*", "table:gold"),
        ("table:b", "table:gold"),
    ]


def test_what_is_derived_of_tables_that_are_not_shown_is_not_shown_either() -> None:
    found = flow({"a": 1, "b": 30, "c": 2})
    made = [FlowNode(f"table:gold_{name}", "derived", f"gold_{name}", rows=2) for name in "abc"]
    sent = [FlowNode(f"sent:{name}", "sent", name, "kafka:9092") for name in "abc"]
    best = FlowNode("table:best", "derived", "best")
    more = [
        edge
        for name in "abc"
        for edge in (
            FlowEdge(f"table:{name}", f"table:gold_{name}", "rows"),
            FlowEdge(f"table:gold_{name}", f"sent:{name}", "rows"),
            FlowEdge(f"table:gold_{name}", best.id, "rows"),
        )
    ]
    whole = replace(found, nodes=(*found.nodes, *made, best, *sent), edges=(*found.edges, *more))
    few = with_most(whole, 2)
    assert [one.name for one in few.nodes if one.kind in ("derived", "sent")] == [
        "gold_b",
        "best",
        "2 more derived tables",
        "b",
        "2 more topics and files",
    ]
    assert [one.rows for one in few.nodes if one.id == "derived:*"] == [4]
    assert ElementTree.fromstring(svg(few)) is not None  # noqa: S314


def test_names_that_begin_alike_are_told_apart_and_ways_run_between_boxes() -> None:
    long: dict[str, int | None] = {
        f"silver_of_a_tenant_with_a_very_long_name_{n}_events": n for n in range(3)
    }
    found = flow({**long})
    made = [FlowNode(f"table:{name}", "derived", name) for name in ("first", "second", "last")]
    first = f"table:{next(iter(long))}"
    more = [
        FlowEdge(first, "table:first", "rows"),
        FlowEdge("table:first", "table:second", "rows"),
        FlowEdge("table:second", "table:last", "rows"),
        FlowEdge(first, "table:last", "rows"),
    ]
    drawn = svg(replace(found, nodes=(*found.nodes, *made), edges=(*found.edges, *more)))
    shown = [text for text in texts(drawn) if "\N{HORIZONTAL ELLIPSIS}" in text]
    assert len(set(shown)) == 3
    assert {len(text) for text in shown} == {40}
    ways = [one.get("d", "") for one in ElementTree.fromstring(drawn).iter(f"{SVG}path")]  # noqa: S314
    # The last one passes two columns by, on a lane in each.
    assert ways[-1].count(" L") == 2
