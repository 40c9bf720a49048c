"""Why a candidate cannot serve a turn: the codes, and their words."""

from __future__ import annotations

import numpy as np

from carbonrouter_core.fleet.deployments import Fleet

FEASIBLE = 0
TOO_LONG = 1
TOO_WEAK = 2
TOO_SLOW = 3

WORDS = {
    FEASIBLE: "",
    TOO_LONG: "holds {holds} tokens, {needed} needed",
    TOO_WEAK: "predicted quality below the floor",
    TOO_SLOW: "predicted latency above the ceiling",
}
"""A few words for each code, with places for the tokens that a replica holds and a turn needs."""


def obstacles(
    fleet: Fleet, carbon_g: np.ndarray, context_tokens: np.ndarray, theta_needed: np.ndarray
) -> np.ndarray:
    """Code of what keeps each candidate from serving, int8, shape (turns, D).

    ``carbon_g`` (turns, D) as the kernel priced the candidates, infinite where infeasible;
    ``context_tokens`` (turns,) what must fit; ``theta_needed`` (turns,) the ability asked for.
    """
    too_long = np.asarray(context_tokens)[:, None] > fleet.fit_tokens[fleet.pair]
    able = fleet.theta[fleet.pair_model[fleet.pair]]
    too_weak = able < np.asarray(theta_needed)[:, None]
    codes = np.where(too_long, TOO_LONG, np.where(too_weak, TOO_WEAK, TOO_SLOW))
    return np.where(np.isfinite(carbon_g), FEASIBLE, codes).astype(np.int8)


def in_words(code: int, fit_tokens: int, context_tokens: float) -> str:
    """Why not, in a few words; "" for a feasible candidate."""
    return WORDS[code].format(holds=f"{fit_tokens:,}", needed=f"{context_tokens:,.0f}")
