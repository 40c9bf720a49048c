"""Any other table of requests, whose columns the user names."""

import json
from pathlib import Path

import pytest

from carbonrouter_core.cli.main import main
from carbonrouter_core.errors import TraceError
from carbonrouter_core.store.mappings import mapping_named
from carbonrouter_core.store.store import open_store
from carbonrouter_core.traces.importers.base import ImportOptions
from carbonrouter_core.traces.preview import first_rows, what_rows_become
from carbonrouter_core.traces.staging import stage

TABLE = "who;when;asked;said\na;2024-05-20 10:00:00;100;20\na;2024-05-20 10:01:00;150;30\n"
COLUMNS = {"session": "who", "time": "when", "prompt_tokens": "asked", "output_tokens": "said"}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CARBONROUTER_HOME", str(tmp_path / "home"))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def test_a_refusal_ends_with_the_way_out(table: Path) -> None:
    with pytest.raises(TraceError, match="--column prompt_tokens=COLUMN"), stage([table]):
        pass


def test_columns_are_kept_for_the_next_file(table: Path) -> None:
    said = [part for ours, theirs in COLUMNS.items() for part in ("--column", f"{ours}={theirs}")]
    assert main(["import", "trace", str(table), *said, "--keep-mapping", "ours"]) == 0
    assert mapping_named("trace", "ours").columns == COLUMNS
    again = ["import", "trace", str(table), "--mapping", "ours", "--name", "again"]
    assert main(again) == 0
    trace = open_store().load_trace("again")
    assert trace.history_tokens.tolist() == [0, 120]
    assert trace.new_prompt_tokens.tolist() == [100, 30]
    assert trace.session_ids == ("a",)


def test_paths_in_records_are_columns_too(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    record = {"cost": {"in": 100, "out": 20}, "at": 1_716_200_000, "text": "x" * 1000}
    path.write_text(json.dumps(record) + "\n")
    rows = first_rows(path, "log.jsonl")
    assert list(rows) == ["cost.in", "cost.out", "at", "text"]
    assert len(rows["text"][0]) < 1000
    columns = {"prompt_tokens": "cost.in", "output_tokens": "cost.out", "time": "at"}
    became = what_rows_become(path, "log.jsonl", ImportOptions(columns=columns))
    assert became["new_prompt_tokens"].tolist() == [100]
    assert str(became["start_utc"][0]) == "2024-05-20 10:13:20"


def test_what_rows_become_is_what_is_stored(table: Path) -> None:
    became = what_rows_become(table, "table.csv", ImportOptions(columns=COLUMNS))
    assert became["history_tokens"].tolist() == [0, 120]
    assert became["output_tokens"].tolist() == [20, 30]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"prompt_tokens": "asked"}, "output_tokens=COLUMN"),
        ({"prompt_tokens": "ask", "output_tokens": "said"}, "nearest: asked"),
        ({"prompt_tokens": "who", "output_tokens": "said"}, "who is not a number"),
    ],
)
def test_columns_that_cannot_be_right(table: Path, columns: dict[str, str], words: str) -> None:
    with pytest.raises(TraceError, match=words):
        what_rows_become(table, "table.csv", ImportOptions(columns=columns))
