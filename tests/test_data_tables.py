"""The shipped tables: columns, ranges and keys, and that they are what data/README.md says."""

from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from carbonrouter_core.fleet.catalog import BASES

DATA = Path(__file__).resolve().parents[1] / "data"
DEFAULT_REGIONS = ["europe-west2", "us-west2", "europe-west3", "australia-southeast1"]
DEFAULT_WINDOW_UTC = ("2024-05-13", "2024-05-27")

COLUMNS = {
    "models.csv": "model hf_id total_params_b active_params_b layers global_layers window_tokens "
    "attention_dim kv_bytes_per_token weight_bytes_per_param context_tokens mmlu_pro_percent "
    "quality_source",
    "gpus.csv": "gpu peak_tflops_bf16 bandwidth_gb_s memory_gb tdp_w idle_w embodied_kgco2e "
    "context_nj_per_byte context_source embodied_source",
    "energy_points.csv": "model gpu n_gpus batch prefill_j_per_token prefill_ms_per_token "
    "decode_j_per_token inter_token_ms basis scaled_from",
    "regions.csv": "region city zone latitude longitude pue pue_source",
    "region_rtt_ms.csv": "from_region to_region rtt_ms basis",
    "cloud_region_names.csv": "provider provider_region city zone nearest_product_region "
    "distance_km same_zone product_region_of_zone pue pue_year source",
    "electricity_price_by_month.csv": "zone year month mean_eur_per_mwh mean_usd_per_mwh source",
    "water_of_electricity.csv": "zone country litres_per_kwh basis year source",
    "wue_by_region.csv": "region provider provider_region distance_km wue_l_per_kwh year basis "
    "source",
    "cfe_by_region.csv": "region year cfe_percent g_per_kwh g_basis source",
    "carbon_intensity_3h.parquet": "zone start_utc direct_g_per_kwh lifecycle_g_per_kwh "
    "estimated_share",
    "carbon_intensity_3h_2022_extra_zones.parquet": "zone start_utc lifecycle_g_per_kwh",
    "sharegpt_turns.parquet": "session_id turn new_prompt_tokens output_tokens history_tokens "
    "difficulty",
    "claude_code_turns.parquet": "session turn t_s think_time_s api_time_s new_tokens "
    "reusable_prefix_tokens input_tokens output_tokens human_turn",
    "mooncake_conversation_sessions.parquet": "session turn t_s input_tokens output_tokens parent "
    "gap_s history_tokens new_prompt_tokens",
    "ragpulse_turns.parquet": "session t_s input_tokens output_tokens sys_tokens passage_tokens "
    "history_tokens web_tokens user_tokens turn",
}
KEYS = {
    "models.csv": ["model"],
    "gpus.csv": ["gpu"],
    "energy_points.csv": ["model", "gpu", "batch"],
    "regions.csv": ["region"],
    "region_rtt_ms.csv": ["from_region", "to_region"],
    "cloud_region_names.csv": ["provider", "provider_region"],
    "electricity_price_by_month.csv": ["zone", "year", "month"],
    "water_of_electricity.csv": ["zone"],
    "wue_by_region.csv": ["region", "provider", "provider_region"],
    "cfe_by_region.csv": ["region", "year"],
    "carbon_intensity_3h.parquet": ["zone", "start_utc"],
    "carbon_intensity_3h_2022_extra_zones.parquet": ["zone", "start_utc"],
    "sharegpt_turns.parquet": ["session_id", "turn"],
    "claude_code_turns.parquet": ["session", "turn"],
    "ragpulse_turns.parquet": ["session", "turn"],
}
MAY_BE_EMPTY = {
    "models.csv": {"window_tokens"},  # every layer sees the whole context
    "energy_points.csv": {"scaled_from"},  # measured
    "regions.csv": {"pue"},  # not published
    "cloud_region_names.csv": {"product_region_of_zone", "pue", "pue_year"},
    "cfe_by_region.csv": {"cfe_percent"},  # not published
    "claude_code_turns.parquet": {"think_time_s", "api_time_s"},
    "mooncake_conversation_sessions.parquet": {"gap_s"},  # first turns
}
INTENSITY = ["carbon_intensity_3h.parquet", "carbon_intensity_3h_2022_extra_zones.parquet"]


@cache
def table(name: str) -> pd.DataFrame:
    path = DATA / name
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    # An empty cell is missing; the text NA would be a name.
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_those_of_the_design(name: str) -> None:
    assert list(table(name).columns) == COLUMNS[name].split()


@pytest.mark.parametrize("name", COLUMNS)
def test_cells_are_filled_and_numbers_are_finite_and_not_negative(name: str) -> None:
    frame = table(name)
    empty = set(frame.columns[frame.isna().any()])
    assert empty == MAY_BE_EMPTY.get(name, set())
    signed = ["latitude", "longitude", "difficulty", "parent"]
    numbers = frame.select_dtypes("number").drop(columns=signed, errors="ignore")
    assert ((numbers >= 0) | numbers.isna()).all(axis=None)
    assert np.isfinite(numbers.fillna(0)).all(axis=None)


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_unique(name: str) -> None:
    assert not table(name).duplicated(KEYS[name]).any()


@pytest.mark.parametrize("name", COLUMNS)
def test_tables_hold_the_rows_of_their_source(name: str, shared_data: Path) -> None:
    """The columns that the source has are the same in its rows; rows of other sources may follow.

    The basis of an energy point is more exact here: the source calls interpolated points measured.
    """
    path = shared_data / "derived" / name
    if path.suffix == ".parquet":
        source = pd.read_parquet(path)
    else:
        source = pd.read_csv(path, keep_default_na=False, na_values=[""])
    if name == "energy_points.csv":
        source = source.drop(columns="basis")
    ours = table(name).head(len(source))[list(source.columns)]
    pd.testing.assert_frame_equal(ours, source, check_exact=True)


# Models, GPUs and energy points


def test_model_facts_agree_with_each_other() -> None:
    models = table("models.csv")
    assert (models.active_params_b <= models.total_params_b).all()
    assert (models.global_layers <= models.layers).all()
    all_global = models.global_layers == models.layers
    assert (models.window_tokens.isna() == all_global).all()
    assert models.mmlu_pro_percent.between(1, 99).all()
    assert models.weight_bytes_per_param.isin([0.5, 1, 2]).all()


def test_gpu_figures_are_of_the_right_size() -> None:
    gpus = table("gpus.csv")
    assert (gpus.idle_w < gpus.tdp_w).all()
    assert gpus.tdp_w.between(10, 2000).all()
    assert gpus.embodied_kgco2e.between(10, 500).all()
    assert gpus.context_nj_per_byte.between(0.05, 1).all()


def test_energy_points_refer_to_known_models_and_gpus() -> None:
    points = table("energy_points.csv")
    assert set(points.model) == set(table("models.csv").model)
    assert set(points.gpu) == set(table("gpus.csv").gpu)
    assert set(points.basis) <= set(BASES)
    assert ((points.basis == "scaled") == points.scaled_from.notna()).all()
    assert set(points.scaled_from.dropna()) <= set(points.gpu)


def test_points_that_were_not_run_are_not_called_measured() -> None:
    points = table("energy_points.csv")
    b200 = points[points.gpu == "B200-180GB"]
    assert set(b200[b200.basis == "interpolated"].batch) == {96, 192}
    assert set(b200[b200.basis == "measured"].batch).isdisjoint({96, 192})
    assert set(points[points.gpu == "A100-80GB"].scaled_from) == {"H100-80GB"}


@pytest.mark.parametrize(
    ("model", "gpu"), list(table("energy_points.csv").groupby(["model", "gpu"]).groups)
)
def test_larger_batches_take_less_energy_and_more_time(model: str, gpu: str) -> None:
    points = table("energy_points.csv").query("model == @model and gpu == @gpu")
    assert points.batch.is_monotonic_increasing and points.batch.is_unique
    assert (points.decode_j_per_token.diff().dropna() < 0).all()
    assert (points.inter_token_ms.diff().dropna() > 0).all()
    one_replica = ["n_gpus", "prefill_j_per_token", "prefill_ms_per_token", "scaled_from"]
    assert (points[one_replica].nunique(dropna=False) == 1).all()


def test_every_replica_holds_its_weights_and_draws_no_more_than_its_gpus_may() -> None:
    points = table("energy_points.csv").merge(table("models.csv")).merge(table("gpus.csv"))
    weights_gb = points.total_params_b * points.weight_bytes_per_param
    assert (weights_gb < 0.9 * points.n_gpus * points.memory_gb).all()
    watts_allowed = 1.15 * points.n_gpus * points.tdp_w  # measured averages reach 1.12 x TDP
    prefill_w = points.prefill_j_per_token / points.prefill_ms_per_token * 1000
    decode_w = points.decode_j_per_token * points.batch / points.inter_token_ms * 1000
    assert (prefill_w < watts_allowed).all()
    assert (decode_w < watts_allowed).all()


# Regions and round trips


def test_regions_are_on_earth_and_say_where_their_pue_is_from() -> None:
    regions = table("regions.csv")
    assert regions.latitude.between(-90, 90).all()
    assert regions.longitude.between(-180, 180).all()
    assert regions.pue.dropna().between(1.0, 2.0).all()
    assert (regions.pue.isna() == (regions.pue_source == "not published")).all()


def test_every_zone_of_a_region_has_a_carbon_intensity() -> None:
    zones = set().union(*(table(name).zone for name in INTENSITY))
    assert set(table("regions.csv").zone) <= zones


def test_round_trips_are_known_between_all_regions_and_the_same_both_ways() -> None:
    regions = list(table("regions.csv").region)
    rtt = table("region_rtt_ms.csv").set_index(["from_region", "to_region"])
    assert set(rtt.index) == set(product(regions, regions))
    assert all(rtt.rtt_ms[a, b] == rtt.rtt_ms[b, a] for a, b in rtt.index)
    assert set(rtt.basis) == {"measured", "distance fit", "assumed within a region"}
    within = [a == b for a, b in rtt.index]
    assert ((rtt.basis == "assumed within a region") == within).all()


def test_round_trips_between_the_default_regions_are_measured() -> None:
    rtt = table("region_rtt_ms.csv").set_index(["from_region", "to_region"])
    assert set(DEFAULT_REGIONS) <= set(table("regions.csv").region)
    pairs = [(a, b) for a, b in product(DEFAULT_REGIONS, DEFAULT_REGIONS) if a != b]
    assert (rtt.basis[pairs] == "measured").all()


def test_no_round_trip_beats_light_in_fibre() -> None:
    site = table("regions.csv").set_index("region")
    rtt = table("region_rtt_ms.csv")
    lat_a, lat_b, lon_a, lon_b = (
        np.radians(site[column].loc[rtt[side]].to_numpy())
        for column in ("latitude", "longitude")
        for side in ("from_region", "to_region")
    )
    half_chord = np.sin((lat_b - lat_a) / 2) ** 2
    half_chord += np.cos(lat_a) * np.cos(lat_b) * np.sin((lon_b - lon_a) / 2) ** 2
    distance_km = 2 * 6371 * np.arcsin(np.sqrt(half_chord))
    fibre_km_per_ms = 200
    assert (rtt.rtt_ms >= 2 * distance_km / fibre_km_per_ms).all()


# Carbon intensity


@pytest.mark.parametrize(
    ("name", "first", "last", "zones"),
    [
        (INTENSITY[0], "2021-01-01 00:00", "2024-12-31 21:00", 16),
        (INTENSITY[1], "2022-01-01 00:00", "2022-12-31 21:00", 14),
    ],
)
def test_intensity_has_every_3_hours_of_its_years(
    name: str, first: str, last: str, zones: int
) -> None:
    frame = table(name)
    hours = pd.date_range(first, last, freq="3h", tz="UTC")
    assert frame.zone.nunique() == zones
    for _, series in frame.groupby("zone"):
        assert list(series.start_utc) == list(hours)


@pytest.mark.parametrize("name", INTENSITY)
def test_intensity_is_plausible(name: str) -> None:
    frame = table(name)
    assert frame.lifecycle_g_per_kwh.between(5, 1100).all()
    if "direct_g_per_kwh" in frame:
        # Two night intervals in Ontario burn nothing; lifecycle emissions never vanish.
        assert (frame.direct_g_per_kwh == 0).sum() == 2
        assert (frame.direct_g_per_kwh < frame.lifecycle_g_per_kwh).all()
        assert frame.estimated_share.between(0, 1).all()


def test_zones_stand_in_one_intensity_table_only() -> None:
    assert not set(table(INTENSITY[0]).zone) & set(table(INTENSITY[1]).zone)


def test_the_default_scenario_has_intensity_in_its_window() -> None:
    start, end = (pd.Timestamp(t, tz="UTC") for t in DEFAULT_WINDOW_UTC)
    frame = table(INTENSITY[0])
    within = frame[frame.start_utc.between(start, end, inclusive="left")]
    regions = table("regions.csv").set_index("region")
    per_zone = within.groupby("zone").size()
    assert (per_zone[regions.zone[DEFAULT_REGIONS]] == 14 * 8).all()


def test_three_hour_means_are_those_of_the_hourly_series(shared_data: Path) -> None:
    hourly = pd.read_parquet(
        shared_data / "raw" / "carbon_intensity_hourly_2021_2024_16zones.parquet"
    )
    start = hourly.time_utc.dt.floor("3h").rename("start_utc")
    means = hourly.groupby(["zone", start])[["direct_g_per_kwh", "lifecycle_g_per_kwh"]].mean()
    ours = table(INTENSITY[0]).set_index(["zone", "start_utc"])
    for column in means:
        assert (ours[column] - means[column]).abs().max() < 0.06  # rounded to 0.1 g


# Traces


@pytest.mark.parametrize(
    ("name", "session", "sessions", "turns", "over_30"),
    [
        ("sharegpt_turns.parquet", "session_id", 9440, 61224, 278),
        ("claude_code_turns.parquet", "session", 676, 44082, 406),
        ("mooncake_conversation_sessions.parquet", "session", 8056, 12031, 1),
        ("ragpulse_turns.parquet", "session", 3990, 7106, 0),
    ],
)
def test_traces_have_the_stated_size(
    name: str, session: str, sessions: int, turns: int, over_30: int
) -> None:
    lengths = table(name).groupby(session).size()
    assert (len(lengths), lengths.sum(), (lengths > 30).sum()) == (sessions, turns, over_30)


@pytest.mark.parametrize(
    ("name", "session"),
    [
        ("sharegpt_turns.parquet", "session_id"),
        ("claude_code_turns.parquet", "session"),
        ("ragpulse_turns.parquet", "session"),
    ],
)
def test_turns_are_numbered_from_zero_in_order(name: str, session: str) -> None:
    frame = table(name)
    assert (frame.turn == frame.groupby(session).cumcount()).all()
    if "t_s" in frame:
        assert (frame.groupby(session).t_s.diff().dropna() >= 0).all()


def test_chat_history_is_all_earlier_tokens_of_the_session() -> None:
    turns = table("sharegpt_turns.parquet")
    tokens = turns.new_prompt_tokens + turns.output_tokens
    assert (turns.history_tokens == tokens.groupby(turns.session_id).cumsum() - tokens).all()


def test_agent_requests_are_a_reusable_prefix_and_new_tokens() -> None:
    turns = table("claude_code_turns.parquet")
    assert (turns.reusable_prefix_tokens + turns.new_tokens == turns.input_tokens).all()
    assert (turns.reusable_prefix_tokens[turns.turn == 0] == 0).all()
    earlier = turns.groupby("session").input_tokens.shift()
    assert not (turns.reusable_prefix_tokens > earlier).any()
    assert turns.human_turn.isin([0, 1]).all()


def test_mooncake_gaps_are_the_time_since_the_parent() -> None:
    turns = table("mooncake_conversation_sessions.parquet")
    child = turns[turns.parent >= 0]
    parent = turns.iloc[child.parent]
    assert (turns.gap_s.isna() == (turns.parent < 0)).all()
    assert np.allclose(child.gap_s, child.t_s.to_numpy() - parent.t_s.to_numpy())
    assert (child.session.to_numpy() == parent.session.to_numpy()).all()
    assert turns.gap_s.median() == pytest.approx(126, abs=0.01)


def test_ragpulse_gaps_have_the_stated_median() -> None:
    turns = table("ragpulse_turns.parquet")
    gaps_s = turns.groupby("session").t_s.diff().dropna()
    assert gaps_s[gaps_s <= 1800].median() == 38
    assert gaps_s.median() == 40
