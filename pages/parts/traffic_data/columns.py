"""What the columns of the user's own log are, its first rows, and what they would become."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pandas as pd
import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from carbonrouter_core.errors import CarbonRouterError
from carbonrouter_core.traces.importers.base import ImportOptions
from carbonrouter_core.traces.preview import first_rows, what_rows_become
from pages.shared import column_mapping, uploads
from pages.shared.markdown import plain

MEANINGS = {
    "prompt_tokens": "Prompt tokens (needed)",
    "output_tokens": "Output tokens (needed)",
    "session": "Session",
    "time": "Time",
    "cached_tokens": "Cached tokens, which the prompt holds",
    "cache_read_tokens": "Tokens read from the cache",
    "cache_written_tokens": "Tokens written to the cache",
    "reasoning_tokens": "Reasoning tokens",
    "total_tokens": "All tokens",
    "request": "Id of the request",
    "model": "Model that served",
    "region": "Region that served",
    "user_region": "Region of the user",
}
"""What each column of :data:`carbonrouter_core.traces.importers.mapped.MAPPED` is called here."""
KEY = "trace-columns"
_SEEN = "trace-columns-seen"


def ask(files: Sequence[UploadedFile], options: ImportOptions) -> ImportOptions:
    """``options`` with the columns that the user names, if any."""
    if not files or not st.toggle(
        "Say what its columns are",
        key=KEY,
        help="For a log that is not recognised, or of which another column is to be taken.",
    ):
        return options
    try:
        rows = _first_rows(files[0])
    except CarbonRouterError as error:
        st.error(plain(str(error)), icon=":material/block:")
        return options
    mapping = column_mapping.mapping_choice("trace", KEY)
    known = {} if mapping is None else mapping.columns
    of_file = f"{KEY}-{files[0].file_id}-{'' if mapping is None else mapping.name}"
    columns = column_mapping.column_choices(list(rows), MEANINGS, known, of_file)
    if mapping is not None:
        options = options.below(mapping)
    options = dataclasses.replace(options, columns=columns)
    st.markdown("First rows of the file")
    st.dataframe(rows, hide_index=True, key=f"{KEY}-rows")
    if columns:
        _show_what_they_become(files[0], options)
        _offer_to_keep(options)
    return options


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


def _show_what_they_become(file: UploadedFile, options: ImportOptions) -> None:
    upload = uploads.copy([file])
    try:
        became = what_rows_become(upload.paths[0], upload.names[0], options)
    except CarbonRouterError as error:
        st.info(plain(str(error)), icon=":material/info:")
    else:
        st.markdown("What they become")
        st.dataframe(became, hide_index=True, key=f"{KEY}-became")
    finally:
        upload.delete()


def _offer_to_keep(options: ImportOptions) -> None:
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    name = left.text_input(
        "Keep these columns for the next file as", max_chars=80, key=f"{KEY}-name"
    )
    if right.button("Keep", key=f"{KEY}-keep", disabled=not name.strip()):
        try:
            column_mapping.keep(options.mapping(name.strip()))
        except CarbonRouterError as error:
            st.error(plain(str(error)), icon=":material/block:")
