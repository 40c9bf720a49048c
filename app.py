"""CarbonRouter in the browser: page settings and navigation, nothing else."""

from pathlib import Path

import streamlit as st

LOGO = Path(__file__).parent / "assets" / "logo.svg"

st.set_page_config(page_title="CarbonRouter", page_icon=str(LOGO), layout="wide")
st.logo(str(LOGO), size="large")
st.navigation(
    [
        st.Page("pages/overview/page.py", title="Overview", icon=":material/eco:", default=True),
        st.Page(
            "pages/scenario/page.py", title="Scenario", icon=":material/tune:", url_path="choices"
        ),
        st.Page(
            "pages/session_replay/page.py",
            title="Session replay",
            icon=":material/route:",
            url_path="session-replay",
        ),
        st.Page(
            "pages/compare/page.py",
            title="Compare",
            icon=":material/balance:",
            url_path="comparison",
        ),
        st.Page(
            "pages/sensitivity/page.py",
            title="Sensitivity",
            icon=":material/monitoring:",
            url_path="what-matters",
        ),
        st.Page(
            "pages/energy_planning/page.py",
            title="Energy planning",
            icon=":material/electric_meter:",
            url_path="plan",
        ),
        # An address that is no file name under pages/: Streamlit would run that file by itself,
        # without this one, for whoever opens the link first.
        st.Page(
            "pages/traffic_data/page.py",
            title="Traffic data",
            icon=":material/forum:",
            url_path="traffic-data",
        ),
        st.Page(
            "pages/grid_data/page.py",
            title="Grid data",
            icon=":material/bolt:",
            url_path="grid-data",
        ),
        st.Page(
            "pages/report/page.py",
            title="Report",
            icon=":material/lab_profile:",
            url_path="take-away",
        ),
        st.Page(
            "pages/method/page.py",
            title="Method",
            icon=":material/functions:",
            url_path="how-it-is-computed",
        ),
    ]
).run()
