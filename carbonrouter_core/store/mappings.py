"""Column mappings of the user, kept by name for the next file of the same kind."""

from __future__ import annotations

import json

import pyarrow as pa

from carbonrouter_core.errors import ReadingError
from carbonrouter_core.reading.mapping import ColumnMapping, MappingKind
from carbonrouter_core.store.store import open_store, table_if_readable
from carbonrouter_core.words.names import unknown

KIND = NAME = "mappings"

Rows = dict[tuple[str, str], str]
"""JSON of columns and what else was said, by kind and name."""


def stored_mappings(kind: MappingKind) -> tuple[ColumnMapping, ...]:
    """The user's mappings of a kind of file; none where the store cannot be read."""
    rows = _rows(table_if_readable(KIND, NAME))
    return tuple(
        ColumnMapping(name, kind, **json.loads(text))
        for (of_kind, name), text in rows.items()
        if of_kind == kind
    )


def mapping_named(kind: MappingKind, name: str) -> ColumnMapping:
    """The mapping ``name``. Raises :class:`ReadingError` with the nearest names if none is."""
    mappings = {mapping.name: mapping for mapping in stored_mappings(kind)}
    if name not in mappings:
        raise ReadingError(
            unknown("mapping", name, mappings)
            if mappings
            else f"There is no mapping {name!r}; none is stored."
        )
    return mappings[name]


def save_mapping(mapping: ColumnMapping) -> None:
    """Store a mapping; it takes the place of one of the same kind and name."""
    text = json.dumps({"columns": dict(mapping.columns), "said": dict(mapping.said)})

    def with_it(table: pa.Table | None) -> tuple[pa.Table, None]:
        return _table(_rows(table) | {(mapping.kind, mapping.name.strip()): text}), None

    open_store().change_table(KIND, NAME, with_it)


def delete_mapping(kind: MappingKind, name: str) -> None:
    """Delete a mapping. Raises :class:`ReadingError` where there is none."""
    mapping_named(kind, name)

    def without_it(table: pa.Table | None) -> tuple[pa.Table, None]:
        rows = _rows(table)
        rows.pop((kind, name), None)
        return _table(rows), None

    open_store().change_table(KIND, NAME, without_it)


def _rows(table: pa.Table | None) -> Rows:
    if table is None:
        return {}
    return {(row["kind"], row["name"]): row["mapping"] for row in table.to_pylist()}


def _table(rows: Rows) -> pa.Table:
    return pa.table(
        {
            "kind": pa.array([kind for kind, _ in rows], pa.string()),
            "name": pa.array([name for _, name in rows], pa.string()),
            "mapping": pa.array(list(rows.values()), pa.string()),
        }
    )
