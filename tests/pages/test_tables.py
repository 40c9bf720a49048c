"""Tables of the pages: what is escaped, and what a reader with a screen reader or keys needs."""

from __future__ import annotations

from xml.etree import ElementTree

from pages.shared import tables


def test_heads_are_escaped_and_cells_are_html() -> None:
    table = ElementTree.fromstring(tables.html(("", "a < b"), [("<b>x</b>", "1"), ("y", "2")]))
    assert [cell.text for cell in table.findall("thead/tr/th")] == ["a < b"]
    rows = table.findall("tbody/tr")
    assert [row.findtext("td") for row in rows] == ["1", "2"]
    name = rows[0].find("th")
    assert name is not None
    assert name.findtext("b") == "x"
    assert name.get("scope") == "row"


def test_a_wide_table_has_a_name_and_is_reached_by_key() -> None:
    region = ElementTree.fromstring(tables.html(("A",), [("1",)], label='Figures "of all"'))
    assert region.get("aria-label") == 'Figures "of all"'
    assert region.get("tabindex") == "0"
    assert region.find("table") is not None


def test_the_last_row_alone_is_the_total() -> None:
    table = ElementTree.fromstring(tables.html(("A", "B"), [("x", "1"), ("All", "1")], total=True))
    classes = [row.get("class") for row in table.findall("tbody/tr")]
    assert classes == [None, "cr-total"]
