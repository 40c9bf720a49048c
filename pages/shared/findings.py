"""What an import found in files, as a table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from carbonrouter_core.reading.findings import Finding

KIND_NAMES = {
    "refused": "Refused",
    "unreadable": "Cannot be read",
    "left out": "Left out",
    "repaired": "Repaired",
    "note": "Worth knowing",
}


def show(findings: Sequence[Finding], key: str) -> None:
    """Each finding with its number of rows and the first places; nothing where there is none."""
    if not findings:
        return
    st.markdown("**Findings**")
    rows = [
        {
            "": KIND_NAMES[finding.kind],
            "What": finding.reason,
            "Rows": finding.count,
            "Where": ", ".join(finding.places)
            + (", ..." if finding.count > len(finding.places) else ""),
        }
        for finding in findings
    ]
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key=key,
        column_config={
            "Where": st.column_config.TextColumn(width="medium"),
            "What": st.column_config.TextColumn(width="large"),
        },
    )
