"""The sources: complete, true to the tables, and the same in data/README.md."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from carbonrouter_core.report.sources import Source, built_in_sources, markdown_table

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
NOT_OF_A_TABLE = {"README.md", "sources.csv"}
DIFFICULTY_TABLES = {
    "difficulty_report.csv",
    "difficulty_weights.parquet",
    "mmlu_pro_item_difficulty.parquet",
    "quality_fit.csv",
}


def by_table(source: Source) -> str:
    return source.table


def test_the_table_of_the_readme_is_made_from_the_sources() -> None:
    assert f"\n\n{markdown_table()}\n\n" in README


def test_every_shipped_table_has_a_source() -> None:
    shipped = {path.name for path in (ROOT / "data").iterdir() if path.is_file()} - NOT_OF_A_TABLE
    assert shipped > DIFFICULTY_TABLES
    named = {source.table for source in built_in_sources()}
    assert named == shipped - DIFFICULTY_TABLES | {"difficulty tables", "land.geojson"}


@pytest.mark.parametrize("source", built_in_sources(), ids=by_table)
def test_every_source_has_what_must_be_said_of_it(source: Source) -> None:
    blank = {name for name, text in source._asdict().items() if not text.strip()}
    assert blank <= {"rows"}
    assert f"\n## {source.section}\n" in README
    assert source.attribution.endswith(".")


@pytest.mark.parametrize(
    "source", [source for source in built_in_sources() if source.rows], ids=by_table
)
def test_rows_are_those_of_the_table(source: Source) -> None:
    path = ROOT / "data" / source.table
    table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    assert len(table) == int(source.rows)
