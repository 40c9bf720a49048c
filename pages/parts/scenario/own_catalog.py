"""Models, GPU types and energy points of the user: templates, upload, list, delete."""

from __future__ import annotations

import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

import carbonrouter_core as core
from carbonrouter_core.fleet.catalog import OwnEntry
from carbonrouter_core.fleet.own import TABLES, template_csv
from carbonrouter_core.store.own_catalog import delete_entry, import_catalog, stored_additions
from pages.shared import cache, page, state
from pages.shared.markdown import plain

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile

LABELS = {"models": "Models", "gpus": "GPU types", "energy_points": "Energy points"}
UPLOADS = "own-catalog-uploads"
"""How often tables were stored in this tab: a new number empties the fields for files."""


def draw() -> None:
    """What is stored, and the ways to change it."""
    with st.expander("Your own models and GPU types"):
        stored = stored_additions()
        _templates()
        _upload()
        if stored.entries:
            _listing(stored.entries)
            for note in stored.lacking:
                page.note(escape(note))
            _delete(stored.entries)


def _templates() -> None:
    page.note(
        "Tables as CSV, with the columns of the built-in ones. A model can be used on a GPU type "
        "if there are energy points for the two. Each template holds an example to replace."
    )
    bar = st.container(horizontal=True)
    for table, label in LABELS.items():
        bar.download_button(
            f"Template: {label.lower() if table != 'gpus' else label}",
            template_csv(table),
            file_name=f"{table}.csv",
            mime="text/csv",
            on_click="ignore",
            key=f"own-template-{table}",
            icon=":material/download:",
        )


def _upload() -> None:
    number = st.session_state.setdefault(UPLOADS, 0)
    with st.form("own-catalog", border=False):
        columns = st.columns(len(LABELS), gap="small")
        files = {
            table: column.file_uploader(
                LABELS[table], type="csv", key=f"own-{table}-{number}", max_upload_size=10
            )
            for table, column in zip(TABLES, columns, strict=True)
        }
        sent = st.form_submit_button("Check and store", type="primary")
    if sent:
        try:
            entries = _store({table: file for table, file in files.items() if file is not None})
        except core.CarbonRouterError as error:
            st.error(f"Nothing was stored. {plain(str(error))}", icon=":material/block:")
            return
        cache.forget()
        st.session_state[UPLOADS] += 1
        st.toast(f"Stored {plain(', '.join(entry.name for entry in entries))}")
        st.rerun()


def _store(files: dict[str, UploadedFile]) -> tuple[OwnEntry, ...]:
    with tempfile.TemporaryDirectory(prefix="carbonrouter-") as folder:
        paths = {}
        for table, file in files.items():
            paths[table] = Path(folder, table, Path(file.name).name)
            paths[table].parent.mkdir()
            paths[table].write_bytes(file.getvalue())
        return import_catalog(**paths)


def _listing(entries: tuple[OwnEntry, ...]) -> None:
    table = pd.DataFrame(
        [(entry.kind, entry.name, entry.row, entry.sha256[:12]) for entry in entries],
        columns=["What", "Name", "From", "SHA-256 begins"],
    )
    st.dataframe(table, hide_index=True, key="own-entries")


def _delete(entries: tuple[OwnEntry, ...]) -> None:
    bar = st.container(horizontal=True, vertical_alignment="bottom")
    entry = bar.selectbox(
        "Entry to delete",
        entries,
        format_func=lambda entry: f"{entry.kind}: {entry.name}",
        key="own-entry",
    )
    bar.button("Delete it", on_click=_deleted, args=(entry,), key="own-delete")


def _deleted(entry: OwnEntry) -> None:
    """Delete an entry, and take it out of the scenario: this has no figures without it."""
    try:
        delete_entry(entry.kind, entry.name)
    except core.CarbonRouterError as error:
        st.error(f"Not deleted: {plain(str(error))}", icon=":material/block:")
        return
    cache.forget()
    scenario, default = state.current(), core.Scenario()
    models = tuple(name for name in scenario.models if (entry.kind, entry.name) != ("model", name))
    gpus = tuple(name for name in scenario.gpus if (entry.kind, entry.name) != ("GPU type", name))
    places = {gpu: where for gpu, where in scenario.gpu_regions.items()
              if (entry.kind, entry.name) != ("GPU type", gpu)}  # fmt: skip
    without = scenario.replace(
        models=models or default.models, gpus=gpus or default.gpus, gpu_regions=places
    )
    if without != scenario:
        state.adopt(without)
