"""Options that several commands share: which scenario is meant."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from carbonrouter_core.cli.own_catalog import add_catalog_options
from carbonrouter_core.errors import InputError, ScenarioError
from carbonrouter_core.routing.policies import policy
from carbonrouter_core.scenario import FIELDS, PRESETS, Scenario, preset
from carbonrouter_core.words.names import unknown


def add_scenario_options(parser: argparse.ArgumentParser) -> None:
    """The options that choose a scenario, the same for every command."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--preset", metavar="NAME", help=f"one of {', '.join(PRESETS)}")
    where.add_argument("--scenario", metavar="FILE", type=Path, help="a scenario as JSON")
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


def add_executor_options(parser: argparse.ArgumentParser) -> None:
    """Where runs go on."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", metavar="N", type=int, help="processes; default: one a core")
    where.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler: tcp://host:8786")


def refuse_executor_options(options: argparse.Namespace, why: str) -> None:
    """An :class:`InputError` with ``why`` if the user says where runs go on, which has no use."""
    for name in ("workers", "cluster"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name} has no use here: {why}")


def check_folder(out: Path | None) -> None:
    """An :class:`InputError` if the file ``out`` could not be written where it is to stand."""
    if out is None:
        return
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


def scenario_from(options: argparse.Namespace) -> Scenario:
    """The scenario that the options of :func:`add_scenario_options` choose."""
    if options.scenario is not None:
        scenario = Scenario.from_json(_read_text(options.scenario))
    else:
        scenario = preset(options.preset) if options.preset is not None else Scenario()
    changes: dict[str, Any] = {}
    if options.trace is not None:
        changes["trace"] = options.trace
    for assignment in options.set:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set {assignment!r} is not FIELD=VALUE.")
        if name not in FIELDS:
            raise ScenarioError(unknown("scenario field", name, FIELDS.keys()))
        changes[name] = _value(text, getattr(scenario, name))
    return scenario.replace(**changes)


def policies_from(text: str | None, default: Sequence[str]) -> tuple[str, ...]:
    """The policies that ``--policies A,B`` names, ``default`` where it was not given."""
    if text is None:
        return tuple(default)
    chosen = tuple(name.strip() for name in text.split(",") if name.strip())
    if not chosen:
        raise InputError("--policies names no policy.")
    return tuple(policy(name).id for name in chosen)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read: {error}") from error


def _value(text: str, present: Any) -> Any:
    """``text`` as a value: JSON where it is JSON, else names separated by commas, else text."""
    if isinstance(present, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        pass
    if isinstance(present, tuple):
        return [name.strip() for name in text.split(",") if name.strip()]
    return None if text.strip().lower() == "none" else text
