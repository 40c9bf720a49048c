"""The report as one HTML file: for the annex of a sustainability report, printed on A4 or read.

It holds its charts and its style, fetches nothing and runs no script. Its words are in
``templates/report.html``, its style in ``templates/report.css``, its values in :mod:`.values`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined

from carbonrouter_core.errors import InputError
from carbonrouter_core.report import charts
from carbonrouter_core.report.values import Report
from carbonrouter_core.results.comparison import Comparison, gap_closed_percent
from carbonrouter_core.routing.policies import BOUND, FAIRCARBON, POLICIES
from carbonrouter_core.words import answer, notes
from carbonrouter_core.words import figures as fmt

REPORT_POLICIES = tuple(policy.id for policy in POLICIES.values() if policy.in_report)
"""What a report shows beside the router and FairCarbon, where time allows."""

_environment = Environment(
    loader=PackageLoader("carbonrouter_core.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters |= {
    "duration": fmt.duration,
    "energy": fmt.energy,
    "less_or_more": fmt.less_or_more,
    "number": fmt.number,
    "percent": fmt.percent,
    "plural": fmt.plural,
}
_environment.tests["known"] = fmt.known
_environment.globals |= {
    "answer": answer,
    "bound": BOUND,
    "charts": charts,
    "gap_closed_percent": gap_closed_percent,
    "notes": notes,
}


def html_report(
    comparison: Comparison, router: str, *, generated_utc: datetime | None = None
) -> str:
    """The report on a policy against FairCarbon, in one HTML file.

    Parameters
    ----------
    comparison
        The runs; the report shows all of its policies.
    router
        Id of the policy that the report is about.
    generated_utc
        The time that the report states; now if left out.

    Returns
    -------
    str
        HTML that needs no other file.

    Raises
    ------
    InputError
        If ``router`` or FairCarbon was not run.
    """
    for policy_id in (router, FAIRCARBON):
        if policy_id not in comparison.runs:
            raise InputError(f"The report needs policy {policy_id}; run it too.")
    report = Report(comparison, router, generated_utc or datetime.now(UTC))
    return _environment.get_template("report.html").render(
        report=report, router=report.name(router), baseline=report.name(FAIRCARBON)
    )
