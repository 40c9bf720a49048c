"""Page Session replay: what is handed to the browser, and the states of the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import Scenario, compare
from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.results.session_story import Story, session_table, tell
from carbonrouter_core.routing.policies import reasons
from carbonrouter_core.store.store import open_store
from carbonrouter_core.traces.staging import stage
from carbonrouter_core.words import figures as fmt
from pages.parts.session_replay import conversations, decisions, player
from pages.shared import theme
from tests.contrast import contrast_ratio
from tests.waiting import PATIENCE_S

APP = Path(__file__).resolve().parents[2] / "app.py"
PAGE = "pages/session_replay.py"
LOOKAHEAD, PUBLISHED, FAIRCARBON = "carbonrouter-lookahead", "carbonrouter", "faircarbon"


@pytest.fixture(scope="module")
def world() -> Comparison:
    return compare(Scenario(), (LOOKAHEAD, PUBLISHED, FAIRCARBON))


@pytest.fixture(scope="module")
def longest(world: Comparison) -> dict[str, Story]:
    session = int(world.trace.session_turns.argmax())
    return {name: tell(world.prepared, run, session) for name, run in world.runs.items()}


@pytest.fixture
def open_page() -> Callable[..., AppTest]:
    """Opens the page in a browser tab of its own, with a scenario where one is given."""

    def start(scenario: Scenario | None = None, **state: object) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=PATIENCE_S)
        if scenario is not None:
            app.session_state["scenario"] = scenario
        for name, value in state.items():
            app.session_state[name] = value
        app.switch_page(PAGE)
        app.run()
        assert not app.exception
        return app

    return start


def unpack(message: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """Header and columns, read as the browser reads them."""
    length = int.from_bytes(message[:4], "little")
    header = json.loads(message[8 : 8 + length])
    start = 8 + header["start"]
    columns = {
        name: np.frombuffer(message, f"<{kind}", count, start + offset)
        for name, (kind, offset, count) in header["columns"].items()
    }
    return header, columns


def sent(app: AppTest) -> tuple[dict, dict[str, np.ndarray]]:
    """What the page handed to the player."""
    (shown,) = app.get("bidi_component")
    return unpack(shown.proto.bytes)


def problem(app: AppTest) -> str:
    (body,) = [one.proto.body for one in app.get("html") if "cr-problem" in one.proto.body[:40]]
    return body


def test_a_newcomer_sees_the_longest_conversation(
    open_page: Callable[..., AppTest], world: Comparison
) -> None:
    app = open_page()

    header, columns = sent(app)
    table = session_table(world, LOOKAHEAD, FAIRCARBON)
    row = table.loc[table["turns"].argmax()]
    assert header["turns"] == row["turns"] == 300
    assert [one["name"] for one in header["policies"]] == [
        "CarbonRouter, look-ahead",
        "FairCarbon",
    ]
    assert columns["a_carbon"].sum() == pytest.approx(row["carbon_g"], rel=1e-9)
    assert columns["b_carbon"].sum() == pytest.approx(row["other_carbon_g"], rel=1e-9)
    assert "300 turns" in app.selectbox(key="replay-session").options[0]
    assert len(app.get("tab")) == 2


def test_the_browser_gets_the_figures_of_the_engine(longest: dict[str, Story]) -> None:
    ours, theirs = longest[PUBLISHED], longest[FAIRCARBON]
    header, columns = unpack(player.message(ours, theirs))

    n = len(ours.prepared.deployments)
    assert header["turns"] == len(ours) and len(header["deployments"]["label"]) == n
    for side, story in (("a", ours), ("b", theirs)):
        for name, values in (
            ("carbon", story.charges.carbon_g),
            ("recompute_g", story.charges.recompute_g),
            ("recomputed", story.recomputed_tokens),
            ("deployment", story.decisions.deployment),
            ("moved_from", story.moved_from),
            ("total", story.candidates.total_g.ravel()),
            ("cached", story.candidates.cached_tokens.ravel()),
            ("obstacle", story.candidates.obstacle.ravel()),
        ):
            np.testing.assert_allclose(columns[f"{side}_{name}"], values, rtol=1e-6)
    np.testing.assert_allclose(columns["prompt"], ours.candidates.prompt_g.ravel(), rtol=1e-6)
    np.testing.assert_allclose(columns["quality"], theirs.candidates.quality.ravel(), rtol=1e-6)
    assert all(offset % 8 == 0 for _, offset, _ in header["columns"].values())


def test_the_longest_conversation_of_coding_agents_is_small_enough() -> None:
    world = compare(Scenario(trace="claude-code"), (LOOKAHEAD, FAIRCARBON))
    session = int(world.trace.session_turns.argmax())
    stories = [tell(world.prepared, run, session) for run in world.runs.values()]

    size = len(player.message(*stories))

    assert len(stories[0]) > 500
    assert size < 2.5e6, "a few MB are noticed on a slow line"


# --- words ------------------------------------------------------------------------------------


def test_words_match_the_codes(longest: dict[str, Story]) -> None:
    mass = fmt.Mass.for_largest(0.07)
    for policy_id, story in longest.items():
        words = decisions.in_words(story, mass)
        for turn, said in enumerate(words):
            code = int(story.decisions.reason[turn])
            moved = story.moved_from[turn] >= 0
            if code == reasons.RULE:
                assert "each query by itself" in said.why
            else:
                assert said.why == reasons.WORDS[code]
            assert said.verdict.startswith("Moves") == moved, (policy_id, turn)
            if code in (reasons.STAYED, reasons.HELD, reasons.AHEAD_STAYED):
                assert said.verdict.startswith("Stays"), (policy_id, turn)


def test_the_gate_is_told_with_its_numbers(world: Comparison) -> None:
    run, mass = world.runs[PUBLISHED], fmt.Mass.for_largest(0.07)
    held_turns = np.bincount(
        world.trace.session_index, run.decisions.reason == reasons.HELD, world.trace.n_sessions
    )
    told = []
    for session in np.argsort(-held_turns)[:5]:
        story = tell(world.prepared, run, int(session))
        figures, words = story.decisions, decisions.in_words(story, mass)
        for turn in np.flatnonzero(np.isfinite(figures.p_back)):
            said = words[turn].numbers
            shown = [
                fmt.percent(100 * figures.p_back[turn], 0),
                mass.text(figures.saving_g[turn]),
                mass.text(figures.rebuild_g[turn]),
            ]
            held = figures.reason[turn] == reasons.HELD
            if held:
                loss_g = figures.p_back[turn] * figures.rebuild_g[turn]
                shown += [mass.text(loss_g), f"to gain {mass.text(figures.next_gain_g[turn])}"]
            assert all(one in said for one in shown)
            assert said.endswith(": it stays." if held else ": it moves.")
            told.append(said)
    assert any("it stays" in text for text in told) and any("it moves" in text for text in told)


def test_look_ahead_is_told_with_now_and_later(longest: dict[str, Story]) -> None:
    story, mass = longest[LOOKAHEAD], fmt.Mass.for_largest(0.07)
    (turn, *_) = np.flatnonzero(story.decisions.reason == reasons.AHEAD_STAYED)
    here = story.decisions.deployment[turn]
    now_g = story.candidates.total_g[turn, here]
    later_g = story.candidates.to_come_g[turn, here]

    said = decisions.in_words(story, mass)[turn].numbers

    expected = (
        f"Here: {mass.text(now_g)} now + {mass.text(later_g)} expected later = "
        f"{mass.text(now_g + later_g)}. Cheapest now, "
    )
    assert said.startswith(expected)


def test_what_faircarbon_does_not_see_is_said(longest: dict[str, Story]) -> None:
    story, mass = longest[FAIRCARBON], fmt.Mass.for_largest(0.07)
    turn = int(story.recomputed_tokens.argmax())

    said = decisions.in_words(story, mass)[turn].numbers

    share = 100 * story.charges.recompute_g[turn] / story.charges.carbon_g[turn]
    shown = fmt.percent(share, 0)
    assert said == f"{shown} of this turn's carbon went into recomputing history."


# --- choosing -----------------------------------------------------------------------------------


def test_conversations_are_offered_by_what_makes_them_interesting(
    open_page: Callable[..., AppTest], world: Comparison
) -> None:
    app = open_page()
    table = session_table(world, LOOKAHEAD, FAIRCARBON)
    for by, (column, sign) in conversations.ORDERS.items():
        app.selectbox(key="replay-by").set_value(by).run()

        best = table.loc[(sign * table[column]).idxmax()]
        assert app.selectbox(key="replay-session").options[0] == conversations.describe(best)
        assert sent(app)[0]["key"] == f"sharegpt/{best['session']}"


def test_a_conversation_is_found_by_its_id(open_page: Callable[..., AppTest]) -> None:
    app = open_page()
    app.selectbox(key="replay-by").set_value(conversations.BY_ID).run()
    assert app.text_input(key="replay-id").value == "336", "the one that was shown"

    app.text_input(key="replay-id").set_value("337").run()
    assert sent(app)[0]["key"] == "sharegpt/337"

    app.text_input(key="replay-id").set_value("<b>nobody").run()
    assert "No conversation to replay" in problem(app) and "nobody" in problem(app)
    assert "<b>nobody" not in problem(app)
    assert not app.get("bidi_component")


def test_another_policy_can_be_compared_with(
    open_page: Callable[..., AppTest], world: Comparison
) -> None:
    app = open_page()
    app.selectbox(key="replay-other").set_value("sticky").run()
    assert not app.exception

    header, columns = sent(app)
    assert header["policies"][1]["name"] == theme.name("sticky")
    sticky = compare(Scenario(), ("sticky",)).session_carbon_g("sticky")
    longest = int(world.trace.session_turns.argmax())
    assert columns["b_carbon"].sum() == pytest.approx(sticky[longest], rel=1e-9)


def test_the_optimum_is_called_so_only_where_it_is_proven(
    open_page: Callable[..., AppTest],
) -> None:
    for copies, name in (("latest", "Hindsight optimum"), ("all", "Best found in hindsight")):
        app = open_page(Scenario(copies=copies, window_days=1))
        app.selectbox(key="replay-other").set_value("hindsight-optimum").run()
        assert not app.exception
        assert name in app.selectbox(key="replay-other").options
        assert sent(app)[0]["policies"][1]["name"] == name


def test_a_description_of_a_conversation() -> None:
    row = pd.Series(
        {
            "session": "s-1",
            "turns": 300,
            "moves": 1,
            "holds": 2,
            "carbon_g": 20.0,
            "other_carbon_g": 50.0,
            "saving_g": 30.0,
        }
    )
    said = conversations.describe(row).replace(fmt.NARROW_SPACE, " ")
    assert said == "300 turns, 1 move, 2 holds, 60.0 % less (30.0 g CO2e), id s-1"
    row[["carbon_g", "other_carbon_g", "saving_g"]] = 0.0
    assert conversations.describe(row) == "300 turns, 1 move, 2 holds, n/a, id s-1"


# --- states ---------------------------------------------------------------------------------------


def test_other_data_are_replayed_too(open_page: Callable[..., AppTest]) -> None:
    header, _ = sent(open_page(Scenario(trace="claude-code")))
    assert header["turns"] == 514


def test_the_choice_outlives_presenting(open_page: Callable[..., AppTest]) -> None:
    app = open_page()
    chosen = app.selectbox(key="replay-session").options[2]
    app.selectbox(key="replay-session").select_index(2).run()
    before, _ = sent(app)

    app.toggle(key="present").set_value(True).run()

    header, _ = sent(app)
    assert header["present"] and header["key"] == before["key"]
    assert not app.selectbox, "no controls while presenting"
    (said,) = [one.proto.body for one in app.get("html") if "Conversation of" in one.proto.body]
    assert chosen in said, "as it is, with nothing escaped for Markdown"
    app.toggle(key="present").set_value(False).run()
    assert sent(app)[0]["key"] == before["key"]
    assert app.selectbox(key="replay-session").options[2] == chosen


def test_where_there_is_no_such_conversation_the_page_says_so(
    open_page: Callable[..., AppTest],
) -> None:
    one_place = Scenario(
        regions=("europe-west2",), gpus=("H100-80GB",), models=("Llama-3.3-70B",), gpu_regions={}
    )
    app = open_page(one_place, **{"kept:replay-by": "Most moves"})

    assert "moves no conversation of this workload" in problem(app)
    app.selectbox(key="replay-by").set_value("Longest").run()
    header, columns = sent(app)
    assert columns["a_carbon"].sum() == columns["b_carbon"].sum(), "one deployment, all equal"


def test_a_conversation_too_long_for_a_browser_is_sent_there_in_stretches(
    open_page: Callable[..., AppTest], world: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "MOST_CANDIDATES", 149 * 45)
    app = open_page()

    turns = app.selectbox(key="replay-stretch")
    assert turns.options == ["1 to 100", "101 to 200", "201 to 300"]
    turns.select_index(1).run()
    header, columns = sent(app)
    session = int(world.trace.session_turns.argmax())
    start = world.trace.offsets[session]
    carbon_g = world.runs[LOOKAHEAD].charges.carbon_g[start : start + 300]
    assert (header["before"], header["turns"], header["turnsInAll"]) == (100, 100, 300)
    np.testing.assert_array_equal(columns["a_carbon"], carbon_g[100:200])
    assert header["carbonBefore"][0] == pytest.approx(carbon_g[:100].sum(), rel=1e-12)
    assert header["carbonInAll"][0] == pytest.approx(carbon_g.sum(), rel=1e-12)
    assert not any(verdict.startswith("Starts") for verdict in header["policies"][0]["verdict"])
    assert [one.label for one in app.expander] >= ["Turns 101 to 200 as a table"]
    app.toggle(key="present").set_value(True).run()
    assert sent(app)[0]["before"] == 100
    app.toggle(key="present").set_value(False).run()
    app.selectbox(key="replay-session").select_index(4).run()
    assert sent(app)[0]["before"] == 100, "the same stretch of another long one"


@pytest.mark.parametrize(
    ("turns", "deployments", "parts"),
    [
        (5555, 45, [range(5555)]),
        (5556, 45, [range(5500), range(5500, 5556)]),
        (3, 1_000_000, [range(1), range(1, 2), range(2, 3)]),
    ],
)
def test_stretches_are_what_a_browser_can_take(
    turns: int, deployments: int, parts: list[range]
) -> None:
    assert conversations.stretches(turns, deployments) == parts


def test_what_a_log_says_was_served_is_replayed_beside_the_router(
    open_page: Callable[..., AppTest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    log = tmp_path / "log.jsonl"
    records = [
        {
            "created": 1716200000 + 60 * turn,
            "model": "llama-3.1-8b-instruct",
            "region": "europe-west2" if turn < 3 else "nowhere",
            "session_id": "mine",
            "usage": {
                "prompt_tokens": 500 * (turn + 1),
                "completion_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 300 * turn},
            },
        }
        for turn in range(4)
    ]
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    with stage([log]) as staged:
        open_store().save_trace(staged, "mine")
    app = open_page(Scenario(trace="mine", window_start="2024-05-20", window_days=1))
    assert "As served" not in header_names(app)
    app.selectbox(key="replay-other").set_value("as-served").run()
    assert not app.exception
    header, columns = sent(app)
    logged = header["policies"][1]
    assert logged["name"] == "As served" and "does not say what was compared" in logged["note"]
    assert logged["why"][0] == "Its rule: what the log says was served where."
    assert logged["verdict"] == [
        "Starts in London",
        "Stays in London",
        "Stays in London",
        "Not served",
    ]
    assert logged["why"][3] == reasons.WORDS[reasons.NOT_IN_SCENARIO]
    n = len(header["deployments"]["label"])
    here = columns["b_deployment"]
    assert [columns["b_cached"].reshape(-1, n)[turn, here[turn]] for turn in range(3)] == [
        0,
        300,
        600,
    ]
    said = " ".join(one.proto.body for one in app.get("html"))
    assert "cached tokens are those observed on 4 of 4 turns" in said


def header_names(app: AppTest) -> list[str]:
    return [one["name"] for one in sent(app)[0]["policies"]]


def test_a_scenario_that_cannot_be_run_is_explained(open_page: Callable[..., AppTest]) -> None:
    app = open_page()
    app.multiselect(key="control_regions").set_value([]).run()

    assert not app.exception
    assert "Regions is empty" in problem(app)
    assert not app.get("bidi_component")


@pytest.mark.parametrize("palette", [theme.LIGHT, theme.DARK])
def test_colours_of_deployments_stand_out(palette: theme.Palette) -> None:
    colours = player.DEPLOYMENTS_DARK if palette.dark else player.DEPLOYMENTS_LIGHT
    assert len(set(colours)) == len(colours)
    for colour in colours:
        assert contrast_ratio(colour, palette.background) >= 3.0, colour
