"""A decision in words: what happened to a turn, why, and the numbers that were weighed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import carbonrouter_core as core
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.results.comparison import optimum_label
from carbonrouter_core.results.session_story import Story
from carbonrouter_core.routing import feasibility
from carbonrouter_core.routing.policies import policy, reasons
from carbonrouter_core.words import figures as fmt
from pages.shared import theme


@dataclass(frozen=True)
class Words:
    """The decision of a turn under a policy in words; plain text."""

    verdict: str
    """What happened, in a few words: "Stays in London"."""
    why: str
    """The reason, as the engine gives it."""
    numbers: str
    """What was weighed, with figures; "" where nothing was."""


def policy_name(policy_id: str, prepared: Prepared) -> str:
    """What a policy is called here: the optimum by that name only where it is proven to be it."""
    if policy_id == core.OPTIMUM:
        return optimum_label(prepared.optimum_is_exact)
    return theme.name(policy_id)


def in_words(story: Story, mass: fmt.Mass) -> list[Words]:
    """The decision of each turn of ``story``; carbon in the unit of ``mass``."""
    return [
        Words(_verdict(story, turn), _why(story, turn), _numbers(story, turn, mass))
        for turn in range(len(story))
    ]


def names(story: Story, deployment: int) -> tuple[str, str, str]:
    """Model, GPU type and city of a deployment; "" each where a turn is unserved."""
    if deployment < 0:
        return "", "", ""
    deployments = story.prepared.deployments
    replica = deployments.replicas[deployments.fleet.pair[deployment]]
    return (
        replica.model,
        replica.gpu,
        deployments.regions[deployments.fleet.region[deployment]].city,
    )


def _place(story: Story, deployment: int) -> str:
    model, gpu, city = names(story, deployment)
    return f"{model} on {gpu} in {city}"


def _verdict(story: Story, turn: int) -> str:
    here, before = int(story.decisions.deployment[turn]), int(story.moved_from[turn])
    if here < 0:
        return "Not served"
    model, gpu, city = names(story, here)
    if before < 0:
        first = not (story.served_before or story.decisions.served[:turn].any())
        return f"Starts in {city}" if first else f"Stays in {city}"
    old_model, old_gpu, old_city = names(story, before)
    if city != old_city:
        also = " with another model" if model != old_model else ""
        return f"Moves from {old_city} to {city}{also}"
    if model != old_model:
        return f"Moves to another model in {city}"
    return f"Moves to another GPU type in {city}" if gpu != old_gpu else f"Moves within {city}"


def _why(story: Story, turn: int) -> str:
    code = int(story.decisions.reason[turn])
    if code == reasons.RULE:
        if story.policy_id == core.OPTIMUM and not story.prepared.optimum_is_exact:
            return "The best plan found with the future of each session known."
        return f"Its rule: {policy(story.policy_id).rule}."
    return reasons.WORDS[code]


def _numbers(story: Story, turn: int, mass: fmt.Mass) -> str:
    decisions = story.decisions
    here, code = int(decisions.deployment[turn]), int(decisions.reason[turn])
    if here < 0:
        if code == reasons.NOT_IN_SCENARIO:
            return "It is not charged here."
        context = story.history_tokens[turn] + story.new_prompt_tokens[turn]
        return f"History and prompt alone are {fmt.number(context)} tokens."
    if code == reasons.RULE:
        return _unseen(story, turn)
    if code == reasons.FRESH:
        if story.history_tokens[turn] == 0:
            return ""
        return "What was cached has expired: all of the history is recomputed."
    if np.isfinite(decisions.p_back[turn]):
        return _gate(story, turn, mass)
    if code in (reasons.AHEAD_STAYED, reasons.AHEAD_MOVED):
        return _ahead(story, turn, mass)
    if code == reasons.FORCED:
        return _forced(story, turn)
    return _against_next(story, turn, mass)


def _unseen(story: Story, turn: int) -> str:
    """What history cost a policy that does not weigh moves."""
    carbon_g = story.charges.carbon_g[turn]
    if not story.recomputed_tokens[turn] or not carbon_g:
        return ""
    share = fmt.percent(100 * story.charges.recompute_g[turn] / carbon_g, 0)
    return f"{share} of this turn's carbon went into recomputing history."


def _gate(story: Story, turn: int, mass: fmt.Mass) -> str:
    decisions, theta = story.decisions, story.prepared.scenario.gate_threshold
    p_back, rebuild_g = decisions.p_back[turn], decisions.rebuild_g[turn]
    saving_g, loss_g = decisions.saving_g[turn], decisions.p_back[turn] * rebuild_g
    shown = fmt.percent(100 * p_back, 0)
    asked = (
        f"Gate: moving to {_place(story, int(decisions.wanted[turn]))} saves "
        f"{mass.text(saving_g)} now; it comes straight back with {shown} chance, and rebuilding "
        f"its history would cost {mass.text(rebuild_g)}. "
    )
    if p_back < theta:
        return f"{asked}{shown} is below the threshold of {fmt.percent(100 * theta, 0)}: it moves."
    word = ">" if loss_g > saving_g else "\N{LESS-THAN OR EQUAL TO}"
    weighed = (
        f"{asked}{shown} \N{MULTIPLICATION SIGN} {mass.text(rebuild_g)} = {mass.text(loss_g)} "
        f"{word} {mass.text(saving_g)}"
    )
    if loss_g <= saving_g:
        return f"{weighed}: it moves."
    gain_g = decisions.next_gain_g[turn]
    if gain_g <= 0:
        return f"{weighed}, but the next turn is expected to gain nothing by staying: it moves."
    gain = f"the next turn is expected to gain {mass.text(gain_g)} by staying"
    if gain_g <= saving_g:
        return f"{weighed}, but {gain}, no more than the move saves: it moves."
    return f"{weighed}, and {gain}: it stays."


def _ahead(story: Story, turn: int, mass: fmt.Mass) -> str:
    candidates, decisions = story.candidates, story.decisions

    def sum_of(deployment: int) -> str:
        now_g = candidates.total_g[turn, deployment]
        later_g = candidates.to_come_g[turn, deployment]
        if not np.isfinite(later_g):
            return f"{mass.text(now_g)} now"
        return (
            f"{mass.text(now_g)} now + {mass.text(later_g)} expected later = "
            f"{mass.text(now_g + later_g)}"
        )

    here, cheapest = int(decisions.deployment[turn]), int(decisions.wanted[turn])
    return f"Here: {sum_of(here)}. Cheapest now, {_place(story, cheapest)}: {sum_of(cheapest)}."


def _forced(story: Story, turn: int) -> str:
    home = int(story.decisions.home[turn])
    fleet = story.prepared.deployments.fleet
    context = float(
        story.history_tokens[turn] + story.new_prompt_tokens[turn] + story.output_tokens[turn]
    )
    why = feasibility.in_words(
        int(story.candidates.obstacle[turn, home]), fleet.fit_tokens[fleet.pair[home]], context
    )
    return f"{_place(story, home)} has the history, but: {why}."


def _against_next(story: Story, turn: int, mass: fmt.Mass) -> str:
    """The chosen candidate against where the history is or, if it stayed, the next best."""
    candidates, decisions = story.candidates, story.decisions
    here, home = int(decisions.deployment[turn]), int(decisions.home[turn])
    other = home
    if here == home:
        total_g = np.where(
            candidates.obstacle[turn] == feasibility.FEASIBLE, candidates.total_g[turn], np.inf
        )
        total_g[here] = np.inf
        other = int(np.argmin(total_g))
        if not np.isfinite(total_g[other]):
            return "It is the only feasible candidate."
    missing = story.history_tokens[turn] - candidates.cached_tokens[turn, other]
    rebuilt = f", {fmt.number(missing)} tokens recomputed" if missing > 0 else ""
    who = "Next best" if here == home else "Staying"
    return (
        f"Here {mass.text(candidates.total_g[turn, here])}. {who}, {_place(story, other)}: "
        f"{mass.text(candidates.total_g[turn, other])}{rebuilt}."
    )
