"""The options that several commands share, and the values that they give."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from carbonrouter_core.cli.own_catalog import add_catalog_options
from carbonrouter_core.errors import InputError, ScenarioError
from carbonrouter_core.grid.importers.base import MAPPED, IntensityOptions
from carbonrouter_core.reading.mapping import columns_from
from carbonrouter_core.reading.numbers import G_PER_KWH
from carbonrouter_core.routing.policies import policy
from carbonrouter_core.scenario import BASES, FIELDS, KINDS, PRESETS, START, Scenario, preset
from carbonrouter_core.store.mappings import mapping_named
from carbonrouter_core.store.sites import check_region
from carbonrouter_core.traces.importers import IMPORTERS
from carbonrouter_core.traces.importers.base import ImportOptions
from carbonrouter_core.traces.importers.mapped import MAPPED as TRACE_COLUMNS
from carbonrouter_core.traces.plausible import UNITS_S
from carbonrouter_core.words.names import unknown


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], None],
    *,
    help: str,  # noqa: A002 - the word of argparse
    description: str,
) -> argparse.ArgumentParser:
    """The parser of a new command, which calls ``run`` with the options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=help, description=description, allow_abbrev=False
    )
    parser.set_defaults(run=run)
    return parser


def add_json_option(parser: argparse.ArgumentParser, what: str = "everything") -> None:
    """Whether the command prints JSON instead of text."""
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON")


# --- The scenario -----------------------------------------------------------------------------


def add_scenario_options(parser: argparse.ArgumentParser) -> None:
    """The options that choose a scenario; :func:`scenario_from` reads them."""
    base = parser.add_mutually_exclusive_group()
    base.add_argument(
        "--preset",
        metavar="NAME",
        help=f"one of {', '.join(PRESETS)}, each against FairCarbon; default: Paper against "
        f"{START.baseline}",
    )
    base.add_argument("--scenario", metavar="FILE", type=Path, help="a scenario as JSON")
    parser.add_argument(
        "--trace",
        metavar="NAME|FILE",
        help="sharegpt, claude-code, a stored trace (see traces), a trace file, or for compare a "
        "folder of parts (see split)",
    )
    parser.add_argument(
        "--set",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help=f"change a field (lists: a,b or JSON); fields: {', '.join(FIELDS)}",
    )
    add_catalog_options(parser)


def scenario_from(options: argparse.Namespace) -> Scenario:
    """The scenario that the options of :func:`add_scenario_options` choose."""
    if options.scenario is not None:
        scenario = Scenario.from_json(_read_text(options.scenario))
    else:
        scenario = preset(options.preset) if options.preset is not None else START
    changes: dict[str, Any] = {}
    if options.trace is not None:
        changes["trace"] = options.trace
    for assignment in options.set:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set {assignment!r} is not FIELD=VALUE.")
        if name not in FIELDS:
            raise ScenarioError(unknown("scenario field", name, FIELDS.keys()))
        changes[name] = _field_value(text, getattr(scenario, name))
    return scenario.replace(**changes)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read: {error}") from error


def _field_value(text: str, present: Any) -> Any:
    """The value in ``text`` for a field that is ``present`` now.

    JSON if it is JSON; else names separated by commas for a field of names; else text.
    """
    if isinstance(present, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        pass
    if isinstance(present, tuple):
        return names_in(text)
    return None if text.strip().lower() == "none" else text


def names_in(text: str) -> list[str]:
    """The names in ``text``, which are separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


# --- Policies and workers ---------------------------------------------------------------------


def add_policies_option(
    parser: argparse.ArgumentParser, default: str, known: Iterable[str] = ()
) -> None:
    """Which policies run; :func:`policies_from` reads it. ``default``: in words, for the help."""
    listed = f"; known: {', '.join(known)}" if known else ""
    parser.add_argument("--policies", metavar="A,B", help=f"default: {default}{listed}")


def policies_from(text: str | None, default: Sequence[str]) -> tuple[str, ...]:
    """The policies that ``--policies A,B`` names; ``default`` if the option is not given."""
    if text is None:
        return tuple(default)
    chosen = names_in(text)
    if not chosen:
        raise InputError("--policies names no policy.")
    return tuple(policy(name).id for name in chosen)


def add_executor_options(parser: argparse.ArgumentParser) -> None:
    """Which processes do the work."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--workers", metavar="N", type=int, help="processes; default: one a core")
    place.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler: tcp://host:8786")


def refuse_executor_options(options: argparse.Namespace, why: str) -> None:
    """Raise an :class:`InputError` with ``why`` if ``--workers`` or ``--cluster`` is given."""
    for name in ("workers", "cluster"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name} has no use here: {why}")


# --- Files ------------------------------------------------------------------------------------


def check_output(out: Path | None, *suffixes: str, option: str = "--out") -> None:
    """Raise an :class:`InputError` if the file ``out`` cannot be written, before any work.

    Its name must end in one of ``suffixes``.
    """
    if out is None:
        return
    if out.suffix.lower() not in suffixes:
        raise InputError(f"{option} {out.name!r} must end in {' or '.join(suffixes)}.")
    folder = out.parent
    why = ""
    if not folder.is_dir():
        why = f"there is no folder {folder.name or folder}; make it first"
    elif out.is_dir():
        why = "there is a folder of that name"
    elif not os.access(folder, os.W_OK):
        why = f"folder {folder.resolve().name} cannot be written to"
    if why:
        raise InputError(f"{out.name} cannot be written: {why}.")


def stored_name(options: argparse.Namespace) -> str:
    """The name to store the files under: ``--name``, or the first file's without its endings."""
    name: str = options.name or options.files[0].name.split(".")[0]
    return name


def add_trace_file_options(parser: argparse.ArgumentParser) -> None:
    """Trace files and what they do not say; :func:`trace_options_from` reads them."""
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="files, or a folder")
    parser.add_argument(
        "--format",
        metavar="NAME",
        help=f"default: recognised by the content; {', '.join(IMPORTERS)}",
    )
    parser.add_argument(
        "--served-region", metavar="REGION", help="region that served, if the log names none"
    )
    parser.add_argument(
        "--without-dates",
        action="store_true",
        help="keep only the times within each session, so that any window can be used",
    )
    parser.add_argument(
        "--cached-tokens",
        choices=("included", "excluded"),
        help="whether prompt counts hold the cached tokens; default: told by the file",
    )
    parser.add_argument(
        "--prompts",
        choices=("whole", "incremental"),
        default="whole",
        help="whether each prompt holds the turns before it (default) or only the new message",
    )
    parser.add_argument(
        "--time-unit",
        choices=tuple(UNITS_S),
        help="unit of times that count from a start; default: told by the file",
    )


def add_timezone_option(parser: argparse.ArgumentParser) -> None:
    """The time zone of files of any kind."""
    parser.add_argument(
        "--timezone",
        metavar="NAME",
        help="zone of times that do not name theirs: UTC, Europe/Berlin, ...",
    )


def trace_options_from(options: argparse.Namespace) -> ImportOptions:
    """What the options say about trace files.

    Raises a :class:`CatalogError` for an unknown region: its turns could not be charged.
    """
    if options.served_region is not None:
        check_region(options.served_region)
    said = ImportOptions(
        columns=columns_from(options.column, TRACE_COLUMNS),
        served_region=options.served_region,
        keep_dates=not options.without_dates,
        cached_tokens=options.cached_tokens,
        prompts=options.prompts,
        timezone=options.timezone,
        time_unit=options.time_unit,
    )
    return said if options.mapping is None else said.below(mapping_named("trace", options.mapping))


def add_intensity_options(parser: argparse.ArgumentParser) -> None:
    """What carbon-intensity files do not say; :func:`intensity_options_from` reads them."""
    about = parser.add_argument_group("what a carbon-intensity file does not say itself")
    about.add_argument(
        "--zone",
        metavar="ZONE|NAME=ZONE",
        action="append",
        default=[],
        help="zone of the file, or our zone for a name in it (DE=DE-LU)",
    )
    about.add_argument(
        "--new-zone", metavar="NAME", action="append", default=[], help="a zone of your own"
    )
    add_column_options(about, MAPPED)
    about.add_argument("--unit", choices=sorted(G_PER_KWH), help="unit of the values")
    about.add_argument("--basis", choices=BASES, help="lifecycle or direct")
    about.add_argument("--kind", choices=KINDS, help="average or marginal")
    about.add_argument("--decimal", choices=[",", "."], help="decimal mark")
    about.add_argument(
        "--interval-end", action="store_true", help="times are ends of intervals, not starts"
    )
    about.add_argument("--hourly", action="store_true", help="keep hourly means of a finer series")
    about.add_argument("--source", metavar="TEXT", help="who publishes it; shown in reports")
    about.add_argument("--licence", metavar="TEXT", help="under which terms; shown in reports")


def add_column_options(group: Any, columns: Sequence[str]) -> None:
    """``--column`` for each of ``columns``, and mappings of them by name."""
    group.add_argument(
        "--column",
        metavar="NAME=COLUMN",
        action="append",
        default=[],
        help=f"what a column of any other table is; NAME is one of {', '.join(columns)}",
    )
    group.add_argument("--mapping", metavar="NAME", help="columns as kept under this name")
    group.add_argument(
        "--keep-mapping", metavar="NAME", help="keep the columns under this name once stored"
    )


def intensity_options_from(options: argparse.Namespace) -> IntensityOptions:
    """What the options and a mapping that they name say about carbon-intensity files."""
    said = _intensity_options_from(options)
    if options.mapping is None:
        return said
    mapping = mapping_named("grid", options.mapping)
    empty = IntensityOptions()
    new = {
        name: value
        for name, value in vars(said).items()
        if name != "columns" and value != getattr(empty, name)
    }
    columns = {**mapping.columns, **said.columns}
    return IntensityOptions(**{**mapping.said, **new, "columns": columns})


def _intensity_options_from(options: argparse.Namespace) -> IntensityOptions:
    pairs = [assignment.rpartition("=") for assignment in options.zone]
    zones_of_all = [zone for _, equals, zone in pairs if not equals]
    if len(zones_of_all) > 1:
        raise InputError("--zone ZONE can be given once; for several zones say NAME=ZONE.")
    return IntensityOptions(
        columns=columns_from(options.column, MAPPED),
        zone=zones_of_all[0] if zones_of_all else None,
        zones={name: zone for name, equals, zone in pairs if equals},
        new_zones=tuple(options.new_zone),
        timezone=options.timezone,
        unit=options.unit,
        basis=options.basis,
        kind=options.kind,
        decimal=options.decimal,
        interval_end=options.interval_end or None,
        hourly=options.hourly,
        source=options.source,
        licence=options.licence,
    )
