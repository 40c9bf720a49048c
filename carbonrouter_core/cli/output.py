"""What several commands print: JSON, figures, intervals, and how far long work is."""

from __future__ import annotations

import json
import sys
from typing import Any

from carbonrouter_core.progress import Progress, nobody_listens
from carbonrouter_core.results.comparison import Interval
from carbonrouter_core.words.figures import NOT_AVAILABLE


def print_json(values: Any) -> None:
    """Print ``values`` as JSON; NaN is refused, since JSON has no word for it."""
    print(json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False))


def number(value: float | None, decimals: int, factor: float = 1.0) -> str:
    """``value`` times ``factor`` with so many decimals; "n/a" for None."""
    return NOT_AVAILABLE if value is None else f"{value * factor:.{decimals}f}"


def interval_text(interval: Interval) -> str:
    """The ends of an interval in percent: "15.0 to 42.2"."""
    if interval.low_percent is None:
        return NOT_AVAILABLE
    return f"{interval.low_percent:.1f} to {interval.high_percent:.1f}"


def saving_text(saving: Interval) -> str:
    """A saving with its interval, if it has one: "21.3 % (15.4 to 28.0)"."""
    if saving.value_percent is None:
        return NOT_AVAILABLE
    interval = "" if saving.low_percent is None else f" ({interval_text(saving)})"
    return f"{saving.value_percent:.1f} %{interval}"


def progress_line(what: str) -> Progress:
    """A progress that shows the share done, in percent, on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        return nobody_listens
    shown_percent = -1

    def show(share: float) -> None:
        nonlocal shown_percent
        percent = int(100 * share)
        if percent != shown_percent:
            shown_percent = percent
            end = "\n" if percent >= 100 else ""
            print(f"\r{what} {percent} %", end=end, file=sys.stderr, flush=True)

    return show


def count_line(done: int, total: int, what: str) -> None:
    """Show on a terminal how many of ``total`` are done; print nothing elsewhere."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r{done} of {total} {what}", end=end, file=sys.stderr, flush=True)
