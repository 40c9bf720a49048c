"""Report: take the figures away as CSV or as a report that prints, and keep runs."""

from __future__ import annotations

from carbonrouter_core.report.kept_runs import Check
from carbonrouter_core.store.runs import StoredRun
from pages.parts.report import downloads, stored_runs
from pages.shared import page

shown = page.start("Report")
if shown.problem:  # kept runs can be opened all the same
    page.problem(page.CANNOT_RUN, shown.problem)
with page.guard():
    result = downloads.collect()
    downloads.draw(shown)
    if isinstance(result, StoredRun):
        stored_runs.say(f"Kept as run {result.id}: {result.name}.")
    stored_runs.draw(shown)
    if isinstance(result, Check):
        stored_runs.tell(result)
