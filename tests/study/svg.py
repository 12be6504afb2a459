"""Figures as SVG files: lines, marks, intervals, two panels one below the other, a legend,
a caption. Standard library only."""

import html
import math

WIDTH, LEFT, RIGHT, TOP = 640, 66, 16, 34  # one column of a page
STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#222}"
    ".title{font-weight:600;font-size:13px}.caption{fill:#555;font-size:10px}"
    ".grid{stroke:#e6e6e6}.mark{stroke:#999;stroke-dasharray:3 3}"
)
CAPTION_LETTERS = 112

# A series is {"label", "colour", "points": [(x, y, half width or None)], "line": bool, "mark": "dot" | "star" | None,
# "dashed": bool}. A panel is {"y": label, "height", "series", "marks": [x], "logarithmic": bool of y}.


def ticks(low, high):
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(power * k for k in (1, 2, 5, 10) if (high - low) / (power * k) <= 6)
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low, high):
    """Round numbers between two powers of e: 1, 2, 5 of each decade."""
    found = [k * 10.0**power for power in range(-12, 13) for k in (1, 2, 5) if low <= math.log(k * 10.0**power) <= high]
    if len(found) < 2:  # a narrow range: round numbers at even distances
        found = [value for value in ticks(math.exp(low), math.exp(high)) if value > 0]
    return [math.log(value) for value in found]


def axis(values):
    low, high = min(values), max(values)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return low - margin, high + margin


def star(x, y, colour):
    corners = [
        (x + r * math.sin(k * math.pi / 5), y - r * math.cos(k * math.pi / 5))
        for k in range(10)
        for r in [6.5 if k % 2 == 0 else 2.8]
    ]
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
    return f'<polygon fill="{colour}" stroke="#222" stroke-width=".6" points="{points}"/>'


def number(value):
    return f"{value:.4g}"


class Panel:
    """A rectangle with axes. `x_log`, `logarithmic`:
    the axis is that of the logarithm, its labels are of the number itself."""

    def __init__(self, panel, top, x_range, x_log):
        self.panel, self.top, self.bottom = panel, top, top + panel["height"]
        self.x_range, self.x_log, self.y_log = x_range, x_log, panel.get("logarithmic", False)
        values = [
            self.of_y(y + side * (half or 0))
            for series in panel["series"]
            for _, y, half in series["points"]
            for side in (-1, 1)
            if not self.y_log or y + side * (half or 0) > 0
        ]
        self.y_range = panel.get("range") or axis(values)

    def of_x(self, x):
        return math.log(x) if self.x_log else x

    def of_y(self, y):
        return math.log(y) if self.y_log else y

    def place(self, x, y):
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        return (
            LEFT + (self.of_x(x) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT),
            self.bottom - (self.of_y(y) - y0) / (y1 - y0) * (self.bottom - self.top),
        )

    def axes(self, x_labels):
        out = []
        for value in (log_ticks if self.x_log else ticks)(*self.x_range):
            shown = math.exp(value) if self.x_log else value
            x, _ = self.place(shown, math.exp(self.y_range[0]) if self.y_log else self.y_range[0])
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{self.top}" y2="{self.bottom}" class="grid"/>')
            if x_labels:
                out.append(f'<text x="{x:.1f}" y="{self.bottom + 14}" text-anchor="middle">{number(shown)}</text>')
        for value in (log_ticks if self.y_log else ticks)(*self.y_range):
            shown = math.exp(value) if self.y_log else value
            _, y = self.place(math.exp(self.x_range[0]) if self.x_log else self.x_range[0], shown)
            out.append(
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
                f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(shown)}</text>'
            )
        middle = (self.top + self.bottom) / 2
        out.append(
            f'<text transform="translate(14 {middle:.0f}) rotate(-90)" '
            f'text-anchor="middle">{html.escape(self.panel["y"])}</text>'
        )
        for at in self.panel.get("marks", []):
            x = LEFT + (self.of_x(at) - self.x_range[0]) / (self.x_range[1] - self.x_range[0]) * (WIDTH - LEFT - RIGHT)
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{self.top}" y2="{self.bottom}" class="mark"/>')
        return out

    def series(self, series):
        out, colour = [], series["colour"]
        places = [self.place(x, y) for x, y, _ in series["points"]]
        if series.get("line", True) and len(places) > 1:
            dashes = ' stroke-dasharray="5 3"' if series.get("dashed") else ""
            out.append(
                f'<polyline fill="none" stroke="{colour}" stroke-width="1.4"{dashes} '
                f'points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>'
            )
        for (x, y), (at, value, half) in zip(places, series["points"]):
            if half and (not self.y_log or value > half):
                low, high = self.place(at, value - half)[1], self.place(at, value + half)[1]
                out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{colour}"/>')
            mark = series.get("mark", "dot")
            if mark == "star":
                out.append(star(x, y, colour))
            elif mark is not None:
                out.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2.2 if len(places) > 12 else 3.2}" fill="{colour}"/>'
                )
        return out


def lines_of(text):
    """A caption in lines of a column's width."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > CAPTION_LETTERS:
            lines.append("")
        lines[-1] += word + " "
    return lines


def sample(x, y, series):
    dashes = ' stroke-dasharray="4 2"' if series.get("dashed") else ""
    return (
        f'<line x1="{x - 8:.0f}" x2="{x + 8:.0f}" y1="{y}" y2="{y}" stroke="{series["colour"]}" '
        f'stroke-width="1.4"{dashes}/>'
        f'<circle cx="{x:.0f}" cy="{y}" r="3.2" fill="{series["colour"]}"/>'
    )


def legend(panels, top):
    """One entry for each label, as many in a row as the longest allows."""
    entries = {series["label"]: series for panel in panels for series in panel["series"] if series.get("label")}
    row = max(1, min(4, int((WIDTH - LEFT - RIGHT) / (22 + 6.2 * max(map(len, entries), default=1)))))
    out, each = [], (WIDTH - LEFT - RIGHT) / row
    for place, (label, series) in enumerate(entries.items()):
        x, y = LEFT + place % row * each, top + place // row * 16
        mark = star(x, y - 4, series["colour"]) if series.get("mark") == "star" else sample(x, y - 4, series)
        out.append(f'{mark}<text x="{x + 12:.0f}" y="{y}">{html.escape(label)}</text>')
    return out, top + 16 * -(-len(entries) // row)


def figure(title, x_label, panels, caption, x_log=False):
    """The text of an SVG file; None when nothing was measured."""
    panels = [{**panel, "series": [series for series in panel["series"] if series["points"]]} for panel in panels]
    panels = [panel for panel in panels if panel["series"]]
    if not panels:
        return None
    xs = [math.log(x) if x_log else x for panel in panels for series in panel["series"] for x, _, _ in series["points"]]
    x_range, top, body = axis(xs), TOP, []
    for place, panel in enumerate(panels):
        drawn = Panel(panel, top, x_range, x_log)
        body += drawn.axes(place == len(panels) - 1)
        for series in panel["series"]:
            body += drawn.series(series)
        top = drawn.bottom + 12
    body.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{top + 20}" text-anchor="middle">{html.escape(x_label)}</text>'
    )
    shown, top = legend(panels, top + 44)
    body += shown
    for line in lines_of(caption):
        top += 13
        body.append(f'<text x="{LEFT - 50}" y="{top}" class="caption">{html.escape(line.strip())}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{html.escape(title)}" viewBox="0 0 {WIDTH} '
        f'{top + 12}" width="{WIDTH}" '
        f'height="{top + 12}"><style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="{LEFT - 50}" y="20" class="title">{html.escape(title)}</text>{"".join(body)}</svg>\n'
    )
