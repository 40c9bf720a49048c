"""Carbon-intensity inputs that broke similar tools (cases 13 to 19), and the kind of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from carbonrouter_core import IntensityError
from carbonrouter_core.grid.importers.base import IntensityOptions
from carbonrouter_core.grid.series import utc_text
from carbonrouter_core.grid.staging import StagedIntensity, stage_intensity

HEADER = "time;zone;lifecycle_g_per_kwh\n"
HOUR_S = 3600


class Bring:
    """Writes a file and stages it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self, content: str | bytes, name: str = "grid.csv", format_id: str | None = None, **said
    ) -> StagedIntensity:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return stage_intensity([path], format_id, options=IntensityOptions(**said))


@pytest.fixture
def bring(tmp_path: Path) -> Bring:
    return Bring(tmp_path)


def hours(*values: object, zone: str = "DE-LU", first: int = 0) -> str:
    """A table of hours from 2024-01-01, one value each."""
    rows = [
        f"2024-01-{1 + (first + i) // 24:02d}T{(first + i) % 24:02d}:00Z;{zone};{value}"
        for i, value in enumerate(values)
    ]
    return HEADER + "\n".join(rows) + "\n"


def refusal(staged: StagedIntensity) -> str:
    """What the report refuses, which must be something."""
    assert not staged.report.can_store
    assert staged.series == ()
    with pytest.raises(IntensityError, match="Nothing was stored"):
        staged.require()
    return "\n".join(str(one) for one in staged.report.findings if one.kind == "refused")


# --- 13. Missing hours ------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["", "null", "-", "0", "0.0", "NaN", "n/a", "None", "NA", " "])
def test_a_missing_hour_is_never_0_but_filled_in_and_counted(bring: Bring, missing: str) -> None:
    staged = bring(hours(400, 300, missing, 500, 600))
    (series,) = staged.series
    assert series.g_per_kwh.tolist() == [400, 300, 400, 500, 600]
    assert series.estimated_share.tolist() == [0, 0, 1, 0, 0]
    assert staged.report.series[0].estimated_intervals == 1
    found = [str(one) for one in staged.report.findings if one.kind == "repaired"]
    assert any("counted as estimated (1; DE-LU 2024-01-01T02:00Z)" in one for one in found)


def test_a_row_that_is_not_there_is_a_hole_too(bring: Bring) -> None:
    lines = hours(400, 300, 1, 500).splitlines()
    del lines[3]
    (series,) = bring("\n".join(lines)).series
    assert series.g_per_kwh.tolist() == [400, 300, 400, 500]


def test_a_hole_of_three_hours_is_filled_and_a_longer_one_refused(bring: Bring) -> None:
    (series,) = bring(hours(100, "", "", "", 500)).series
    assert series.g_per_kwh.tolist() == [100, 200, 300, 400, 500]
    text = refusal(bring(hours(100, "", "", "", "", 500)))
    assert "no value from 2024-01-01T01:00Z to 2024-01-01T05:00Z (4 h)" in text
    quarters = [f"2024-01-01T{m // 60:02d}:{m % 60:02d}Z;GB;{m + 100}" for m in range(0, 420, 15)]
    whole = HEADER + "\n".join(quarters[:4] + quarters[16:])  # 01:00 to 04:00 are not there
    assert bring(whole).report.can_store
    assert "(3.25 h)" in refusal(bring(HEADER + "\n".join(quarters[:4] + quarters[17:])))


def test_missing_hours_at_the_ends_shorten_the_series(bring: Bring) -> None:
    (series,) = bring(hours("", "-", 300, 400, "null")).series
    assert utc_text(series.start_s) == "2024-01-01T02:00Z"
    assert series.g_per_kwh.tolist() == [300, 400]


def test_a_file_without_any_value_is_refused(bring: Bring) -> None:
    assert "no value in any row" in refusal(bring(hours("", "-", 0)))


# --- 14. Impossible values --------------------------------------------------------------------


def test_a_negative_intensity_is_refused_with_its_line(bring: Bring) -> None:
    text = refusal(bring(hours(400, -3, 300)))
    assert "lifecycle intensity is negative (1; line 3)" in text


def test_an_intensity_beyond_any_grid_is_refused_with_the_likely_unit(bring: Bring) -> None:
    assert "line 3" in (text := refusal(bring(hours(400, 2000.5, 300))))
    assert "likely another, such as g/MWh" in text
    assert bring(hours(400, 2000, 300)).report.can_store


@pytest.mark.parametrize("values", [(0.45, 0.41, 0.39), (400, 0.45, 390)])
def test_kilograms_are_told_from_grams(bring: Bring, values: tuple[float, ...]) -> None:
    assert "the unit is likely kg/kWh" in refusal(bring(hours(*values)))
    if max(values) < 1:
        (series,) = bring(hours(*values), unit="kg/kWh").series
        assert series.g_per_kwh == pytest.approx([450, 410, 390])


@pytest.mark.parametrize(
    ("column", "factor"),
    [
        ("direct gCO2eq/kWh", 1),
        ("direct (kgCO2/MWh)", 1),
        ("direct_kg_per_kwh", 1000),
        ("direct tCO2/MWh", 1000),
        ("direct lbs_co2_per_mwh", 0.45359237),
        ("direct gCO\N{SUBSCRIPT TWO}/MWh", 0.001),
    ],
)
def test_the_unit_is_read_from_the_column_and_shown(
    bring: Bring, column: str, factor: float
) -> None:
    value = 400 / factor
    text = f"time,zone,{column}\n2024-01-01T00:00Z,GB,{value}\n2024-01-01T01:00Z,GB,{value}\n"
    staged = bring(text)
    assert staged.series[0].g_per_kwh == pytest.approx([400, 400])
    assert "the column name" in staged.report.facts["Unit"]


@pytest.mark.parametrize("value", ["abc", "1e999", "12;3"[:2] + "x", "--5", "1.2.3"])
def test_text_for_a_number_is_refused(bring: Bring, value: str) -> None:
    staged = bring(hours(400, value, 300))
    assert "line 3" in refusal(staged)


# --- 15. Daylight saving ----------------------------------------------------------------------


def berlin(day: str, *clock: str, zone: str = "DE-LU") -> str:
    rows = [f"{day} {hour};{zone};{100 + i}" for i, hour in enumerate(clock)]
    return HEADER + "\n".join(rows) + "\n"


AUTUMN = [f"{h:02d}:00" for h in (0, 1, 2, 2, *range(3, 24))]
SPRING = [f"{h:02d}:00" for h in (0, 1, *range(3, 24))]


def test_the_autumn_day_has_25_hours(bring: Bring) -> None:
    text = berlin("2024-10-27", *AUTUMN)
    staged = bring(text, timezone="Europe/Berlin")
    (series,) = staged.series
    assert len(series.g_per_kwh) == 25
    assert utc_text(series.start_s) == "2024-10-26T22:00Z"
    assert series.g_per_kwh.tolist() == list(range(100, 125))  # each hour its own
    assert not series.estimated_share.any()
    assert "Europe/Berlin (you)" in staged.report.facts["Time zone"]


def test_the_spring_day_has_23_hours(bring: Bring) -> None:
    (series,) = bring(berlin("2024-03-31", *SPRING), timezone="Europe/Berlin").series
    assert len(series.g_per_kwh) == 23
    assert utc_text(series.end_s) == "2024-03-31T22:00Z"
    assert not series.estimated_share.any()


@pytest.mark.parametrize("clock", [AUTUMN, SPRING, ["00:00", "01:00"]])
def test_local_times_without_a_time_zone_are_refused(bring: Bring, clock: list[str]) -> None:
    day = "2024-10-27" if clock is AUTUMN else "2024-03-31"
    staged = bring(berlin(day, *clock))
    assert "does not say its time zone" in refusal(staged)
    said = str(staged.report)
    assert ("daylight saving?" in said) == (clock is AUTUMN)


def test_the_newest_first_tells_the_hours_apart_too(bring: Bring) -> None:
    lines = berlin("2024-10-27", *AUTUMN).splitlines()
    backwards = "\n".join([lines[0], *reversed(lines[1:])])
    (series,) = bring(backwards, timezone="Europe/Berlin").series
    assert series.g_per_kwh.tolist() == list(range(100, 125))


def test_shuffled_rows_cannot_tell_which_of_two_hours_is_which(bring: Bring) -> None:
    lines = berlin("2024-10-27", *AUTUMN).splitlines()
    shuffled = "\n".join([lines[0], *lines[10:], *lines[1:10]])
    assert "which is which cannot be told" in refusal(bring(shuffled, timezone="Europe/Berlin"))


def test_an_hour_that_comes_twice_but_stands_there_once_leaves_a_hole(bring: Bring) -> None:
    staged = bring(berlin("2024-10-27", *(f"{h:02d}:00" for h in range(24))),
                   timezone="Europe/Berlin")  # fmt: skip
    (series,) = staged.series
    assert len(series.g_per_kwh) == 25
    assert series.estimated_share.sum() == 1
    assert "taken as the first" in str(staged.report)


def test_a_clock_time_that_does_not_exist_is_refused_unless_empty(bring: Bring) -> None:
    every = [f"{h:02d}:00" for h in range(24)]
    text = berlin("2024-03-31", *every)
    assert "no such time in Europe/Berlin" in refusal(bring(text, timezone="Europe/Berlin"))
    empty = text.replace("02:00;DE-LU;102", "02:00;DE-LU;")
    assert len(bring(empty, timezone="Europe/Berlin").series[0].g_per_kwh) == 23


def test_times_with_their_offset_need_no_zone(bring: Bring) -> None:
    text = HEADER + (
        "2024-10-27T02:00+02:00;DE-LU;100\n2024-10-27T02:00+01:00;DE-LU;200\n"
        "2024-10-27 02:00:00Z;DE-LU;300\n"
    )
    staged = bring(text)
    assert staged.series[0].g_per_kwh.tolist() == [100, 200, 300]
    assert utc_text(staged.series[0].start_s) == "2024-10-27T00:00Z"


def test_an_unknown_time_zone_is_refused_with_the_nearest(bring: Bring) -> None:
    with pytest.raises(IntensityError, match="Europe/Berlin"):
        bring(hours(1, 2), timezone="Europe/Berln")


@pytest.mark.parametrize(
    ("first", "second", "seen"),
    [
        ("13.05.2024 00:00", "13.05.2024 01:00", "2024-05-13T00:00Z"),
        ("13/05/2024 23:00", "13/05/2024 24:00", "2024-05-13T23:00Z"),
        ("05/13/2024 00:00", "05/13/2024 01:00", "2024-05-13T00:00Z"),
        ("2024/05/13 00:00:00", "2024/05/13 01:00:00", "2024-05-13T00:00Z"),
        ("1715558400", "1715562000", "2024-05-13T00:00Z"),
        ("1715558400000", "1715562000000", "2024-05-13T00:00Z"),
    ],
)
def test_dates_are_read_as_they_are_written(
    bring: Bring, first: str, second: str, seen: str
) -> None:
    staged = bring(f"{HEADER}{first};GB;100\n{second};GB;200\n", timezone="UTC")
    assert utc_text(staged.series[0].start_s) == seen
    assert staged.series[0].step_s == HOUR_S


@pytest.mark.parametrize("when", ["03/04/2024 00:00", "yesterday", "2024-13-01 00:00", "99", ""])
def test_a_date_that_can_be_read_in_two_ways_or_none_is_refused(bring: Bring, when: str) -> None:
    assert "line 2" in refusal(bring(f"{HEADER}{when};GB;100\n", timezone="UTC"))


# --- 16. Duplicates ---------------------------------------------------------------------------


def test_equal_duplicates_are_repaired_and_differing_ones_refused(bring: Bring) -> None:
    lines = hours(400, 300, 500).splitlines()
    staged = bring("\n".join([*lines, lines[2]]))
    assert staged.series[0].g_per_kwh.tolist() == [400, 300, 500]
    assert "with the same value (1; line 5)" in str(staged.report)
    other = lines[2].replace("300", "301")
    assert "with different values (1; line 5)" in refusal(bring("\n".join([*lines, other])))


def test_rows_in_any_order_come_to_the_same_series(bring: Bring) -> None:
    head, *rows = hours(400, 300, 500, 600).splitlines()
    mixed = bring("\n".join([head, *rows[2:], *rows[:2]])).series[0]
    assert mixed.g_per_kwh.tolist() == [400, 300, 500, 600]


# --- 17. Zones --------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["XX-NOWHERE", " de ", "DE", "gb", "GB "])
def test_an_unknown_zone_is_refused_with_the_nearest_names(bring: Bring, zone: str) -> None:
    staged = bring(hours(400, 300, zone=zone))
    text = refusal(staged)
    assert f"unknown zone {zone!r}; nearest known: " in text
    if zone.strip().casefold() in ("de", "gb"):
        assert ("DE-LU" if "de" in zone.casefold() else "GB") in text
    assert staged.report.zones_unknown == (zone,)
    assert bring(hours(400, 300, zone=zone), zones={zone: "GB"}).series[0].zone == "GB"
    assert bring(hours(400, 300, zone=zone), new_zones=(zone,)).series[0].zone == zone


def test_a_file_without_zones_needs_one(bring: Bring) -> None:
    text = "time,lifecycle_g_per_kwh\n2024-01-01T00:00Z,400\n2024-01-01T01:00Z,300\n"
    with pytest.raises(IntensityError, match="of which zone"):
        bring(text)
    assert bring(text, zone="GB").series[0].zone == "GB"
    two = hours(400, 300) + hours(400, 300, zone="GB").split("\n", 1)[1]
    with pytest.raises(IntensityError, match="2 zones"):
        bring(two, zone="GB")
    assert [one.zone for one in bring(two).series] == ["DE-LU", "GB"]


# --- 18. Decimal commas, marks and separators -------------------------------------------------


def test_a_mark_semicolons_and_decimal_commas_are_read_right(bring: Bring) -> None:
    text = "\ufeff" + HEADER + "2024-01-01 00:00;DE-LU;412,5\n2024-01-01 01:00;DE-LU;398\n"
    staged = bring(text, timezone="UTC")
    assert staged.series[0].g_per_kwh.tolist() == [412.5, 398.0]
    assert "decimal comma" in staged.report.facts["Decimals"]


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (("1,234", "412,5"), [1.234, 412.5]),  # the other row says what the comma is
        (("1.234,5", "412,5"), [1234.5, 412.5]),
        (("1,234.5", "412.5"), [1234.5, 412.5]),
        (("412.50", "398"), [412.5, 398.0]),
        (("4.125e2", "398"), [412.5, 398.0]),
    ],
)
def test_the_decimal_mark_of_a_column_is_told_from_all_of_it(
    bring: Bring, cells: tuple[str, str], read: list[float]
) -> None:
    text = HEADER.replace("lifecycle", "direct") + "".join(
        f"2024-01-01T{i:02d}:00Z;GB;{cell}\n" for i, cell in enumerate(cells)
    )
    assert bring(text).series[0].g_per_kwh.tolist() == pytest.approx(read)


@pytest.mark.parametrize("cells", [("1,234", "1,100"), ("412,5", "1,234.5"), ("412,5", "398.2")])
def test_what_can_be_read_in_two_ways_is_refused(bring: Bring, cells: tuple[str, str]) -> None:
    text = HEADER + "".join(f"2024-01-01T0{i}:00Z;GB;{cell}\n" for i, cell in enumerate(cells))
    refusal(bring(text))


def test_the_user_may_say_what_the_comma_is(bring: Bring) -> None:
    text = HEADER + "2024-01-01T00:00Z;GB;1,234\n2024-01-01T01:00Z;GB;1,100\n"
    assert "two ways" in refusal(bring(text))
    assert bring(text, decimal=",", unit="g/kWh").series[0].g_per_kwh.tolist() == [1.234, 1.1]
    refusal(bring(text, decimal="."))  # "1,234" alone never is 1234


def test_quoted_cells_and_tabs(bring: Bring) -> None:
    rows = [("2024-01-01T00:00Z", "GB", "412,5"), ("2024-01-01T01:00Z", "GB", "398")]
    quoted = "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)
    tabs = "".join("\t".join(row) + "\n" for row in rows)
    for text in (HEADER.replace(";", ",") + quoted, HEADER.replace(";", "\t") + tabs):
        assert bring(text).series[0].g_per_kwh.tolist() == [412.5, 398]


# --- 19. Other resolutions --------------------------------------------------------------------


@pytest.mark.parametrize("minutes", [5, 10, 15, 30, 60, 120, 180])
def test_any_resolution_from_5_minutes_to_3_hours_is_kept(bring: Bring, minutes: int) -> None:
    rows = [
        f"2024-01-01T{m // 60:02d}:{m % 60:02d}Z;GB;{100 + m // 5}"
        for m in range(0, 24 * 60, minutes)
    ]
    (series,) = bring(HEADER + "\n".join(rows)).series
    assert series.step_s == 60 * minutes
    times = series.start_s + np.array([10 * HOUR_S + 3599, 11 * HOUR_S])
    if minutes <= 60:  # a turn at 10:59:59 and one at 11:00:00 fall in different intervals
        last = (11 * 60 - minutes) // 5
        assert series.at(times).tolist() == [100 + last, 100 + 11 * 12]


def test_finer_series_can_be_kept_as_stated_hours(bring: Bring) -> None:
    rows = [f"2024-01-01T{m // 60:02d}:{m % 60:02d}Z;GB;{m}" for m in range(30, 270, 15)]
    (series,) = bring(HEADER + "\n".join(rows), hourly=True).series
    assert utc_text(series.start_s) == "2024-01-01T01:00Z"  # whole hours only
    assert series.step_s == HOUR_S
    assert series.g_per_kwh.tolist() == [82.5, 142.5, 202.5]  # mean of 60, 75, 90, 105, ...


def test_hour_ending_series_are_moved_to_their_beginning(bring: Bring) -> None:
    text = "hour ending;zone;lifecycle_g_per_kwh\n" + "\n".join(
        f"2024-01-01 {h:02d}:00;GB;{50 * h}" for h in range(1, 25)
    )
    staged = bring(text, timezone="UTC")
    (series,) = staged.series
    assert utc_text(series.start_s) == "2024-01-01T00:00Z"
    assert "ends of intervals" in staged.report.facts["Times are"]
    # the value of "11:00" holds from 10:00 to 10:59:59
    times = series.start_s + np.array([10 * HOUR_S, 11 * HOUR_S - 1, 11 * HOUR_S])
    assert series.at(times).tolist() == [550, 550, 600]
    said = bring(hours(100, 200), interval_end=True)
    assert utc_text(said.series[0].start_s) == "2023-12-31T23:00Z"


def test_less_than_an_hour_has_no_hourly_mean(bring: Bring) -> None:
    rows = "2024-01-01T00:00Z;GB;100\n2024-01-01T00:15Z;GB;110\n"
    assert "no whole hour" in refusal(bring(HEADER + rows, hourly=True))
    assert bring(HEADER + rows).report.can_store


@pytest.mark.parametrize("hours_apart", [4, 24])
def test_means_over_more_than_three_hours_are_refused(bring: Bring, hours_apart: int) -> None:
    rows = [f"2024-01-{1 + i // 24:02d}T{i % 24:02d}:00Z;GB;300" for i in
            range(0, 200, hours_apart)]  # fmt: skip
    text = refusal(bring(HEADER + "\n".join(rows)))
    assert f"a value every {hours_apart} h" in text


def test_an_uneven_grid_and_a_single_row_are_refused(bring: Bring) -> None:
    uneven = hours(100, 200, 300, 400).replace("T03:00Z", "T03:20Z")
    assert "even grid of 1 h that DE-LU begins with (1; line 5)" in refusal(bring(uneven))
    assert "single row" in refusal(bring(hours(400)))


# --- What is no table of carbon intensity -----------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"time;zone\x00;x\n", "NUL"),
        (b"\xff\xfet\x00i\x00", "no column of times"),
        ((HEADER + "2024-01-01T00:00Z;Straße ").encode() + b"\xdf;1\n", "UTF-8"),
        (b"session,turn\na,0\n", "no column of times"),
        (b"time;zo\rne;value\n2024-01-01T00:00Z;GB;1\n", "line 1 is no row of column names"),
        (b"2024-01-01 00:00;DE;412,5\n", "the first line is data"),
        (b"time;zone\n2024-01-01T00:00Z;GB\n", "no column of intensity"),
        (b'{"a": 1}\n', "no column of times"),
        (b'{"forecast": [{"datetime": "2024-01-01T00:00Z", "value": 1}]}', "forecast"),
        (b"time;zone;tons per MWh\n2024-01-01T00:00Z;GB;0.4\n", "metric or short tons"),
    ],
)
def test_other_files_are_refused(bring: Bring, content: bytes, said: str) -> None:
    with pytest.raises(IntensityError, match=said):
        bring(content).require()


def test_a_header_alone_has_no_intensity(bring: Bring) -> None:
    with pytest.raises(IntensityError, match="has no carbon intensity"):
        bring(HEADER).require()


def test_a_file_that_does_not_say_its_basis_is_refused(bring: Bring) -> None:
    text = "time,zone,carbon intensity\n2024-01-01T00:00Z,GB,400\n2024-01-01T01:00Z,GB,300\n"
    with pytest.raises(IntensityError, match="lifecycle or direct"):
        bring(text)
    assert bring(text, basis="direct").series[0].basis == "direct"
    with pytest.raises(IntensityError, match="You say that the file is direct"):
        bring(hours(400, 300), basis="direct")


@pytest.mark.parametrize(
    "said", [{"unit": "g"}, {"basis": "total"}, {"kind": "both"}, {"decimal": ";"}]
)
def test_what_the_user_says_is_checked(bring: Bring, said: dict[str, str]) -> None:
    with pytest.raises(IntensityError, match="must be one of"):
        bring(hours(400, 300), **said)


@pytest.mark.parametrize("unit", [None, "g/kWh"])
def test_lifecycle_kilograms_are_refused_even_where_the_unit_is_said(
    bring: Bring, unit: str | None
) -> None:
    assert "the unit is likely kg/kWh" in refusal(bring(hours(*[0.45] * 24), unit=unit))
