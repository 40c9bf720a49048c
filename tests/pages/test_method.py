"""Page Method: the text, the factors, and a turn whose shown numbers multiply out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import PRESETS, Scenario, compare, load_catalog
from carbonrouter_core.fleet import costs
from carbonrouter_core.fleet.catalog import ASSUMED_PUE
from carbonrouter_core.report.sources import built_in_sources
from carbonrouter_core.results.worked_turn import examples
from carbonrouter_core.routing.policies import ROUTER, ROUTERS
from carbonrouter_core.routing.policies.lookahead import HORIZON_TURNS
from carbonrouter_core.words import figures as fmt
from pages.parts.method import sections
from tests.build_scripts import build_script
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
WORKED, FACTORS = "One turn, worked through", "Factors and their sources"


@pytest.fixture
def open_method() -> Callable[..., AppTest]:
    """Opens page Method in a tab of its own, with a scenario where one is given."""

    def start(scenario: Scenario | None = None) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
        if scenario is not None:
            app.session_state["scenario"] = scenario
        app.switch_page("pages/method.py").run()
        assert not app.exception
        return app

    return start


def html(app: AppTest) -> str:
    return "\n".join(
        block.proto.body for block in app.get("html") if not block.proto.body.startswith("<style>")
    )


def tables(app: AppTest) -> list[str]:
    return [b.proto.body for b in app.get("html") if 'class="cr-worked"' in b.proto.body]


ROW = re.compile(
    r'<span class="cr-symbol">(?P<symbol>.*?)</span>.*?<td class="cr-sum">(?P<sum>.*?)</td>'
    r'<td class="cr-value">= (?P<value>[\d.,\N{MINUS SIGN}]+)(?P<unit>.*?)</td>'
)
NAMES = {"max": max, "min": min, "ln": math.log, "exp": math.exp, "__builtins__": {}}


def number(text: str) -> float:
    return float(text.replace(",", "").replace("\N{MINUS SIGN}", "-"))


def redo(sum_: str) -> float:
    """What a reader with a pocket calculator gets from the numbers as shown."""
    text = re.sub(r",(?=\d{3})", "", sum_)
    for sign, python in (("×", "*"), ("\N{MINUS SIGN}", "-"), ("^", "**")):
        text = text.replace(sign, python)
    return float(eval(text, dict(NAMES)))  # noqa: S307 (our own page's text)


def last_digit(shown: str) -> float:
    """One unit in the last place that is shown; whole numbers are shown to the unit."""
    return 10.0 ** -len(shown.partition(".")[2])


def check_sums(table: str) -> dict[str, float]:
    """Redo every sum of a table; the values by their symbols."""
    values = {}
    for row in ROW.finditer(table):
        shown = row["value"]
        # trailing zeros are not shown, so the last place is at least that of seven digits
        magnitude = math.floor(math.log10(abs(number(shown)))) if number(shown) else 0
        allowed = max(min(last_digit(shown), 10.0 ** (magnitude - 4)), 1e-12)
        assert redo(row["sum"]) == pytest.approx(number(shown), abs=1.001 * allowed), row.group()
        values[row["symbol"]] = number(shown)
    return values


SCENARIOS = {
    "fresh": None,
    "copies kept": PRESETS["Prompt cache"],
    "agents": Scenario(
        trace="claude-code", embodied=True, concurrency=100.0, pue_overrides={"europe-west2": 1.4}
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_shown_numbers_multiply_out_to_the_engines(
    open_method: Callable[..., AppTest], name: str
) -> None:
    scenario = SCENARIOS[name]
    app = open_method(scenario)
    router = ROUTER
    run = compare(scenario or Scenario(), (router, "faircarbon"))
    charges = run.runs[router].charges
    for kind, row in examples(run, router).items():
        app.selectbox(key="method-kind").set_value(kind).run()
        assert not app.exception
        served, other = tables(app)
        values = check_sums(served)
        check_sums(other)
        assert len(values) > 25
        for symbol, column in (
            ("recompute", "recompute_g"),
            ("prompt", "prompt_g"),
            ("decode", "decode_g"),
            ("host", "host_g"),
            ("<b>carbon</b>", "carbon_g"),
            ("energy", "energy_kwh"),
            ("TTFT", "ttft_ms"),
            ("latency", "latency_ms"),
            ("q", "quality"),
        ):
            engine = getattr(charges, column)[row]
            assert values[symbol] == number(fmt.exact(engine, 5)), (kind, symbol)
        assert "served the turn" in served and "for comparison" in other
        assert ("embodied" in values) == (name == "agents")


def test_every_other_deployment_can_be_compared(open_method: Callable[..., AppTest]) -> None:
    app = open_method()
    (select,) = [box for box in app.selectbox if (box.key or "").startswith("method-other")]
    assert len(select.options) == 44
    for label in (select.options[0], select.options[-1]):
        (select,) = [box for box in app.selectbox if (box.key or "").startswith("method-other")]
        select.select(label).run()
        assert not app.exception
        check_sums(tables(app)[1])
        assert label in tables(app)[1]


def test_a_turn_of_ones_own_choice(open_method: Callable[..., AppTest]) -> None:
    app = open_method()
    trace = compare(Scenario(), ("faircarbon",)).trace
    session = int(trace.session_turns.argmax())
    app.selectbox(key="method-kind").set_value("A turn of your choice").run()
    app.text_input(key="method-session").set_value(trace.session_ids[session]).run()
    app.number_input(key=f"method-turn-{session}").set_value(7).run()
    assert not app.exception
    assert f"Turn 7 of {trace.session_turns[session]} of session" in html(app)
    row = trace.offsets[session] + 6
    assert f"h = {trace.history_tokens[row]:,}" in html(app)
    check_sums(tables(app)[0])

    app.text_input(key="method-session").set_value("no such id").run()
    assert not app.exception
    assert "No session has this id" in app.warning[0].value
    assert not tables(app)


def test_the_whole_text_is_there_with_formulas_set(open_method: Callable[..., AppTest]) -> None:
    app = open_method()
    page = html(app)
    for title in sections.sections():
        assert f'id="{sections.anchor(title)}">{title}</h2>' in page
        assert f'href="#{sections.anchor(title)}"' in page
    formulas = [block.value for block in app.latex]
    assert len(formulas) == sections.TEXT.read_text("utf-8").count("$$") / 2
    words = "\n".join(block.value for block in app.markdown)
    assert "R² 0.19" in words and "reconstruction" in words
    assert "<!--" not in words and "](../" not in words
    (line,) = [block.value for block in app.code if "run " in block.value]
    assert line.startswith("CarbonRouter 0.1.0, scenario Paper, data set sharegpt")


def test_factors_say_where_they_are_from(open_method: Callable[..., AppTest]) -> None:
    app = open_method(SCENARIOS["agents"])
    energy, models, gpus, sites, trips = (frame.value for frame in app.dataframe[:5])
    assert len(energy) == 15 and set(energy["GPU type"]) == {"A100-80GB", "H100-80GB", "B200-180GB"}
    assert "measured, extrapolated below the smallest batch" in set(energy["Decoding is"])
    assert models["Accuracy from"].str.len().min() > 5 and len(gpus) == 3
    sites = sites.set_index("City")
    assert sites["PUE from"]["London"] == "set in the scenario" and sites["PUE"]["London"] == 1.4
    assert sites["PUE from"]["Frankfurt"] == "AWS eu-central-1 2024"
    assert sites["Licence"].str.startswith("ODbL").all()
    assert (sites["Covers"] == "2021-01-01 to 2025-01-01").all()
    assert set(trips["Basis"]) == {"measured", "assumed within a region"}
    sources = app.dataframe[5].value
    assert list(sources["Table"]) == [source.table for source in built_in_sources()]
    assert (sources[["Source", "Licence", "Attribution"]] != "").all(axis=None)
    told = [box.label for box in app.expander]
    assert "Table data/energy_points.csv, 2025; licence: Apache-2.0." in told
    words = "\n".join(block.value for block in app.markdown)
    assert "B200 250 kg is an assumption" in words and "Open Database License" in words


def test_an_assumed_pue_and_points_that_were_not_run_are_said(
    open_method: Callable[..., AppTest],
) -> None:
    app = open_method(Scenario(concurrency=96.0))
    energy, _, _, sites, _ = (frame.value for frame in app.dataframe[:5])
    assert sites.set_index("City")["PUE from"]["London"] == "assumed: not published"
    on_b200 = energy[energy["GPU type"] == "B200-180GB"]
    not_run = on_b200["Decoding is"] == "interpolated: not run at this batch"
    assert (not_run == (on_b200["B"] == 96)).all() and not_run.any()


def test_a_wrong_scenario_leaves_the_text(open_method: Callable[..., AppTest]) -> None:
    app = open_method()
    app.multiselect(key="control_regions").set_value([]).run()
    assert not app.exception
    page = html(app)
    assert "cr-problem" in page and "regions is empty" in page.lower()
    assert len(app.latex) > 10 and not tables(app)


def test_a_scenario_without_data_for_its_window_is_said_once_a_part(
    open_method: Callable[..., AppTest],
) -> None:
    app = open_method(Scenario(regions=("europe-west9",)))
    assert "2022-01-01" in html(app)
    assert len(app.latex) > 10


def test_one_deployment_stands_alone(open_method: Callable[..., AppTest]) -> None:
    app = open_method(
        Scenario(regions=("europe-west2",), gpus=("H100-80GB",), models=("Gemma-3-27B",))
    )
    (only,) = tables(app)
    check_sums(only)
    assert not [box for box in app.selectbox if (box.key or "").startswith("method-other")]


def test_presenting_keeps_the_page(open_method: Callable[..., AppTest]) -> None:
    app = open_method()
    before = tables(app)
    app.toggle(key="present").set_value(True).run()
    assert not app.exception and not app.sidebar.slider
    assert tables(app) == before


def test_a_hostile_name_is_shown_as_text(open_method: Callable[..., AppTest]) -> None:
    app = open_method(Scenario(name="<script>alert(1)</script>"))
    assert "<script>" not in html(app)


# docs/method.md


def test_the_tables_in_the_text_are_those_of_the_data() -> None:
    script = build_script("cost_model_errors")
    text = sections.TEXT.read_text("utf-8")
    errors, uncertain = (
        pd.read_csv(ROOT / "data" / name)
        for name in ("cost_model_errors.csv", "saving_uncertainty.csv")
    )
    assert script.write_method(text, errors, uncertain) == text


def test_figures_in_the_words_are_those_of_the_data() -> None:
    text = sections.TEXT.read_text("utf-8")
    errors = pd.read_csv(ROOT / "data" / "cost_model_errors.csv")
    points = pd.read_csv(ROOT / "data" / "energy_points.csv")
    not_scaled = points[points.basis != "scaled"]
    not_run = (not_scaled.basis == "interpolated").sum()
    assert f"{not_run} of the {len(not_scaled)} rows" in text
    below = errors[(errors.relation.str.contains("left out")) & (errors.range.str.startswith("b"))]
    below = below[below.quantity == "decode_j_per_token"]
    assert "about 11 % too much" in text and round(below.bias_percent.mean()) == 11
    vllm = errors[(errors.source == "Argonne, vLLM") & (errors.gpu == "A100-80GB")]
    vllm = vllm[vllm.quantity == "gpu_j_per_output_token"]
    assert "it is within 7 % of" in text and vllm.mean_absolute_error_percent.max() <= 7.0
    uncertain = pd.read_csv(ROOT / "data" / "saving_uncertainty.csv")
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    for policy in ROUTERS:
        ours = uncertain[uncertain.policy == policy].set_index(["perturbed", "trace"])
        alike = ours.loc["all pairs alike"]
        low, high = round(alike.low_percent.min()), round(alike.high_percent.max())
        assert f"from {low} to {high} %".replace("-", "\N{MINUS SIGN}") in readme
    ahead = uncertain[uncertain.policy == "carbonrouter-lookahead"]
    each = ahead[ahead.perturbed == "each pair by itself"].set_index("trace")
    off = pd.concat(
        [each.saving_percent - each.low_percent, each.high_percent - each.saving_percent]
    )
    assert f"about {off['claude-code'].max():.0f} points on agents" in readme
    assert f"up to {off['sharegpt'].max():.0f} on chat" in readme


def test_constants_in_the_words_are_those_of_the_code() -> None:
    text = sections.TEXT.read_text("utf-8")
    epsilon = {name: gpu.context_nj_per_byte for name, gpu in load_catalog().gpus.items()}
    for said in (
        f"{costs.HOST_W_PER_GPU:.0f} W for each GPU",
        f"contexts of {costs.MEASURED_CONTEXT_TOKENS:.0f} tokens",
        f"{epsilon['H100-80GB']} nJ/B on A100 and H100, {epsilon['B200-180GB']} nJ/B on B200",
        rf"\frac{{{costs.KV_MEMORY_SHARE}\,g\,M",
        rf"{{{costs.KV_BANDWIDTH_SHARE}\,g\,b}}",
        f"up to {HORIZON_TURNS} turns",
        f"assumed at {ASSUMED_PUE:.2f}",
    ):
        assert said in text
    assert epsilon["A100-80GB"] == epsilon["H100-80GB"]
    assert costs.SERVER_EMBODIED_G_PER_GPU == 5_700_000 / 8
    assert costs.LIFETIME_S == 3 * 365.25 * 86_400
