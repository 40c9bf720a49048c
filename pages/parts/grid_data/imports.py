"""Bringing a carbon-intensity series: what the file does not say, its report, what is stored."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd
import streamlit as st

from carbonrouter_core.errors import CarbonRouterError, StoreError
from carbonrouter_core.grid.calendar import daily_means, whole_days
from carbonrouter_core.grid.importers import INTENSITY_IMPORTERS
from carbonrouter_core.grid.importers.base import IntensityOptions
from carbonrouter_core.grid.report import IntensityReport
from carbonrouter_core.grid.staging import StagedIntensity
from carbonrouter_core.reading.numbers import G_PER_KWH
from carbonrouter_core.scenario import BASES, KINDS
from carbonrouter_core.store.series import (
    StoredIntensity,
    delete_intensity,
    load_intensity,
    save_intensity,
    stored_intensity,
)
from carbonrouter_core.store.sites import known_zones, stranded_by
from carbonrouter_core.words import figures as fmt
from pages.shared import cache, findings, page
from pages.shared.markdown import plain

AS_THE_FILE = "As the file says"
PREVIEW_DAYS = 31


def ask_what_is_not_said() -> tuple[str | None, IntensityOptions]:
    """What the user knows of a file that the file does not say."""
    with st.expander("What the file does not say"):
        left, right = st.columns(2, gap="medium")
        with left:
            format_id = st.selectbox(
                "Format",
                ["", *INTENSITY_IMPORTERS],
                format_func=lambda name: (
                    INTENSITY_IMPORTERS[name].label if name else "Found from the content"
                ),
                key="grid-format",
            )
            zone = _choice("Grid zone", known_zones(), "grid-zone")
            zone_own = st.text_input(
                "or a zone of its own", key="grid-zone-own", max_chars=80,
                help="A name for a grid that is not in the list; sites of yours can stand on it.",
            )  # fmt: skip
            timezone = st.text_input(
                "Time zone of times without an offset",
                key="grid-timezone",
                placeholder="UTC, Europe/Berlin, America/New_York",
            )
            ends = st.toggle("Times are ends of intervals", key="grid-ends")
        with right:
            basis = _choice("Basis", list(BASES), "grid-basis")
            kind = _choice("Average or marginal", list(KINDS), "grid-kind")
            unit = _choice("Unit", list(G_PER_KWH), "grid-unit")
            decimal = _choice("Decimal mark", [",", "."], "grid-decimal")
            hourly = st.toggle("Keep hourly means of a finer series", key="grid-hourly")
        source = st.text_input("Who publishes it", key="grid-source", max_chars=200)
        licence = st.text_input("Licence", key="grid-licence", max_chars=200)
    own = zone_own.strip()
    return format_id or None, IntensityOptions(
        zone=own or zone,
        new_zones=(own,) if own else (),
        timezone=timezone.strip() or None,
        unit=unit,
        basis=basis,
        kind=kind,
        decimal=decimal,
        interval_end=ends or None,
        hourly=hourly,
        source=source.strip() or None,
        licence=licence.strip() or None,
    )


def _choice(label: str, values: list[str], key: str) -> str | None:
    chosen = st.selectbox(
        label, ["", *values], format_func=lambda value: value or AS_THE_FILE, key=key
    )
    return chosen or None


# --- The report ------------------------------------------------------------------------------


def show_report(report: IntensityReport) -> None:
    """The validation report: what was read, what it is taken for, what is wrong and where."""
    if not report.can_store:
        st.error(
            "This cannot be stored as it is. Mend what is listed below, or say what the file does "
            "not say, and check again.",
            icon=":material/block:",
        )
    else:
        st.success("The file is sound and can be stored.", icon=":material/check_circle:")
    st.markdown(f"**{plain(report.format_label)}**: {plain(report.format_reason)}.")
    figures = st.container(horizontal=True, key="grid-figures")
    for label, value in (
        ("Rows read", report.rows_read),
        ("Series", len(report.series)),
        ("Repaired", report.count("repaired")),
        ("Refused", report.refused),
    ):
        figures.metric(label, fmt.number(value), width="content")
    facts = [*report.facts.items(), ("Source", report.source), ("Licence", report.licence)]
    st.markdown("\n".join(f"- {name}: {plain(str(value))}" for name, value in facts))
    for guess in report.guesses:
        st.markdown(f"- Assumed: {plain(guess)}")
    if report.series:
        st.dataframe(
            pd.DataFrame(
                {
                    "Zone": [series.zone for series in report.series],
                    "Kind": [f"{series.kind}, {series.basis}" for series in report.series],
                    "Values": [series.granularity for series in report.series],
                    "From": [series.first_utc for series in report.series],
                    "To": [series.end_utc for series in report.series],
                    "Mean g/kWh": [round(series.mean_g_per_kwh) for series in report.series],
                    "Lowest": [round(series.lowest_g_per_kwh) for series in report.series],
                    "Highest": [round(series.highest_g_per_kwh) for series in report.series],
                    "Estimated": [
                        fmt.percent(100 * series.estimated_intervals / series.intervals)
                        for series in report.series
                    ],
                    "Forecast": [
                        "yes" if series.has_forecast else "no" for series in report.series
                    ],
                }
            ),
            hide_index=True,
            key="grid-series",
        )
    findings.show(report.findings, "grid-findings")


def decide(staged: StagedIntensity) -> bool:
    """Show what was checked and ask what to do with it; whether that has been decided."""
    st.html('<h2 class="cr-title">What is in the file</h2>')
    show_report(staged.report)
    suggested = staged.report.files[0].split(".")[0][:100]
    name = st.text_input("Name", suggested, max_chars=200, key="grid-name")
    buttons = st.container(horizontal=True)
    able = staged.report.can_store
    if buttons.button("Store and use", type="primary", disabled=not able, key="grid-store"):
        try:
            stored_as = save_intensity(staged, name)
        except CarbonRouterError as error:
            st.error(plain(str(error)), icon=":material/block:")
            return False
        cache.forget()  # figures are kept by scenario, and the scenario has not changed
        st.toast(f"Stored as {plain(stored_as)}")
        return True
    return bool(buttons.button("Discard", key="grid-discard"))


# --- What is stored --------------------------------------------------------------------------


def stored() -> tuple[list[StoredIntensity], str]:
    """The stored series, and why they cannot be used where the store cannot be read."""
    try:
        return stored_intensity(), ""
    except StoreError as error:
        return [], str(error)


def show_stored() -> None:
    """The series of the user: list, preview, delete."""
    intensities, locked = stored()
    st.html('<h2 class="cr-title">Your own series</h2>')
    if locked:
        st.warning(plain(locked), icon=":material/lock:")
    if not intensities:
        page.note(
            "None is stored. A series of yours goes before the built-in one of its zone wherever "
            "it covers the window; every page that shows intensity says which is used."
        )
        return
    st.dataframe(_table(intensities), hide_index=True, key="grid-stored")
    names = [intensity.name for intensity in intensities]
    if st.session_state.get("grid-chosen") not in names:
        st.session_state["grid-chosen"] = names[0]
    name = st.selectbox("Series", names, key="grid-chosen")
    with st.expander("Daily means"):
        for series in load_intensity(name):
            first, last = whole_days(series)
            days = daily_means(series, first, min(last, first + timedelta(days=PREVIEW_DAYS - 1)))
            st.markdown(f"{plain(series.zone)}, {series.kind}, {series.basis}")
            st.dataframe(
                days.round(3), hide_index=True, key=f"grid-days-{series.zone}-{series.basis}"
            )
        page.note(f"At most {PREVIEW_DAYS} whole days (UTC) are shown.")
    with st.popover("Delete"):
        st.markdown(f"Delete **{plain(name)}**? Built-in series of its zones are used again.")
        stranded = stranded_by(name)
        for site, zone in stranded.items():
            st.warning(
                f"Your site {plain(site)} stands on {plain(zone)}, which has no other "
                "carbon intensity. Delete the site first, or bring another series of its zone.",
                icon=":material/warning:",
            )
        if st.button("Yes, delete it", key="grid-delete", disabled=bool(stranded)):
            delete_intensity(name)
            cache.forget()
            st.rerun()


def _table(intensities: list[StoredIntensity]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "Name": intensity.name,
                "Zone": series["zone"],
                "Kind": f"{series['kind']}, {series['basis']}",
                "Values": series["granularity"],
                "From": series["first_utc"],
                "To": series["end_utc"],
                "Mean g/kWh": round(series["mean_g_per_kwh"]),
                "Source": series["source"],
                "Licence": series["licence"],
                "Stored": intensity.created_utc.strftime("%Y-%m-%d %H:%M UTC"),
            }
            for intensity in intensities
            for series in intensity.series
        ]
    )
