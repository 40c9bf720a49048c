"""What the columns of the user's own table are, its first rows, and what they would become."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from carbonrouter_core.errors import CarbonRouterError
from carbonrouter_core.grid.importers.base import IntensityOptions
from carbonrouter_core.grid.preview import first_rows, what_rows_become
from carbonrouter_core.store.sites import own_zones
from pages.shared import column_mapping, uploads
from pages.shared.markdown import plain

MEANINGS = {
    "time": "Times",
    "clock": "Hour, where the times are dates only",
    "lifecycle": "Intensity, lifecycle",
    "direct": "Intensity, direct",
    "value": "Intensity (basis as said above)",
    "zone": "Zone",
    "estimated": "Whether a value is estimated",
    "forecast": "Forecast",
}
KEY = "grid-columns"
_SEEN = "grid-columns-seen"


def ask(files: Sequence[UploadedFile], options: IntensityOptions) -> IntensityOptions:
    """``options`` with the columns that the user names, if any."""
    if not files or not st.toggle(
        "Say what its columns are",
        key=KEY,
        help="For a table that is not recognised, or of which another column is to be taken.",
    ):
        return options
    try:
        rows = _first_rows(files[0])
    except CarbonRouterError as error:
        st.error(plain(str(error)), icon=":material/block:")
        return options
    mapping = column_mapping.mapping_choice("grid", KEY)
    known = {} if mapping is None else mapping.columns
    names = [name for name in rows if name]
    of_file = f"{KEY}-{files[0].file_id}-{'' if mapping is None else mapping.name}"
    columns = column_mapping.column_choices(names, MEANINGS, known, of_file)
    if mapping is not None:
        options = _with_said(options, mapping.said)
    options = dataclasses.replace(options, columns=columns)
    st.markdown("First rows of the file")
    st.dataframe(rows, hide_index=True, key=f"{KEY}-rows")
    if columns:
        _show_what_they_become(files[0], options)
        _offer_to_keep(options)
    return options


def _with_said(options: IntensityOptions, said: Mapping[str, Any]) -> IntensityOptions:
    """What was kept with the columns, below what is said now."""
    now, nothing = vars(options), vars(IntensityOptions())
    return IntensityOptions(**{**said, **{k: v for k, v in now.items() if v != nothing[k]}})


def _first_rows(file: UploadedFile) -> pd.DataFrame:
    seen, rows = st.session_state.get(_SEEN, ("", None))
    if seen != file.file_id:
        upload = uploads.copy([file])
        try:
            rows = first_rows(upload.paths[0], upload.names[0])
        finally:
            upload.delete()
        st.session_state[_SEEN] = (file.file_id, rows)
    return rows


def _show_what_they_become(file: UploadedFile, options: IntensityOptions) -> None:
    upload = uploads.copy([file])
    try:
        became = what_rows_become(upload.paths[0], upload.names[0], options, own_zones())
    except CarbonRouterError as error:
        st.info(plain(str(error)), icon=":material/info:")
    else:
        st.markdown("What they become")
        st.dataframe(became, hide_index=True, key=f"{KEY}-became")
    finally:
        upload.delete()


def _offer_to_keep(options: IntensityOptions) -> None:
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    name = left.text_input(
        "Keep these columns for the next file as", max_chars=80, key=f"{KEY}-name"
    )
    if right.button("Keep", key=f"{KEY}-keep", disabled=not name.strip()):
        try:
            column_mapping.keep(options.mapping(name.strip()))
        except CarbonRouterError as error:
            st.error(plain(str(error)), icon=":material/block:")
