"""Colours of policies and parts of carbon, the same on every page and in the report.

The line of each policy in :mod:`carbonrouter_core.routing.policies` holds its colours. They are the
hues of the Okabe-Ito set (Okabe and Ito 2008, "Color Universal Design") and, past its eight, of
Paul Tol's "muted" scheme: they differ for eyes with any common colour-vision deficiency. Where such
a colour is too faint on white, or too dim on a dark page, it is a darker or a lighter one of the
same hue: each has a contrast of 3 or more to its ground. Colour is never the only cue: bars carry
their names, parts a hatch, lines a dash.
"""

from __future__ import annotations

from carbonrouter_core.routing.policies import AS_SERVED, POLICIES

PART_COLOURS = {
    "recompute_g": "#B3261E",
    "prompt_g": "#34536B",
    "decode_g": "#6F93AD",
    "host_g": "#BCCDD9",
}
"""Parts of carbon on a light page. The three that every router pays are blues; the one that only
a move causes stands out."""

PART_NAMES = {
    "recompute_g": "Recomputed history",
    "prompt_g": "New prompts",
    "decode_g": "Writing the answer",
    "host_g": "Host servers",
}
"""What each part is called, in the order they are stacked."""


def policy_colour(policy_id: str, *, dark: bool = False) -> str:
    """The colour of a policy on a light or a dark page; grey for an unknown one."""
    policy = POLICIES.get(policy_id, AS_SERVED)  # which has the default greys
    return policy.dark_colour if dark else policy.colour
