"""What a run costs, what a saving is made of, and market-based carbon, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from carbonrouter_core import PRESETS, CatalogError, Comparison, Scenario, ScenarioError, compare
from carbonrouter_core.cli.main import main
from carbonrouter_core.fleet.clean_energy import published_cfe_percent, read_contracts
from carbonrouter_core.grid.prices import price_per_mwh, read_own_prices, zones_with_prices
from carbonrouter_core.results.accounts import account, warnings_of
from carbonrouter_core.results.indicators import indicators, more_water
from carbonrouter_core.results.market_based import market_based
from carbonrouter_core.results.run_cost import cost_of, cost_per_tonne_avoided, gpu_hours
from carbonrouter_core.results.saving_parts import saving_parts
from tests.hand_made import T, make_trace

NOON_S = np.array([np.datetime64("2024-05-13T12:00:00").astype("datetime64[s]").astype(int)])


def run(policies: tuple[str, ...] = ("faircarbon",), **changes: object) -> Comparison:
    trace = make_trace(
        {
            "a": [T(100, 50), T(80, 900, 60.0, 2.0), T(30, 200, 120.0, -2.0)],
            "b": [T(900, 300), T(2000, 10, 4000.0, 3.0), T(10, 700, 4100.0, -1.0)],
        },
        ["europe-west2"] * 6,
    )
    return compare(PRESETS["Paper"].replace(**changes), policies, trace)


def test_the_price_of_an_hour_goes_before_that_of_a_month_before_that_of_a_zone() -> None:
    own = {"FR": 1.0, "FR 5": 2.0, "FR 5 12": 3.0, "FR 6": 4.0}
    assert price_per_mwh(Scenario(electricity_price_per_mwh=own), "FR", NOON_S) == [3.0]
    del own["FR 5 12"]
    assert price_per_mwh(Scenario(electricity_price_per_mwh=own), "FR", NOON_S) == [2.0]
    del own["FR 5"]
    assert price_per_mwh(Scenario(electricity_price_per_mwh=own), "FR", NOON_S) == [1.0]


def test_built_in_prices_are_those_of_the_table_in_its_two_currencies() -> None:
    # data/electricity_price_by_month.csv, AT, January 2020: 40.5 EUR, 44.96 USD
    january_s = np.array([np.datetime64("2020-01-31T23:00:00").astype("datetime64[s]").astype(int)])
    assert price_per_mwh(Scenario(), "AT", january_s) == [40.5]
    assert price_per_mwh(Scenario(currency="USD"), "AT", january_s) == [44.96]
    assert np.isnan(price_per_mwh(Scenario(currency="CHF"), "AT", january_s)).all()
    assert len(zones_with_prices()) == 12


@pytest.mark.parametrize("key", ["", "GB 13", "GB 05", "GB  5", "GB 5 24", "GB 5 1 1", "GB x"])
def test_a_wrong_key_of_a_price_is_refused(key: str) -> None:
    with pytest.raises(ScenarioError, match="electricity_price_per_mwh"):
        Scenario(electricity_price_per_mwh={key: 1.0})


def test_cost_is_energy_with_pue_at_the_price_of_its_zone_and_gpu_hours_and_carbon() -> None:
    own = {"GB": 100.0, "US-CAL-CISO": 100.0, "DE-LU": 100.0, "AU-NSW": 100.0}
    gpus = {"A100-80GB": 2.0, "H100-80GB": 2.0, "B200-180GB": 2.0}
    done = run(electricity_price_per_mwh=own, gpu_price_per_h=gpus, carbon_price_per_t=80.0)
    of_run = done.runs["faircarbon"]
    cost = cost_of(done.prepared, of_run)
    kwh, grams = of_run.charges.energy_kwh.sum(), of_run.charges.carbon_g.sum()
    assert cost.electricity == pytest.approx(kwh / 1000 * 100)
    assert cost.gpus == pytest.approx(gpu_hours(done.prepared, of_run).sum() * 2)
    assert cost.carbon == pytest.approx(grams / 1e6 * 80)
    assert cost.total == pytest.approx(cost.electricity + cost.gpus + cost.carbon)
    # 150 W of host for each GPU while it works: the host's energy gives the hours back
    shares = of_run.charges.host_g / of_run.charges.carbon_g * of_run.charges.energy_kwh
    region = done.prepared.deployments.fleet.region[of_run.decisions.deployment]
    hours = (shares / done.prepared.deployments.fleet.pue[region]).sum() / 0.150
    assert gpu_hours(done.prepared, of_run).sum() == pytest.approx(hours)


def test_an_unknown_price_makes_the_cost_unknown_and_never_0() -> None:
    done = run(regions=("australia-southeast1",))
    cost = cost_of(done.prepared, done.runs["faircarbon"])
    assert cost.electricity is None
    assert cost.total is None
    assert cost.zones_without_price == ("AU-NSW",)
    done = run(regions=("europe-west2",), gpu_price_per_h={"B200-180GB": 1.0})
    cost = cost_of(done.prepared, done.runs["faircarbon"])
    assert cost.electricity is not None
    assert cost.total is None
    assert cost.gpus_without_price


def test_cost_of_a_tonne_avoided() -> None:
    assert cost_per_tonne_avoided(110.0, 1e6, 100.0, 3e6) == pytest.approx(5.0)
    assert cost_per_tonne_avoided(90.0, 1e6, 100.0, 2e6) == pytest.approx(-10.0)
    assert cost_per_tonne_avoided(90.0, 3e6, 100.0, 2e6) is None
    assert cost_per_tonne_avoided(None, 1e6, 100.0, 2e6) is None


@pytest.mark.parametrize("copies", ["latest", "all"])
@pytest.mark.parametrize("other", ["faircarbon", "nearest-region", "free-migration"])
def test_the_parts_of_a_saving_add_up_to_it(copies: str, other: str) -> None:
    done = run(("carbonrouter-lookahead", other), copies=copies, quality_floor=0.5)
    ours, theirs = done.runs.values()
    parts = saving_parts(done.prepared, ours, theirs)
    saving_g = theirs.charges.carbon_g.sum() - ours.charges.carbon_g.sum()
    scale = theirs.charges.carbon_g.sum()
    assert parts.total_g == pytest.approx(saving_g, abs=1e-9 * scale)
    back = saving_parts(done.prepared, theirs, ours)
    for mine, reversed_part in zip(parts, back, strict=True):
        assert mine == pytest.approx(-reversed_part, abs=1e-9 * scale)


def test_a_saving_by_the_site_alone_is_all_of_the_site() -> None:
    fleet = {"models": ("Llama-3.1-8B",), "gpus": ("A100-80GB",), "gpu_regions": {}}
    done = run(("cleanest-region", "nearest-region"), idle_s=0.0, **fleet)
    parts = saving_parts(done.prepared, *done.runs.values())
    assert parts.site_g == pytest.approx(parts.total_g)
    assert parts.site_g > 0
    assert parts.model_g == parts.gpu_g == 0
    assert parts.cache_g == 0


def test_own_contracts_count_0_in_the_market_based_figure_alone() -> None:
    done = run(regions=("europe-west2",), clean_contracts={"europe-west2": 0.25})
    both = market_based(done.prepared, done.runs["faircarbon"])
    assert both.location_g == pytest.approx(done.figures("faircarbon")["carbon_g"])
    assert both.market_g == pytest.approx(0.75 * both.location_g)
    assert both.published_cfe_percent == published_cfe_percent()["europe-west2", 2024]
    none = run(regions=("europe-west2",))
    assert market_based(none.prepared, none.runs["faircarbon"]).market_g is None


def test_indicators_by_hand() -> None:
    done = run(regions=("europe-west2",), pue_overrides={"europe-west2": 1.5})
    figures = done.figures("faircarbon")
    values = indicators(done.prepared, done.runs["faircarbon"])
    assert values.pue == pytest.approx(1.5)
    assert values.wue_l_per_kwh == pytest.approx(0.18)
    assert values.it_kwh * 1.5 == pytest.approx(figures["energy_kwh"])
    per_token = (figures["carbon_g"] + figures["embodied_g"]) / figures["output_tokens"]
    assert values.sci_g_per_1000_tokens == pytest.approx(1000 * per_token)
    assert more_water(106.0, 1.0, 100.0, 2.0)
    assert not more_water(104.0, 1.0, 100.0, 2.0)
    assert not more_water(106.0, 3.0, 100.0, 2.0)
    assert not more_water(None, 1.0, 100.0, 2.0)


def test_tables_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("zone,month,hour_utc,price_per_mwh\nGB,,,80\nGB,5,,70\nGB,5,13,-6\n")
    assert read_own_prices(path, ["GB"]) == {"GB": 80.0, "GB 5": 70.0, "GB 5 13": -6.0}
    path.write_text("region,hour_utc,clean_share\na,,0.5\na,3,1\n")
    assert read_contracts(path, ["a"]) == {"a": 0.5, "a 3": 1.0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("zone,month\nGB,5\n", "price_per_mwh"),
        ("zone,month,price_per_mwh\nGB,13,80\n", "line 2"),
        ("zone,month,hour_utc,price_per_mwh\nGB,,4,80\n", "needs its month"),
        ("zone,price_per_mwh\nXX,80\n", "no zone"),
        ("zone,price_per_mwh\nGB,80\nGB,81\n", "twice"),
        ("zone,price_per_mwh\n", "no rows"),
    ],
)
def test_a_wrong_table_names_its_row(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text)
    with pytest.raises(CatalogError, match=words):
        read_own_prices(path, ["GB"])


def test_what_is_not_known_is_said() -> None:
    done = run(regions=("asia-southeast1",))  # SG: neither price nor water of electricity
    of_run = account(done.prepared, done.runs["faircarbon"])
    values = of_run.to_dict(done.prepared.scenario)
    assert values["money"]["cost"] is None
    assert values["money"]["gpus"] is None
    assert values["water"]["water_l"] is None
    sentences = warnings_of({"faircarbon": of_run}, "EUR")
    assert any("SG" in text and "cost" in text for text in sentences)
    assert any("water_l is not known" in text for text in sentences)


def test_the_command_prints_the_parts_of_the_saving(capsys: pytest.CaptureFixture[str]) -> None:
    fields = ["--trace", "claude-code", "--set", "window_days=2", "--set", "models=Llama-3.1-8B"]
    assert main(["accounts", *fields, "--set", 'electricity_price_per_mwh={"GB": 80}']) == 0
    result = json.loads(capsys.readouterr().out)
    ours = result["policies"]["carbonrouter-lookahead"]
    theirs = result["policies"]["faircarbon"]
    saved_g = theirs["market_based"]["location_g"] - ours["market_based"]["location_g"]
    assert ours["saving_parts_g"]["total_g"] == pytest.approx(saved_g)
    assert ours["saving_parts_g"]["model_g"] == 0
    money = ours["money"]
    assert (money["cost"] is None) == bool(money["zones_without_price"])
    assert all(zone in " ".join(result["warnings"]) for zone in money["zones_without_price"])
    assert "GB" not in money["zones_without_price"]
