"""CarbonRouter in the browser: page settings and navigation, nothing else."""

from pathlib import Path

import streamlit as st

LOGO = Path(__file__).parent / "assets" / "logo.svg"

# The name of a script is the address of its page.
PAGES = {
    "overview": ("Overview", "eco"),
    "scenario": ("Scenario", "tune"),
    "session_replay": ("Session replay", "route"),
    "compare": ("Compare", "balance"),
    "sensitivity": ("Sensitivity", "monitoring"),
    "energy_planning": ("Energy planning", "electric_meter"),
    "traffic_data": ("Traffic data", "forum"),
    "grid_data": ("Grid data", "bolt"),
    "report": ("Report", "lab_profile"),
    "method": ("Method", "functions"),
}

st.session_state["navigation"] = True  # pages/shared/page.py: this script has run
st.set_page_config(page_title="CarbonRouter", page_icon=str(LOGO), layout="wide")
st.logo(str(LOGO), size="large")
st.navigation(
    [
        st.Page(
            f"pages/{name}.py",
            title=title,
            icon=f":material/{icon}:",
            default=name == "overview",
        )
        for name, (title, icon) in PAGES.items()
    ]
).run()
