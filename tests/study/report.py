"""The report of a study: report.json, and report.html with figures as inline SVG, drawn here; no scripts, nothing fetched."""

import html
import json
import math

from findings import HELD, NOT_HELD, interval, spearman

COLOURS = {"constant": "#4878a8", "decay": "#c44e52", "cosine": "#937860", "lawa": "#55a868", "sam": "#8172b3", "wd0": "#999999",
           "wd+": "#333333"}
LABELS = {"constant": "constant rate", "decay": "decayed", "cosine": "cosine", "lawa": "LAWA", "sam": "SAM, decayed", "wd0": "no weight decay",
          "wd+": "large weight decay"}
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 460, 300, 62, 44, 26, 14


def ticks(low, high):
    span = high - low
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * k for k in (1, 2, 5, 10) if span / (power * k) <= 6)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def axis_range(values):
    low, high = min(values), max(values)
    margin = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return low - margin, high + margin


def figure(title, x_label, y_label, series, line=True):
    """`series`: [(label, colour, [(x, y, half width or None)])]."""
    series = [(label, colour, points) for label, colour, points in series if points]
    if not series:
        return f"<p>{html.escape(title)}: nothing was measured.</p>"
    x0, x1 = axis_range([x for _, _, points in series for x, _, _ in points])
    y0, y1 = axis_range([y + side * (half or 0) for _, _, points in series for _, y, half in points for side in (-1, 1)])

    def at(x, y):
        return (LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - BOTTOM - TOP))

    out = [f'<svg role="img" aria-label="{html.escape(title)}" viewBox="0 0 {WIDTH} {HEIGHT + 18 * len(series)}" width="{WIDTH}">',
           f'<text x="{LEFT}" y="16" class="title">{html.escape(title)}</text>']
    for value in ticks(x0, x1):
        x, _ = at(value, y0)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" class="grid"/>'
                   f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{value:.4g}</text>')
    for value in ticks(y0, y1):
        _, y = at(x0, value)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
                   f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    out.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{html.escape(x_label)}</text>'
               f'<text transform="translate(14 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{html.escape(y_label)}</text>')
    for number, (label, colour, points) in enumerate(series):
        places = [at(x, y) for x, y, _ in points]
        if line and len(points) > 1:
            out.append(f'<polyline fill="none" stroke="{colour}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>')
        for (x, y), (value_x, value_y, half) in zip(places, points):
            if half:
                low, high = at(value_x, value_y - half)[1], at(value_x, value_y + half)[1]
                out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{colour}"/>')
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"><title>{html.escape(label)}: {value_x:.4g}, {value_y:.4g}'
                       f'{f" ± {half:.2g}" if half else ""}</title></circle>')
        y = HEIGHT + 18 * number + 8
        out.append(f'<circle cx="{LEFT}" cy="{y - 4}" r="4" fill="{colour}"/><text x="{LEFT + 10}" y="{y}">{html.escape(label)}</text>')
    return "".join(out) + "</svg>"


def over_seeds(points, x, y, scale=1.0):
    """[(x, mean, half width)] of points that agree in x."""
    found = []
    for value in sorted({p[x] for p in points}):
        ys = [scale * p[y] for p in points if p[x] == value]
        found.append((value, *interval(ys)))
    return found


def figures(points, all_bits):
    out = []
    for bits in all_bits:
        here = [{**p, "mtokens": p["tokens"] / 1e6} for p in points if p["bits"] == bits and p.get("delta") is not None]
        peaks = sorted({p["peak"] for p in here})
        for peak in peaks:
            groups = [g for g in ("constant", "decay", "lawa", "cosine", "sam") if any(p["group"] == g and p["peak"] == peak for p in here)]
            series = [(LABELS[g], COLOURS[g], over_seeds([p for p in here if p["group"] == g and p["peak"] == peak], "mtokens", "delta", 100))
                      for g in groups]
            out.append(figure(f"ΔQL against tokens, {bits} bits, peak {peak:g}", "million tokens", "ΔQL in %", series))
        budgets = sorted({p["budget"] for p in here})
        shades = ["#e0a0a2", "#c44e52", "#7a2a2d"]
        out.append(figure(f"ΔQL of decayed runs against the peak rate, {bits} bits", "peak rate", "ΔQL in %",
                          [(f"{budget / 1e6:.3g} M tokens before the decay", shades[k % 3],
                            over_seeds([p for p in here if p["group"] == "decay" and p["budget"] == budget], "peak", "delta", 100))
                           for k, budget in enumerate(budgets)]))
        everything = [(LABELS[g], COLOURS[g], [(p["loss_fp"], 100 * p["delta"], None) for p in here if p["group"] == g]) for g in LABELS]
        out.append(figure(f"ΔQL against full-precision loss, {bits} bits, every run", "loss in nats", "ΔQL in %", everything, line=False))
        sharp = [p for p in here if p.get("top_eigenvalue") is not None]
        if sharp:
            rho = spearman([p["top_eigenvalue"] for p in sharp], [p["delta"] for p in sharp])
            label = f"Spearman {rho:.2f}, n = {len(sharp)}" if rho is not None else f"n = {len(sharp)}"
            out.append(figure(f"ΔQL against the top eigenvalue, {bits} bits ({label})", "top eigenvalue of the Hessian", "ΔQL in %",
                              [(LABELS[g], COLOURS[g], [(p["top_eigenvalue"], 100 * p["delta"], None) for p in sharp if p["group"] == g])
                               for g in LABELS], line=False))
    return out


def percent(value):
    return "–" if value is None else f"{100 * value:+.3g}"


def table(rows):
    body = []
    for row in rows:
        mark = {HELD: "yes", NOT_HELD: "no"}.get(row["verdict"], "open")
        between = "–" if row["low"] is None else f"{percent(row['low'])} to {percent(row['high'])}"
        note = f"; {row['left_out']} outside the range of AdamW's losses" if row["left_out"] else ""
        body.append(f"<tr><td>{html.escape(row['claim'])}<br><small>{html.escape(row['comparison'])}</small></td><td>{row['bits']}</td>"
                    f"<td>{percent(row['effect'])}</td><td>{between}</td><td>{row['seeds']} ({row['pairs']} pairs{note})</td>"
                    f'<td class="{mark}">{row["verdict"]}</td></tr>')
    return "".join(body)


PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>deltaq: study</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em; color: #222 }}
table {{ border-collapse: collapse }} td, th {{ border-bottom: 1px solid #ddd; padding: .4em .7em; text-align: left; vertical-align: top }}
svg {{ margin: .6em; vertical-align: top; font-size: 11px }} svg .title {{ font-weight: 600; font-size: 12px }} svg .grid {{ stroke: #e8e8e8 }}
.yes {{ color: #1a7f37; font-weight: 600 }} .no {{ color: #b42318; font-weight: 600 }} .open {{ color: #666 }}
</style><h1>The paper in small</h1><p>{summary}</p>
<table><tr><th>Finding</th><th>Bits</th><th>Effect on ΔQL, points of %</th><th>95 % interval over seeds</th><th>Seeds</th><th>Verdict</th></tr>
{rows}</table>
<p>An effect is a difference of ΔQL = L(quantized) / L(full precision) − 1 between runs of one seed, averaged within the seed; its interval is
Student's over seeds. <em>Held</em>: the whole interval lies on the side that the paper reports; <em>did not hold here</em>: on the other side;
<em>not decided</em>: it contains zero, or there are too few seeds. Several comparisons are made, none is corrected for that.</p>{problems}
<h2>Figures</h2><p>Dots are means over seeds with 95 % intervals where a figure joins them; otherwise each dot is a run.</p>{figures}</html>
"""


def write(directory, configuration, points, rows, problems):
    (directory / "report.json").write_text(json.dumps(
        {"configuration": configuration, "findings": rows, "points": points, "problems": problems}, indent=1))
    bits = sorted({p["bits"] for p in points})
    summary = (f"Scale {configuration['scale']}: {configuration['parameters']}; peaks {', '.join(f'{p:g}' for p in configuration['peaks'])}; "
               f"{len(configuration['seeds'])} seeds; {len(points)} quantized models measured, GPTQ at {' and '.join(map(str, bits))} bits.")
    listed = "".join(f"<li>{html.escape(problem)}</li>" for problem in problems)
    page = PAGE.format(summary=html.escape(summary), rows=table(rows), figures="".join(figures(points, bits)),
                       problems=f"<h2>What is missing</h2><ul>{listed}</ul>" if listed else "")
    (directory / "report.html").write_text(page, encoding="utf-8")
