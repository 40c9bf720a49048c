"""Timed tests: run with ``python -m pytest -m benchmark -s tests/benchmarks``."""
