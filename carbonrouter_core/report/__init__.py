"""What is taken away from a comparison: the CSV bundle and the HTML report."""

from carbonrouter_core.report.bundle import write_bundle

__all__ = ["write_bundle"]
