"""Page Sensitivity as a user meets it: ask, watch, stop, go on, read; and what cannot be run."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from datetime import date
from pathlib import Path
from types import MappingProxyType

import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import Scenario
from carbonrouter_core.cli.main import main
from carbonrouter_core.results.comparison import Interval
from carbonrouter_core.routing.policies import ROUTER
from carbonrouter_core.store.store import open_store
from carbonrouter_core.studies import sensitivity
from carbonrouter_core.studies.inputs import SWEEP_INPUTS, Point
from carbonrouter_core.studies.sweep import STORED, Axis, Outcome, Question, run_points
from carbonrouter_core.words import figures as fmt
from pages.parts.sensitivity import choice, plots, sentences
from pages.shared import processes, studies
from pages.shared.jobs import Job, Phase
from pages.shared.studies import Results, Study
from tests.waiting import PATIENCE_S, attempts

ROOT = Path(__file__).resolve().parents[2]
JOB = "sensitivity-job"
SESSIONS = 200
"""Sessions of the sample in these tests."""
ALL_TURNS = choice.ALL_TURNS
QUESTION = Question((ROUTER, "faircarbon"), sample=SESSIONS)

OpenPage = Callable[..., AppTest]


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    """Threads in place of processes, which take seconds to start."""
    with ThreadPoolExecutor(2) as threads:
        monkeypatch.setattr(processes.POOL, "_executor", threads)
        yield threads


@pytest.fixture
def open_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: ThreadPoolExecutor
) -> Iterator[OpenPage]:
    """Opens the page in a browser tab of its own, with small samples and an empty store."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(choice, "sample_sessions", lambda sessions, turns: SESSIONS)
    monkeypatch.setattr(choice, "ALL_TURNS", 0)  # the built-in trace is a large one here

    def start(choices: Mapping[str, object] = MappingProxyType({}), **more: object) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
        named = {key.replace("_", "-"): value for key, value in more.items()}
        for key, value in {**choices, **named}.items():
            app.session_state[f"kept:sensitivity-{key}"] = value
        app.switch_page("pages/sensitivity.py")
        app.run()
        assert not app.exception
        return app

    yield start


class Holding(Executor):
    """Holds back points until it is told to let some of them through."""

    def __init__(self, through: int) -> None:
        self.threads, self.left = ThreadPoolExecutor(1), through
        self.lock = threading.Lock()

    def submit(self, function, /, *arguments, **named):
        with self.lock:
            self.left -= 1
            return (
                self.threads.submit(function, *arguments, **named) if self.left >= 0 else Future()
            )


def job_of(app: AppTest) -> Job:
    return app.session_state[JOB].job


def results_of(app: AppTest) -> Results:
    return studies.results_of(job_of(app).status)


def click_run(app: AppTest, *, wait: bool = True) -> AppTest:
    app.button(key=f"{JOB}-run").click().run()
    if wait:
        wait_for(lambda: job_of(app).status.ended)
        app.run()
    assert not app.exception
    return app


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in attempts():
        if condition():
            return


def words(app: AppTest) -> str:
    said = [*app.warning, *app.info, *app.markdown]
    bodies = [block.proto.body for block in app.get("html")]
    text = "\n".join([*(one.value for one in said), *(b for b in bodies if "<style" not in b)])
    return text.replace(fmt.NARROW_SPACE, " ").replace("\\", "")


def button(app: AppTest, key: str):
    return next((one for one in app.button if one.key == key), None)


# --- States -----------------------------------------------------------------------------------


def test_a_fresh_page_says_what_it_is_for_and_runs_nothing(open_page: OpenPage) -> None:
    app = open_page()
    assert "Press <b>Run</b>" in words(app)
    assert f"{1 + 2 * len(SWEEP_INPUTS) - 1} runs on" in words(app)  # one value is the base's
    assert not app.get("plotly_chart") and JOB not in app.session_state


def test_the_tornado_is_that_of_the_core(open_page: OpenPage) -> None:
    app = click_run(open_page())
    points = sensitivity.one_at_a_time(Scenario())
    outcomes = dict(run_points(points, QUESTION))
    bars = sensitivity.swings([outcomes[n] for n in range(len(points))], ROUTER)
    assert sensitivity.most_important(bars) in words(app)
    saving = outcomes[0].savings[ROUTER]
    less = fmt.less_or_more(saving.value_percent).replace(fmt.NARROW_SPACE, " ")
    assert f"<b>{less} CO2e than FairCarbon</b>" in words(app)
    table = app.dataframe[0].value
    assert table["Input"].tolist() == [bar.input.label for bar in bars]
    assert table["Saving at low (%)"].tolist() == pytest.approx(
        [bar.low_percent for bar in bars], nan_ok=True
    )
    assert table["Why these values"].tolist() == [bar.input.why for bar in bars]
    assert len(app.get("plotly_chart")) == 1
    assert app.get("download_button")


def test_a_running_sweep_shows_what_has_come_and_outlives_its_page(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes.POOL, "_executor", Holding(5))
    app = click_run(open_page(), wait=False)
    job = job_of(app)
    wait_for(lambda: len(results_of(app).outcomes) == 5)
    app.run()
    assert "2 of 17 inputs so far" in words(app) and app.get("plotly_chart")
    (bar,) = app.get("progress")
    assert "5 of 34 runs" in bar.proto.text
    assert button(app, f"{JOB}-run").disabled
    app.switch_page("pages/method.py").run()
    app.switch_page("pages/sensitivity.py").run()
    assert job.status.phase is Phase.RUNNING and "2 of 17 inputs so far" in words(app)
    assert job_of(app) is job


def test_a_stopped_sweep_keeps_what_it_has_and_goes_on(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, executor: ThreadPoolExecutor
) -> None:
    monkeypatch.setattr(processes.POOL, "_executor", Holding(5))
    app = click_run(open_page(), wait=False)
    job = job_of(app)
    wait_for(lambda: len(results_of(app).outcomes) == 5)
    app.run()
    app.button(key=f"{JOB}-stop").click().run()
    job.future.exception(timeout=PATIENCE_S)  # stopping does not wait for points
    app.run()
    assert "Stopped. 5 runs of 34 are kept" in words(app)
    assert app.get("plotly_chart") and len(open_store().table_names(STORED)) == 1
    assert button(app, f"{JOB}-run").label == "Go on"

    began: list[Point] = []

    class Counting(ThreadPoolExecutor):
        def submit(self, function, /, point, *rest):
            began.append(point)
            return super().submit(function, point, *rest)

    with Counting(2) as counting:
        monkeypatch.setattr(processes.POOL, "_executor", counting)
        app = click_run(app)
    assert results_of(app).complete and len(began) == 34 - 5
    assert "matters most" in words(app)


def test_other_choices_do_not_pass_for_the_answer(open_page: OpenPage) -> None:
    app = click_run(open_page(kind="line", x_count=2))
    assert "The choices have changed" not in words(app)
    app.slider(key="control_quality_floor").set_value(0.7).run()
    assert "are of the earlier ones: scenario Paper, 200 sampled sessions" in words(app)
    assert results_of(app).study.scenario.quality_floor == 0.65


def test_lost_workers_are_said_and_the_next_run_has_others(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, executor: ThreadPoolExecutor
) -> None:
    class Lost(Executor):
        def submit(self, function, /, *arguments, **named):
            raise BrokenExecutor("out of memory")

    monkeypatch.setattr(processes.POOL, "_executor", Lost())
    monkeypatch.setattr(processes, "process_pool", lambda workers, idle_s: executor)
    app = click_run(open_page(kind="line", x_count=2))
    assert "The workers were stopped" in words(app)
    app = click_run(app)
    assert results_of(app).complete and app.get("plotly_chart")


def test_a_defect_shows_no_traceback(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(studies, "Runner", broken)
    app = click_run(open_page())
    assert "This run failed" in words(app) and "secret" not in words(app)


def test_a_scenario_that_makes_none_is_said(open_page: OpenPage) -> None:
    app = open_page()
    app.multiselect(key="control_regions").set_value([]).run()
    assert "Regions is empty" in words(app) and button(app, f"{JOB}-run") is None


def test_a_base_that_cannot_run_is_said(open_page: OpenPage) -> None:
    app = open_page()
    app.session_state["scenario"] = Scenario(window_start=date(2024, 12, 30))
    del app.session_state["scenario_draft"]
    app.run()
    assert "cannot be run" in words(app) and not app.exception


def test_while_presenting_only_the_answer_is_shown(open_page: OpenPage) -> None:
    app = click_run(open_page(kind="line", x_count=2))
    app.toggle(key="present").set_value(True).run()
    assert app.get("plotly_chart") and not app.selectbox and not app.dataframe


# --- Questions --------------------------------------------------------------------------------


def test_a_line_is_that_of_the_command_line(
    open_page: OpenPage, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "sweep",
        "--preset",
        "Paper",
        "--vary",
        "idle_s=120:7200:3",
        "--sample",
        str(SESSIONS),
        "--json",
    ]
    policies = ["--policies", f"{ROUTER},faircarbon", "--workers", "1"]
    assert main([*arguments, *policies]) == 0
    printed = json.loads(capsys.readouterr().out)
    for key in open_store().table_names(STORED):  # so that the page runs them itself
        open_store().delete_table(STORED, key)

    app = click_run(open_page(kind="line", x="idle_s", x_count=3))
    table = app.dataframe[0].value
    savings = [row["saving_percent"][ROUTER] for row in printed]
    assert table["Saving (%)"].tolist() == [one["value_percent"] for one in savings]
    assert table["From (%)"].tolist() == [one["low_percent"] for one in savings]
    shown = [value.replace(fmt.NARROW_SPACE, " ") for value in table["Cache kept unused"]]
    assert shown == ["2 min", "61 min", "2 h"]


def test_two_inputs_make_a_heat_map(open_page: OpenPage) -> None:
    app = click_run(open_page(kind="grid", x="copies", y="quality_floor", y_count=2))
    table = app.dataframe[0].value
    assert len(table) == 4 and table["Quality floor"].tolist() == ["0.5", "0.8"] * 2
    spec = json.loads(app.get("plotly_chart")[0].proto.spec)
    assert spec["data"][0]["type"] == "heatmap"


def test_a_search_says_where_or_that_it_never_stops(open_page: OpenPage) -> None:
    app = click_run(open_page(kind="break-even", search="quality_floor"))
    found = results_of(app).break_even
    assert found is not None and len(found.looked_at) >= sensitivity.SEARCH_POINTS
    assert found.in_words(*sentences.names(results_of(app).study)) in words(app)


def test_draws_give_an_interval_beside_that_of_the_sessions(open_page: OpenPage) -> None:
    app = click_run(open_page(kind="draws", draws=50))
    points = sensitivity.drawn_factors(Scenario(), 50, Scenario().seed)
    outcomes = [outcome for _, outcome in sorted(run_points(points, QUESTION))]
    found = sensitivity.factor_interval(outcomes, ROUTER)
    between = fmt.between(found.low_percent, found.high_percent).replace(fmt.NARROW_SPACE, " ")
    assert f"<b>{between}</b>" in words(app) and "is not included" in words(app)
    assert len(app.dataframe[-1].value) == 51


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"kind": "grid", "x": "idle_s", "y": "idle_s"}, "two different"),
        ({"kind": "line", "x": "quality_floor", "x-quality_floor-high": 1.5}, "must be"),
        ({"kind": "line", "x": "idle_s", "x-idle_s-low": 9000.0}, "not below"),
    ],
)
def test_what_cannot_be_asked_is_said_and_has_no_button(
    open_page: OpenPage, choices: dict[str, object], said: str
) -> None:
    app = open_page(choices)
    assert said in words(app) and button(app, f"{JOB}-run") is None


def test_choices_outlast_a_visit_to_another_page(open_page: OpenPage) -> None:
    app = open_page(kind="line")
    app.selectbox(key="sensitivity-x").set_value("concurrency").run()
    app.switch_page("pages/method.py").run()
    app.switch_page("pages/sensitivity.py").run()
    assert app.selectbox(key="sensitivity-x").value == "concurrency"


# --- Words and charts, from made-up outcomes --------------------------------------------------


def made(kind: str, savings: list[float | None], **details) -> Results:
    """A study that has come to its end with these savings, one a point."""
    study = Study(kind, Scenario(), QUESTION, ROUTER, **details)
    outcomes: dict[Point, Outcome] = {}
    for point, saving in zip(study.points(), savings, strict=True):
        interval = {} if saving is None else {ROUTER: Interval(saving, saving - 2, saving + 2)}
        figures, error = {ROUTER: {"sessions": 100}}, "" if interval else "no data"
        outcomes.setdefault(point, Outcome(point, figures, interval, error))
    return Results(study, outcomes, ended=True, complete=True)


def test_words_of_a_line_name_the_ends_and_the_losses() -> None:
    axes = (Axis("idle_s", (120.0, 600.0, 3600.0)),)
    text = sentences.sentences(made(studies.LINE, [-4.0, None, 21.34], axes=axes))
    assert text.replace(fmt.NARROW_SPACE, " ") == (
        "CarbonRouter with look-ahead against FairCarbon: from <b>4.0 % more</b> CO2e at cache "
        "kept unused 2 min to <b>21.3 % less</b> at cache kept unused 1 h. It loses at 1 of 2."
    )


def test_a_line_names_the_lines_that_are_drawn_and_no_other() -> None:
    def subtitle(name: str, values: tuple[float, ...], crossings: tuple[float, ...] = ()) -> str:
        run = made(studies.LINE, [1.0, 2.0], axes=(Axis(name, values),))
        points = list(zip(values, run.in_order(), strict=True))
        chart = plots.line(run.study, SWEEP_INPUTS[name], points, crossings)
        return str(chart.figure.layout.title.subtitle.text)

    assert subtitle("idle_s", (120.0, 7200.0)) == "Dashed line: as the scenario stands"
    assert "Solid line" in subtitle("idle_s", (120.0, 7200.0), (600.0,))
    # the scenario has no ceiling, so there is nothing to mark
    assert "line" not in subtitle("latency_ceiling_ms", (5000.0, 60000.0))


def test_a_heat_map_leaves_out_what_cannot_run() -> None:
    axes = (Axis("copies", ("latest", "all")), Axis("quality_floor", (0.5, 0.8)))
    run = made(studies.GRID, [1.0, 2.0, None, -4.0], axes=axes)
    chart = plots.grid(run)
    (drawn,) = chart.figure.data
    assert drawn.text[0][0] == "1.0" and drawn.text[0][1] == "" and drawn.text[1][1] == "−4.0"
    assert (drawn.zmin, drawn.zmax) == (-4.0, 4.0)
    assert "4.0\u202f% more" in chart.alt and "no data" in str(drawn.customdata)


def test_a_tornado_without_a_result_at_one_end_says_so() -> None:
    savings = [10.0] * (1 + 2 * len(SWEEP_INPUTS))
    savings[1] = None
    run = made(studies.TORNADO, savings)
    bars = sentences.bars(run)
    table = sentences.tornado_table(bars)
    assert "no data" in set(table["Cannot run"])
    assert "n/a at" in plots.tornado(run, bars).alt


def test_all_sessions_are_asked_for_unless_the_trace_is_large(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first figure must not differ from the Overview's by the luck of a sample."""
    app = open_page()
    assert app.selectbox(key="sensitivity-size").value == "sample"
    monkeypatch.setattr(choice, "ALL_TURNS", ALL_TURNS)
    app = open_page()
    assert app.selectbox(key="sensitivity-size").value == "all"


def test_a_sample_is_of_about_so_many_turns() -> None:
    assert choice.sample_sessions(9349, 59_837) == 1200
    assert choice.sample_sessions(676, 40_000) == 100
    assert choice.sample_sessions(50, 5_000) == 50


def test_processes_are_bounded_by_cores_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 64)
    monkeypatch.setattr(processes, "_memory_bytes", lambda: 16e9)
    assert processes.workers() == 6
    monkeypatch.setattr(processes, "_memory_bytes", lambda: 1e9)
    assert processes.workers() == 1
