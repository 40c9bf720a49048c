"""Tables with few rows that are read as text, as HTML: the same markup on every page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    label: str = "",
    total: bool = False,
    style: str = "",
) -> str:
    """A table: a row's first cell is its name, and the others are its values.

    ``heads`` are texts; cells are HTML, so names that a user gave come escaped. ``label`` names a
    wide table of figures, which can be scrolled sideways by touch and by key. ``total``: the last
    row is the sum of the others. ``style``: a class of its own.
    """
    head = "".join(
        f'<th scope="col">{escape(text)}</th>' if text else "<td></td>" for text in heads
    )
    lines = [
        f'<th scope="row">{name}</th>' + "".join(f"<td>{value}</td>" for value in values)
        for name, *values in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines[: -1 if total else None])
    if total:
        body += f'<tr class="cr-total">{lines[-1]}</tr>'
    classes = " ".join(filter(None, ("cr-table", "cr-figures" if label else "", style)))
    table = f'<table class="{classes}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    if not label:
        return table
    named = f'tabindex="0" role="region" aria-label="{escape(label)}"'
    return f'<div class="cr-wide" {named}>{table}</div>'
