"""Line charts with logarithmic axes, and bar charts, as SVG text. Must not know benchmarks.

The colours follow the reader's colour scheme (prefers-color-scheme). A plot has its own background, so it is readable on
a white and on a dark page, even if the page does not follow the browser's scheme.
"""

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

from .figures import number

# Distinguishable in print and for colour-blind readers (after Okabe and Ito). The second list is brighter, for dark pages.
LIGHT = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#8a6d00", "#56707f", "#7a4fbf", "#2f9fd0", "#a03030", "#4d7a1e",
         "#b08000", "#555555"]
DARK = ["#ff8c42", "#58b2f0", "#34d0a3", "#f0a3cd", "#e0c050", "#a9c0cc", "#b79af5", "#7fd3ff", "#ff8080", "#a5d75f",
        "#ffc94d", "#bbbbbb"]
MARKERS = ["circle", "square", "diamond", "triangle"]

# Panels are stacked, so that a plot is as wide as a phone and its text is readable there.
PANEL_WIDTH, PANEL_HEIGHT = 400, 300
LINES_MAX = 7
MARKED_MAX = 12  # A line with more points has no markers, and the axis has ticks instead of each point's label.
TITLE_MAX = 44  # characters: a longer title would be cut off at the right edge
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 46
LEGEND_LINE = 20
CHARACTER_WIDTH = 7  # an upper bound of the average
FONT = "font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif"


def _style(count):
    def rules(colours, text, faint, background):
        lines = [f".text{{fill:{text}}}", f".grid{{stroke:{faint}}}", f".axis{{stroke:{text}}}",
                 f".back{{fill:{background}}}"]
        for index in range(count):
            colour = colours[index % len(colours)]
            lines.append(f".s{index}{{stroke:{colour};color:{colour}}} .f{index}{{fill:{colour}}}")
        return " ".join(lines)
    return (
        f"<style>text{{{FONT};font-size:12px}} .title{{font-size:14px;font-weight:600}} .line{{fill:none}} "
        + rules(LIGHT, "#1f2328", "#d8dee4", "#ffffff")
        + " @media (prefers-color-scheme: dark){" + rules(DARK, "#e6edf3", "#30363d", "#0d1117") + "}</style>")


def _text(x, y, text, anchor="start", kind="text"):
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _marker(shape, index, x, y):
    if shape == "circle":
        return f'<circle class="f{index}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    if shape == "square":
        return f'<rect class="f{index}" x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"/>'
    points = {"diamond": [(0, -5), (5, 0), (0, 5), (-5, 0)], "triangle": [(0, -5), (4.6, 4), (-4.6, 4)]}[shape]
    return f'<polygon class="f{index}" points="{" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in points)}"/>'


class Axis:
    """Maps values to pixels."""

    def __init__(self, least, greatest, begin, end, logarithmic):
        self.logarithmic = logarithmic
        self.begin, self.end = begin, end
        if logarithmic:
            # Show at least half a decade, so that small differences look small.
            if greatest / least < 3:
                middle = math.sqrt(greatest * least)
                least, greatest = min(least, middle / 2), max(greatest, middle * 2)
            self.low, self.high = math.log10(self._step_below(least)), math.log10(self._step_above(greatest))
        else:
            self.low, self.high = 0.0, greatest * 1.08 or 1.0

    @staticmethod
    def _steps(value):
        decade = 10.0 ** math.floor(math.log10(value))
        return [step * decade for step in (1, 2, 5, 10)]

    def _step_below(self, value):
        return max(step for step in self._steps(value) if step <= value * (1 + 1e-9))

    def _step_above(self, value):
        return min(step for step in self._steps(value) if step >= value * (1 - 1e-9))

    def position(self, value):
        position = math.log10(value) if self.logarithmic else value
        return self.begin + (position - self.low) / (self.high - self.low or 1) * (self.end - self.begin)

    def ticks(self):
        if self.logarithmic:
            steps = (1, 2, 5) if self.high - self.low < 2.2 else (1,)
            candidates = [step * 10.0 ** decade
                          for decade in range(math.floor(self.low), math.ceil(self.high) + 1) for step in steps]
            return [tick for tick in candidates if self.low - 1e-9 <= math.log10(tick) <= self.high + 1e-9]
        step = 10.0 ** math.floor(math.log10(self.high))
        while self.high / step < 4:
            step /= 2
        return [step * index for index in range(int(self.high / step) + 1)]


SECONDS = {"s": 1, "ms": 1e-3, "µs": 1e-6}


def short(value, unit=""):
    """A tick's label with its unit: 25k, 1,500 B; a time in the unit that suits it, so 1500 µs are 1.5 ms."""
    if value == 0:
        return "0"
    if unit in SECONDS:
        seconds = value * SECONDS[unit]
        suited = next((name for name, size in SECONDS.items() if seconds >= size * (1 - 1e-9)), "µs")
        return f"{seconds / SECONDS[suited]:g} {suited}"
    if unit:
        return f"{value:,.0f} {unit}"
    for suffix, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


@dataclass(frozen=True)
class Drawing:
    """An SVG document, and what it shows, in words."""
    svg: str
    description: str


class Panel:
    """One chart: a title, and lines as {name: [(x, y)]}. `y_unit` is s, ms, µs, B or nothing."""

    def __init__(self, title, x_title, lines, y_unit="", x_logarithmic=True, y_logarithmic=True):
        self.title, self.x_title, self.lines, self.y_unit = title, x_title, lines, y_unit
        self.x_logarithmic, self.y_logarithmic = x_logarithmic, y_logarithmic

    def draw(self, left, top, order, emphasised):
        xs = sorted({x for points in self.lines.values() for x, _ in points})
        ys = [y for points in self.lines.values() for _, y in points]
        x_axis = Axis(xs[0], xs[-1], left + LEFT + 12, left + PANEL_WIDTH - RIGHT - 12, self.x_logarithmic)
        if self.y_logarithmic:
            ys = [y for y in ys if y > 0]
        y_axis = Axis(min(ys), max(ys), top + PANEL_HEIGHT - BOTTOM - 6, top + TOP + 6, self.y_logarithmic)
        parts = [_title(left + LEFT - 40, top + 22, self.title)]
        for tick in y_axis.ticks():
            y = y_axis.position(tick)
            parts.append(f'<line class="grid" x1="{left + LEFT}" x2="{left + PANEL_WIDTH - RIGHT}" '
                         f'y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(_text(left + LEFT - 6, y + 4, short(tick, self.y_unit), "end"))
        bottom = top + PANEL_HEIGHT - BOTTOM
        parts.append(f'<line class="axis" x1="{left + LEFT}" x2="{left + PANEL_WIDTH - RIGHT}" '
                     f'y1="{bottom}" y2="{bottom}"/>')
        for x in xs if len(xs) <= MARKED_MAX else x_axis.ticks():
            parts.append(_text(x_axis.position(x), bottom + 16, short(x), "middle"))
        parts.append(_text(left + (LEFT + PANEL_WIDTH - RIGHT) / 2, bottom + 36, self.x_title, "middle"))
        # Draw emphasised lines last, so that they are on top.
        for name in sorted(self.lines, key=lambda line: line in emphasised):
            index = order.index(name)
            positions = [(x_axis.position(x), y_axis.position(y)) for x, y in sorted(self.lines[name])]
            path = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in positions)
            width = 3.2 if name in emphasised else 1.6
            parts.append(f'<path class="line s{index}" stroke-width="{width}" d="{path}"/>')
            if len(positions) <= MARKED_MAX:
                parts.extend(_marker(MARKERS[index % len(MARKERS)], index, x, y) for x, y in positions)
        return parts


def _legend(shown, order, emphasised, left, top, width):
    parts, column_width = [], 44 + CHARACTER_WIDTH * max(len(name) for name in shown)
    columns = max(1, int(width // column_width))
    for slot, name in enumerate(shown):
        x, y = left + slot % columns * column_width, top + slot // columns * LEGEND_LINE
        index = order.index(name)
        stroke = 3.2 if name in emphasised else 1.6
        parts.append(f'<line class="s{index}" x1="{x}" x2="{x + 26}" y1="{y}" y2="{y}" stroke-width="{stroke}"/>')
        parts.append(_marker(MARKERS[index % len(MARKERS)], index, x + 13, y))
        parts.append(_text(x + 34, y + 4, name))
    return parts, -(-len(shown) // columns) * LEGEND_LINE


def _title(x, y, text):
    if len(text) > TITLE_MAX:
        raise ValueError(f"the title of a plot must have at most {TITLE_MAX} characters: {text}")
    return _text(x, y, text, kind="text title")


def _document(width, height, count, parts, description):
    return Drawing(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(description, {chr(34): "&quot;"})}">'
        + _style(count) + '<rect class="back" width="100%" height="100%" rx="6"/>' + "\n".join(parts) + "</svg>\n", description)


def charts(panels, order, emphasised=(), description=""):
    """Panels, one below the other, with one legend. Leaves out panels without lines; returns None if no panel is left.

    `order` has all names that any plot may show. A name's position in it decides its colour, so it has the same colour in
    every plot.
    """
    panels = [panel for panel in panels if any(panel.lines.values())]
    if not panels:
        return None
    for panel in panels:
        panel.lines = {name: points for name, points in panel.lines.items() if points}
    shown = [name for name in order if any(name in panel.lines for panel in panels)]
    if len(shown) > LINES_MAX:
        raise ValueError(f"{description}: {len(shown)} lines in a plot are too many to tell apart (at most {LINES_MAX})")
    height = PANEL_HEIGHT * len(panels)
    parts = []
    for index, panel in enumerate(panels):
        parts.extend(panel.draw(0, index * PANEL_HEIGHT, order, emphasised))
    legend, legend_height = _legend(shown, order, emphasised, 24, height + 14, PANEL_WIDTH - 48)
    return _document(PANEL_WIDTH, height + legend_height + 14, len(order), parts + legend, description)


def bars(title, values, show=number, emphasised=()):
    """Horizontal bars from 0, smallest first. `values` are {name: number}, printed by `show`. None if there are none."""
    if not values:
        return None
    names = sorted(values, key=values.get)
    width, line, left = PANEL_WIDTH, 26, 214
    greatest = max(max(values.values()), 1e-9)
    parts = [_title(12, 26, title)]
    for index, name in enumerate(names):
        y = 44 + index * line
        length = max(1.0, max(0.0, values[name]) / greatest * (width - left - 64))
        colour = 0 if name in emphasised else 1
        parts.append(_text(left - 10, y + 14, name, "end"))
        parts.append(f'<rect class="f{colour}" x="{left}" y="{y}" width="{length:.1f}" height="18" rx="2"/>')
        parts.append(_text(left + length + 8, y + 14, show(values[name])))
    return _document(width, 56 + len(names) * line, 2, parts, title)
