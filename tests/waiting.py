"""How long a test waits for a state, in the one place that says so.

No test says how fast something is: a busy machine may take many times longer than a quiet one.
What is to be fast is compared, within one run, in tests/benchmarks.
"""

import time
from collections.abc import Callable, Iterator

PATIENCE_S = 120.0
"""Whoever waits longer than this waits for something that will not come."""
PATIENCE_MS = 1000 * PATIENCE_S
"""The same for the browser."""


def attempts(pause: Callable[[float], object] = time.sleep) -> Iterator[None]:
    """Now and again, with a pause of seconds between; fails once patience runs out."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        yield
        pause(0.1)
    raise AssertionError(f"what is waited for did not come within {PATIENCE_S:.0f} s")
