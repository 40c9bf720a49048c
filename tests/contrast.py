"""How well a colour can be read on another."""

from __future__ import annotations

from pages.shared.theme import hex_to_rgb


def contrast_ratio(first: str, second: str) -> float:
    """Contrast of two colours by WCAG 2.2 (1 to 21; AA asks 4.5 of text, 3 of graphics)."""

    def luminance(colour: str) -> float:
        channels = [value / 255 for value in hex_to_rgb(colour)]
        linear = [
            value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
            for value in channels
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dim = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)
