"""The first rows of a carbon-intensity file, and what they would become."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from carbonrouter_core.errors import IntensityError
from carbonrouter_core.grid.importers.base import IntensityOptions, header, text_columns
from carbonrouter_core.grid.importers.own import read_mapped
from carbonrouter_core.grid.rows import RowChecks
from carbonrouter_core.progress import nobody_listens
from carbonrouter_core.reading.files import reading_errors_as, sources_of
from carbonrouter_core.reading.findings import Findings
from carbonrouter_core.reading.tidy import tidied

ROWS = 5


def first_rows(path: Path, name: str) -> pd.DataFrame:
    """The first rows of a table as text, with the column names of the file.

    Raises
    ------
    IntensityError
        If the file is no table.
    """
    with reading_errors_as(IntensityError), TemporaryDirectory() as folder:
        (source,) = tidied(sources_of([path], [name], pages=False), Path(folder), Findings())
        names = list(dict.fromkeys(header(source)))
        columns = {column: column for column in names if column}
        frame = text_columns(source, columns, Findings(), nobody_listens)
    return frame[list(columns)].head(ROWS)


def what_rows_become(
    path: Path, name: str, options: IntensityOptions, own_zones: Collection[str] = ()
) -> pd.DataFrame:
    """Time (UTC), zone and g/kWh of the first rows, read by ``options.columns``.

    What cannot be read stands in the column *Problem*.

    Raises
    ------
    IntensityError
        If the columns are not there, or something is missing that holds for all rows.
    """
    with reading_errors_as(IntensityError), TemporaryDirectory() as folder:
        findings = Findings()
        (source,) = tidied(sources_of([path], [name], pages=False), Path(folder), findings)
        rows = read_mapped(source, options.columns, findings, nobody_listens)
        rows = dataclasses.replace(rows, frame=rows.frame.head(ROWS).reset_index(drop=True))
        return RowChecks(rows, options, Findings(), own_zones).first_rows()
