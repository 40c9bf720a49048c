"""Colours of policies and parts of carbon, the same on every page and in the report.

Policies have the hues of the Okabe-Ito set (Okabe and Ito 2008, "Color Universal Design") and,
past its eight, of Paul Tol's "muted" scheme: told apart with every common colour-vision
deficiency. Where a colour of theirs is too faint on white, or too dim on a dark page, it is a
darker or a lighter one of the same hue: each has a contrast of 3 or more to what it is drawn on.
Colour is never the only cue: bars carry their names, parts a hatch, lines a dash.
"""

from __future__ import annotations

POLICY_COLOURS: dict[str, str] = {
    "carbonrouter-lookahead": "#00916A",
    "carbonrouter": "#117733",
    "carbonrouter-no-gate": "#238C80",
    "faircarbon": "#D55E00",
    "faircarbon-full-prompt": "#AD7C00",
    "sticky": "#0072B2",
    "cleanest-region": "#3A92CC",
    "nearest-region": "#CC79A7",
    "largest-model": "#882255",
    "smallest-model": "#AA4499",
    "round-robin": "#999933",
    "hindsight-optimum": "#6B7280",
    "free-migration": "#8A94A0",
}
DARK_POLICY_COLOURS: dict[str, str] = {
    "carbonrouter-lookahead": "#1FB58A",
    "carbonrouter": "#8FD19E",
    "carbonrouter-no-gate": "#44AA99",
    "faircarbon": "#EC7A22",
    "faircarbon-full-prompt": "#E69F00",
    "sticky": "#4C9BE0",
    "cleanest-region": "#8CCBF0",
    "nearest-region": "#CC79A7",
    "largest-model": "#E8909C",
    "smallest-model": "#C98BD6",
    "round-robin": "#A8A83C",
    "hindsight-optimum": "#AAB3BF",
    "free-migration": "#C6CDD6",
}
"""The same on a dark page and a dark map."""
UNNAMED, DARK_UNNAMED = "#6B7280", "#AAB3BF"
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


def policy_colour(policy_id: str, *, dark: bool = False) -> str:
    """The colour of a policy on a light or a dark page; grey for one that is not listed."""
    if dark:
        return DARK_POLICY_COLOURS.get(policy_id, DARK_UNNAMED)
    return POLICY_COLOURS.get(policy_id, UNNAMED)
