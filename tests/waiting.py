"""How long a test waits for a state, in the one place that says so.

No test says how fast something is: a busy machine may take many times longer than a quiet one.
What is to be fast is compared, within one run, in tests/benchmarks.
"""

PATIENCE_S = 120.0
"""Whoever waits longer than this waits for something that will not come."""
PATIENCE_MS = 1000 * PATIENCE_S
"""The same for the browser."""
