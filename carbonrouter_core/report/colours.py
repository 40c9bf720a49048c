"""Colours of policies and parts of carbon, the same on every page and in the report.

Policies have the Okabe-Ito set (Okabe and Ito 2008, "Color Universal Design") and, past its
eight, colours of Paul Tol's "muted" scheme: told apart with every common colour-vision
deficiency. Colour is never the only cue: bars carry their names, parts a hatch.
"""

from __future__ import annotations

POLICY_COLOURS: dict[str, str] = {
    "carbonrouter-lookahead": "#009E73",
    "carbonrouter": "#117733",
    "carbonrouter-no-gate": "#44AA99",
    "faircarbon": "#D55E00",
    "faircarbon-full-prompt": "#E69F00",
    "sticky": "#0072B2",
    "cleanest-region": "#56B4E9",
    "nearest-region": "#CC79A7",
    "largest-model": "#882255",
    "smallest-model": "#AA4499",
    "round-robin": "#999933",
    "hindsight-optimum": "#6B7280",
    "free-migration": "#8A94A0",
}
UNNAMED = "#6B7280"
"""Of a policy that is not listed."""

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


def policy_colour(policy_id: str) -> str:
    """The colour of a policy; grey for one that is not listed."""
    return POLICY_COLOURS.get(policy_id, UNNAMED)
