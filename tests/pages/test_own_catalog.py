"""Page Scenario: tables of the user's own are uploaded, listed, used, refused and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from carbonrouter_core import Scenario, load_catalog
from carbonrouter_core.fleet.own import TABLES, template_csv
from carbonrouter_core.routing.policies import ROUTER
from carbonrouter_core.store.own_catalog import import_catalog, stored_additions
from pages.shared import cache
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty store; figures are those of the default scenario, whatever is chosen."""
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))
    known = (Scenario(), ROUTER)
    figures, run = cache.overview(*known), cache.comparison(*known)
    monkeypatch.setattr(cache, "overview", lambda scenario, router: figures)
    monkeypatch.setattr(cache, "comparison", lambda scenario, router: run)
    yield tmp_path


def open_page(scenario: Scenario | None = None) -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE_S)
    if scenario is not None:
        app.session_state["scenario"] = scenario
    app.switch_page("pages/scenario.py")
    app.run()
    assert not app.exception
    return app


def upload(app: AppTest, **texts: str) -> None:
    """Give the page tables and send them off."""
    for name, text in texts.items():
        file = (f"{name}.csv", text.encode(), "text/csv")
        app.file_uploader(key=f"own-{name}-{app.session_state['own-catalog-uploads']}").set_value(
            file
        )
    next(button for button in app.button if button.label == "Check and store").click().run()
    assert not app.exception


def test_the_templates_can_be_uploaded_and_chosen() -> None:
    app = open_page()
    upload(app, **{name: template_csv(name) for name in TABLES})
    assert [entry.name for entry in stored_additions().entries] == [
        "my-model",
        "my-gpu",
        "my-model on my-gpu",
    ]
    (table,) = (frame.value for frame in app.dataframe if "SHA-256 begins" in frame.value.columns)
    assert table["From"].tolist()[0] == "models.csv, line 2"
    assert "my-model" in next(box for box in app.multiselect if box.label == "Models").options


def test_a_wrong_table_is_refused_by_its_line() -> None:
    app = open_page()
    upload(app, gpus=template_csv("gpus").replace(",700,70,", ",,70,"))
    (error,) = app.error
    assert "Nothing was stored." in error.value
    assert "gpus.csv, line 2: tdp" in error.value.replace("\\", "")
    assert stored_additions().entries == ()


def test_deleting_a_gpu_type_takes_it_out_of_the_scenario(tmp_path: Path) -> None:
    paths = {}
    for name in TABLES:
        paths[name] = tmp_path / f"{name}.csv"
        paths[name].write_text(template_csv(name))
    import_catalog(**paths)
    own = Scenario(models=("my-model",), gpus=("H100-80GB", "my-gpu"))
    app = open_page(own.replace(gpu_regions={"my-gpu": own.regions[:1]}))
    app.selectbox(key="own-entry").select_index(1).run()
    app.button(key="own-delete").click().run()
    assert not app.exception
    assert "my-gpu" not in load_catalog().gpus
    scenario = app.session_state["scenario"]
    assert (scenario.gpus, scenario.models) == (("H100-80GB",), ("my-model",))
    assert scenario.gpu_regions == {}
