"""Pictures that stand for themselves, as SVG: shapes and text on white ground, in pixels.

Plots within a page are drawn by `weir.chart.plot`.
"""

from collections.abc import Iterable
from html import escape


def image(width: float, height: float, shapes: Iterable[str], font_px: int = 12) -> str:
    """The whole file, which scales to any width."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="{font_px}"><rect width="{width}" height="{height}" '
        f'fill="#fff"/>{"".join(shapes)}</svg>\n'
    )


def text(x: float, y: float, content: str, anchor: str = "start", more: str = "") -> str:
    """One line, whose baseline begins, is centred or ends at a place.

    Args:
        x: from the left.
        y: from the top.
        content: is escaped.
        anchor: "start", "middle" or "end".
        more: further attributes, as they stand in the file.
    """
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place} {more}>{escape(content)}</text>"
