"""Models, GPU types and energy points of the user in the store: one table, a row an entry.

All entries are written at once, so that an import is stored as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from carbonrouter_core.errors import CatalogError
from carbonrouter_core.fleet.catalog import OwnEntry
from carbonrouter_core.fleet.own import (
    Additions,
    Entry,
    entry_from_json,
    entry_to_json,
    kind_of,
    read_additions,
    with_additions,
)
from carbonrouter_core.fleet.tables import read_catalog
from carbonrouter_core.store.store import open_store, table_if_readable
from carbonrouter_core.words.names import unknown

KIND = NAME = "own_catalog"


def stored_entries() -> tuple[tuple[str, str], ...]:
    """Kind and JSON of each stored entry; none where the store cannot be read."""
    return _entries_in(table_if_readable(KIND, NAME))


def _entries_in(table: pa.Table | None) -> tuple[tuple[str, str], ...]:
    return () if table is None else tuple(zip(*table.to_pydict().values(), strict=True))


def additions_from(entries: Iterable[tuple[str, str]]) -> Additions:
    """Models, GPU types and energy curves from :func:`stored_entries`."""
    return Additions.among([entry_from_json(kind, text) for kind, text in entries])


def stored_additions() -> Additions:
    """The user's models, GPU types and energy curves, in the order they were added."""
    return additions_from(stored_entries())


def import_catalog(
    models: Path | None = None, gpus: Path | None = None, energy_points: Path | None = None
) -> tuple[OwnEntry, ...]:
    """Store the entries of the user's CSV tables; an entry of the same name is replaced.

    Returns what was stored. Raises :class:`CatalogError` as
    :func:`~.fleet.own.read_additions`; nothing is stored then.
    """
    if not (models or gpus or energy_points):
        raise CatalogError("Give a table of models, GPU types or energy points.")

    def with_tables(table: pa.Table | None) -> tuple[pa.Table, tuple[OwnEntry, ...]]:
        stored = additions_from(_entries_in(table))
        added = read_additions(with_additions(read_catalog(), stored), models, gpus, energy_points)
        every = {(kind_of(entry), entry.name): entry for entry in (*stored.all, *added.all)}
        return _table_of(every.values()), added.entries

    return open_store().change_table(KIND, NAME, with_tables)


def delete_entry(kind: str, name: str) -> tuple[str, ...]:
    """Delete an own entry, and the own energy points of a deleted model or GPU type.

    ``kind``: one of :data:`~.fleet.own.KINDS`. Returns the names of these energy points. Raises
    :class:`CatalogError` where there is no such entry.
    """

    def without_entry(table: pa.Table | None) -> tuple[pa.Table, tuple[str, ...]]:
        stored = additions_from(_entries_in(table))
        names = [entry.name for entry in stored.all if kind_of(entry) == kind]
        if name not in names:
            raise CatalogError(
                unknown(f"{kind} of your own", name, names)
                if names
                else f"There is no {kind} of your own."
            )
        curves = {
            curve.name
            for curve in stored.energy
            if (kind, name) in (("model", curve.model), ("GPU type", curve.gpu))
        }
        gone = {(kind, name), *(("energy points", curve) for curve in curves)}
        remaining = (entry for entry in stored.all if (kind_of(entry), entry.name) not in gone)
        return _table_of(remaining), tuple(sorted(curves))

    return open_store().change_table(KIND, NAME, without_entry)


def _table_of(entries: Iterable[Entry]) -> pa.Table:
    rows = [(kind_of(entry), entry_to_json(entry)) for entry in entries]
    return pa.table(
        {
            "kind": pa.array([kind for kind, _ in rows], pa.string()),
            "entry": pa.array([text for _, text in rows], pa.string()),
        }
    )
