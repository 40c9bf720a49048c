"""The user says what the columns of a table are, or picks a kept mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from carbonrouter_core.reading.mapping import ColumnMapping, MappingKind
from carbonrouter_core.store.mappings import save_mapping, stored_mappings

NO_COLUMN = ""
"""The choice that nothing in the file is this."""


def mapping_choice(kind: MappingKind, key: str) -> ColumnMapping | None:
    """A kept mapping to start from; None for a new one, and where none is kept."""
    kept = {mapping.name: mapping for mapping in stored_mappings(kind)}
    if not kept:
        return None
    name = st.selectbox(
        "Columns kept from before",
        ["", *kept],
        format_func=lambda choice: choice or "None: say them below",
        key=f"{key}-mapping",
    )
    return kept.get(name)


def column_choices(
    names: Sequence[str], meanings: Mapping[str, str], chosen: Mapping[str, str], key: str
) -> dict[str, str]:
    """A choice of a column for each meaning; the columns that were chosen.

    Parameters
    ----------
    names
        Columns of the file.
    meanings
        Label of each column of ours.
    chosen
        The columns of a kept mapping, which are chosen to begin with.
    key
        Of the widgets; another one for another file or mapping.
    """
    parts = st.columns(2, gap="medium")
    columns = {}
    for number, (ours, label) in enumerate(meanings.items()):
        options = [NO_COLUMN, *names]
        first = options.index(chosen[ours]) if chosen.get(ours) in names else 0
        with parts[number % 2]:
            name = st.selectbox(
                label,
                options,
                index=first,
                format_func=lambda choice: choice or "No column",
                key=f"{key}-{ours}",
            )
        if name != NO_COLUMN:
            columns[ours] = name
    return columns


def keep(mapping: ColumnMapping) -> None:
    """Keep a mapping for the next file, and say so."""
    save_mapping(mapping)
    st.toast(f"Columns kept as {mapping.name}")
