"""What to do, what it is worth in a year, and what speaks against it: one sentence.

A policy is held against today's practice of the scenario, at the volume of the service.
"""

from __future__ import annotations

from carbonrouter_core.results.comparison import Comparison
from carbonrouter_core.units import G_PER_T
from carbonrouter_core.words import figures as fmt

SAME_QUALITY = 0.0005
"""Mean predicted quality that differs by less reads the same."""
SAME_MS = 1.0
"""Mean times that differ by less read the same."""


def advice(comparison: Comparison, policy_id: str) -> str:
    """What to do against today's practice, as plain text; both policies must have been run."""
    scenario, baseline = comparison.prepared.scenario, comparison.baseline
    cities = [region.city for region in comparison.prepared.deployments.regions]
    today, name = (comparison.runs[one].policy.in_text for one in (baseline, policy_id))
    begin = (
        f"At {fmt.exact(scenario.conversations_per_day, 7)} conversations a day from "
        f"{fmt.joined(cities)}, against {_inside(today)}: "
    )
    ours, theirs = comparison.per_year(policy_id), comparison.per_year(baseline)
    saved = ours.less(theirs)
    percent = comparison.figures(policy_id)["saving_percent"]
    if saved.carbon_t is None or ours.carbon_t is None or percent is None:
        return f"{begin}nothing can be said, since nothing is emitted."
    if abs(percent) < fmt.SAME_PERCENT:
        return (
            f"{begin}leave things as they are, as far as carbon goes; {name} would emit as much, "
            f"{_mass(ours.carbon_t)} CO2e a year{_against(comparison, policy_id)}."
        )
    unknown = [
        what for what, value in (("money", saved.cost), ("water", saved.water_l)) if value is None
    ]
    also = "" if not unknown else f"; not known: {fmt.joined(unknown)}"
    if percent < 0:
        return (
            f"{begin}leave things as they are; {name} would emit {_mass(-saved.carbon_t)} CO2e "
            f"a year more ({fmt.less_or_more(percent)}), {_mass(ours.carbon_t)} in all{also}"
            f"{_against(comparison, policy_id)}."
        )
    worth = [f"{_mass(saved.carbon_t)} CO2e"]
    for value, unit in ((saved.cost, "EUR of electricity"), (saved.water_l, "litres of water")):
        if value is not None and value > 0:
            worth.append(f"{fmt.number(value)} {unit}")
    return (
        f"{begin}route with {name}; it saves {fmt.joined(worth)} a year "
        f"({fmt.less_or_more(percent)} CO2e), and {_mass(ours.carbon_t)} CO2e a year remain{also}"
        f"{_against(comparison, policy_id)}."
    )


def _inside(label: str) -> str:
    """A label within a sentence: "nearest region", but "FairCarbon"."""
    first = label.partition(" ")[0].partition("-")[0]
    return label[:1].lower() + label[1:] if first[1:].islower() else label


def _mass(tonnes: float) -> str:
    grams = tonnes * G_PER_T
    return fmt.Mass.for_largest(grams).text(grams)


def _against(comparison: Comparison, policy_id: str) -> str:
    """What gets worse, and what gets better beside carbon; each begins with a semicolon."""
    ours, theirs = comparison.figures(policy_id), comparison.figures(comparison.baseline)
    saved = comparison.per_year(policy_id).less(comparison.per_year(comparison.baseline))
    worse: list[str] = []
    better: list[str] = []
    for value, unit in ((saved.cost, "EUR of electricity"), (saved.water_l, "litres of water")):
        if value is not None and value < -0.5:
            worse.append(f"{fmt.number(-value)} {unit} a year more")
    quality = (ours["quality_mean"] or 0.0) - (theirs["quality_mean"] or 0.0)
    if abs(quality) >= SAME_QUALITY:
        words = f"{fmt.number(100 * abs(quality), 1)} points {'higher' if quality > 0 else 'lower'}"
        (better if quality > 0 else worse).append(f"predicted quality {words}")
    for column, what in (("ttft_ms_mean", "first token"), ("latency_ms_mean", "whole answer")):
        later = (ours[column] or 0.0) - (theirs[column] or 0.0)
        if abs(later) >= SAME_MS:
            words = f"{what} {fmt.duration(abs(later))} {'later' if later > 0 else 'earlier'}"
            (worse if later > 0 else better).append(words)
    text = f"; against it speaks: {fmt.joined(worse)}" if worse else "; nothing speaks against it"
    return text + (f"; for it: {fmt.joined(better)}" if better else "")
