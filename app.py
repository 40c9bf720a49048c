"""CarbonRouter in the browser: page settings and navigation, nothing else."""

from pathlib import Path

import streamlit as st

LOGO = Path(__file__).parent / "assets" / "logo.svg"

st.set_page_config(page_title="CarbonRouter", page_icon=str(LOGO), layout="wide")
st.logo(str(LOGO), size="large")
st.navigation(
    [st.Page("pages/overview.py", title="Overview", icon=":material/eco:", default=True)]
).run()
