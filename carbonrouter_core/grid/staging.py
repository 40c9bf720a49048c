"""From files to checked carbon-intensity series, ready to be stored. Nothing is stored here.

Errors are counted with their lines in a report; a wrong row stops the import. Nothing is
filled in but holes of up to three hours, linearly, and they count as estimated.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.grid.even import stated
from carbonrouter_core.grid.importers import INTENSITY_IMPORTERS
from carbonrouter_core.grid.importers.base import IntensityImporter, IntensityOptions, Rows
from carbonrouter_core.grid.importers.no_series import refuse_what_is_no_series
from carbonrouter_core.grid.importers.own import read_mapped
from carbonrouter_core.grid.report import IntensityReport, SeriesSummary
from carbonrouter_core.grid.rows import RowChecks
from carbonrouter_core.grid.series import ZoneSeries
from carbonrouter_core.progress import Progress, nobody_listens, part_of
from carbonrouter_core.reading.files import Source, reading_errors_as, sources_of
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.numbers import G_PER_KWH
from carbonrouter_core.reading.tidy import tidied
from carbonrouter_core.reading.times import time_zone
from carbonrouter_core.scenario import BASES, KINDS


@dataclass(frozen=True)
class StagedIntensity:
    """Series that were read and checked, but are stored nowhere yet."""

    report: IntensityReport
    series: tuple[ZoneSeries, ...]

    def require(self, *, done: str = "stored") -> None:
        """Raise :class:`IntensityError` unless this may be stored."""
        report = self.report
        name = ", ".join(report.files)
        if report.refused:
            raise IntensityError(f"{name}, {report.first_refusal}. Nothing was {done}.")
        if not report.series:
            raise IntensityError(f"{name} has no carbon intensity; nothing was {done}.")


def stage_intensity(
    paths: Sequence[Path],
    format_id: str | None = None,
    *,
    names: Sequence[str] | None = None,
    options: IntensityOptions | None = None,
    own_zones: Collection[str] = (),
    progress: Progress = nobody_listens,
) -> StagedIntensity:
    """Read and check the series in ``paths``, which are one series cut into files, or several.

    ``own_zones``: zones that the user has beside the built-in ones. Raises
    :class:`IntensityError` for a file that holds no carbon intensity; wrong rows are in the
    report instead.
    """
    options = options or IntensityOptions()
    findings = Findings()
    with reading_errors_as(IntensityError), TemporaryDirectory() as folder:
        _check_options(options)
        sources = tidied(sources_of(paths, names, pages=False), Path(folder), findings)
        for source in sources:
            refuse_what_is_no_series(source)
        importer, reason = _importer(sources[0], format_id, options)
        share = 1 / len(sources)
        parts = [
            read(
                source, importer, options, findings, part_of(progress, source.number * share, share)
            )
            for source in sources
        ]
    checks = RowChecks(_joined(parts, sources), options, findings, own_zones)
    series = checks.series()
    progress(1.0)
    report = IntensityReport(
        files=tuple(source.name for source in sources),
        format_id=importer.id,
        format_label=importer.label,
        format_reason=reason,
        rows_read=findings.rows_read,
        facts=checks.shown_facts(),
        series=tuple(map(SeriesSummary.of, series)),
        findings=findings.all(),
        guesses=findings.guesses,
        source=stated(checks.facts, "source"),
        licence=stated(checks.facts, "licence"),
        zones_unknown=tuple(checks.zones_unknown),
    )
    return StagedIntensity(report, series)


def _importer(
    source: Source, format_id: str | None, options: IntensityOptions
) -> tuple[IntensityImporter, str]:
    """The importer of a file, and why it is chosen."""
    if options.columns:
        return INTENSITY_IMPORTERS["own"], "you say what its columns are"
    return INTENSITY_IMPORTERS.find(source, format_id) or (
        INTENSITY_IMPORTERS["own"],
        "no other format is recognised",
    )


def read(
    source: Source,
    importer: IntensityImporter,
    options: IntensityOptions,
    findings: Findings,
    progress: Progress,
) -> Rows:
    """The rows of a file, by its importer or by the columns that the user names."""
    if options.columns:
        return read_mapped(source, options.columns, findings, progress)
    return importer.read(source, findings, progress)


def _check_options(options: IntensityOptions) -> None:
    for name, value, allowed in (
        ("unit", options.unit, G_PER_KWH),
        ("basis", options.basis, BASES),
        ("kind", options.kind, KINDS),
        ("decimal", options.decimal, (",", ".")),
    ):
        if value is not None and value not in allowed:
            raise IntensityError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")
    if options.timezone is not None:
        time_zone(options.timezone)


def _joined(parts: Sequence[Rows], sources: Sequence[Source]) -> Rows:
    first = {name: fact.value for name, fact in parts[0].facts.items()}
    for part, source in zip(parts, sources, strict=True):
        if {name: fact.value for name, fact in part.facts.items()} != first:
            raise IntensityError(
                f"{source.name} differs from {sources[0].name} in unit, kind or time zone; import "
                "them one by one."
            )
    return Rows(pd.concat([part.frame for part in parts], ignore_index=True), parts[0].facts)
