"""Bar charts of stored figures as SVG. The same figures give the same bytes, because no plotting library writes them.

In an `<img>`, a plot has the light or dark colours that the reader's system prefers. Inside an HTML page, it has the
colours of the page, which it takes from the CSS variable `--md-default-fg-color`.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

NAME, BAR, GAP, WIDE, FIGURE = 18, 12, 10, 320, 80
"""Sizes in pixels: the heights of a name, of the bar below it and of the gap after it; the widths of the longest bar
and of a figure. The plot is narrow, so that its letters are readable on a phone."""
STYLE = """\
    .plot { color: var(--md-default-fg-color, #24292f); font: 13px system-ui, sans-serif }
    .plot { max-width: 100%; height: auto }
    @media (prefers-color-scheme: dark) { .plot { color: var(--md-default-fg-color, #e6edf3) } }
    .plot text { fill: currentColor }
    .plot .ours { fill: #3b82f6 }
    .plot .other { fill: #8b949e }"""


def bars(title: str, unit: str, figures: Sequence[tuple[str, int, bool]]) -> str:
    """Return an SVG with a bar for each figure, in the given order.

    A figure is a name, a number, and whether the bar belongs to this library.
    """
    width, height = WIDE + FIGURE, len(figures) * (NAME + BAR + GAP)
    most = max(number for _, number, _ in figures)
    lines = [
        f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img">',
        f"  <title>{escape(title)}</title>",
        f"  <desc>{escape(as_text(unit, figures))}</desc>",
        f"  <style>\n{STYLE}\n  </style>",
    ]
    for index, (name, number, ours) in enumerate(figures):
        top = index * (NAME + BAR + GAP) + NAME
        length = max(1, round(number / most * WIDE))
        kind = "ours" if ours else "other"
        lines += [
            f'  <text x="0" y="{top - 5}">{escape(name)}</text>',
            f'  <rect class="{kind}" x="0" y="{top}" width="{length}" height="{BAR}" rx="2"/>',
            f'  <text x="{length + 8}" y="{top + BAR - 1}">{number:,}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def as_text(unit: str, figures: Sequence[tuple[str, int, bool]]) -> str:
    """Return the figures as a sentence for screen readers.

    For example: 'Records per CPU-second: from_json 373,134; kvformat decode 636,943.'
    """
    return f"{unit}: {'; '.join(f'{name} {number:,}' for name, number, _ in figures)}."
