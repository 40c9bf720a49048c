"""What is taken away from a comparison: the CSV bundle and the HTML report."""

from carbonrouter_core.report.bundle import write_bundle
from carbonrouter_core.report.html import html_report

__all__ = ["html_report", "write_bundle"]
