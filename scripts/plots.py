"""Bars of stored figures as SVG, text by hand: the same figures give the same bytes.

Shown by `<img>` a plot has the colours that the reader's system prefers; as part of a page it has those of the page, of
which it knows `--md-default-fg-color`.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

NAME, BAR, GAP, WIDE, FIGURE = 18, 12, 10, 320, 80
"""Pixels: the heights of a name, of the bar below it, of the room behind; the widths of the longest bar, of a figure.
Narrow, so that a phone shows letters that can be read."""
STYLE = """\
    .plot { color: var(--md-default-fg-color, #24292f); font: 13px system-ui, sans-serif }
    .plot { max-width: 100%; height: auto }
    @media (prefers-color-scheme: dark) { .plot { color: var(--md-default-fg-color, #e6edf3) } }
    .plot text { fill: currentColor }
    .plot .ours { fill: #3b82f6 }
    .plot .other { fill: #8b949e }"""


def bars(title: str, unit: str, figures: Sequence[tuple[str, int, bool]]) -> str:
    """A bar for each of name, number and whether it is one of ours, in their order."""
    width, height = WIDE + FIGURE, len(figures) * (NAME + BAR + GAP)
    most = max(number for _, number, _ in figures)
    lines = [
        f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img">',
        f"  <title>{escape(title)}</title>",
        f"  <desc>{escape(in_words(unit, figures))}</desc>",
        f"  <style>\n{STYLE}\n  </style>",
    ]
    for place, (name, number, ours) in enumerate(figures):
        top = place * (NAME + BAR + GAP) + NAME
        long = max(1, round(number / most * WIDE))
        kind = "ours" if ours else "other"
        lines += [
            f'  <text x="0" y="{top - 5}">{escape(name)}</text>',
            f'  <rect class="{kind}" x="0" y="{top}" width="{long}" height="{BAR}" rx="2"/>',
            f'  <text x="{long + 8}" y="{top + BAR - 1}">{number:,}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def in_words(unit: str, figures: Sequence[tuple[str, int, bool]]) -> str:
    """The same as a text, such as 'Records per CPU-second: from_json 373,134; kvformat decode 636,943.', for ears."""
    return f"{unit}: {'; '.join(f'{name} {number:,}' for name, number, _ in figures)}."
