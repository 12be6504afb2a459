"""The report of a study: measurements.csv and .json, findings.csv and .json, figures, and REPORT.md, whose sentences
are all computed from rows and name them in brackets. Standard library only."""

import csv
import json
import textwrap

from cells import ends, size
from experiment import millions
from findings import COMPATIBLE, HELD, NOT_DECIDED, NOT_MEASURED, OF_CORRELATIONS, OPPOSITE, REFUTED
from findings import endpoints, judge, noise

MEASURED = (
    "id",
    "cell",
    "seed",
    "group",
    "peak",
    "weight_decay",
    "branch",
    "tokens",
    "end",
    "method",
    "text",
    "metric",
    "draw",
    "value",
    "low",
    "high",
    "run",
)
FOUND = (
    "number",
    "id",
    "claim",
    "family",
    "cell",
    "compare",
    "metric",
    "upper",
    "lower",
    "branch",
    "method",
    "text",
    "sign",
    "seeds",
    "effect",
    "low",
    "high",
    "p",
    "p_holm",
    "verdict",
)
PERCENT = ("delta",)
NATS = ("loss_q", "loss_fp", "kl", "gradient_term")
LOGARITHM = "(logarithm of the ratio)"
PLAIN = {  # comparisons whose effects are not in the metric's unit
    "correlation": "(Pearson's r)",
    "layer_correlation": "(Pearson's r)",
    "layer_fit": "(R²)",
    "log_ratio": LOGARITHM,
    "correlation_difference": "(Fisher's z)",
}
PER = {
    "trend": "a nat",
    "slope": "for each factor e of tokens",
    "late_slope": "for each factor e of tokens",
    "partial": "from rate zero to the peak",
}
WIDTH = 120
SAYS = {
    HELD: "this held",
    OPPOSITE: "the opposite was found",
    NOT_DECIDED: "this is not decided by these numbers",
    REFUTED: "this does not hold in these numbers",
    COMPATIBLE: "these numbers are compatible with it, and cannot show it",
    NOT_MEASURED: "this was not measured",
}


def number_rows(rows):
    """In one order whatever order they were measured in, with an id each."""
    order = ("cell", "seed", "group", "peak", "weight_decay", "branch", "tokens", "method", "text", "metric")
    rows = sorted(rows, key=lambda row: [row[name] for name in order] + [row["draw"] or 0])
    return [{"id": f"m{number}", **row} for number, row in enumerate(rows, 1)]


def amount(finding, value):
    """A number with its unit: differences of ΔQL are in points of %."""
    if finding["compare"] in OF_CORRELATIONS:
        return f"{value:+.2f}"
    return f"{100 * value:+.2f}" if in_points(finding) else f"{value:+.4g}"


def in_points(finding):
    return finding["metric"] in PERCENT and finding["compare"] not in PLAIN and not finding.get("log")


def unit(finding):
    if finding["compare"] in PLAIN or finding.get("log"):
        return PLAIN.get(finding["compare"], LOGARITHM)
    of_metric = "points" if finding["metric"] in PERCENT else "nats" if finding["metric"] in NATS else ""
    return f"{of_metric} {PER.get(finding['compare'], '')}".strip()


def where(finding, cells):
    counts = ends(cells[finding["cell"]].scale)
    branch = finding.get("branch")
    if branch == "mean":
        place = f", mean of {len(counts)} token budgets"
    elif branch is not None:
        place = f", {millions(counts[branch - 1])} M tokens"
    else:
        place = ""
    return (
        f"cell {finding['cell']}{place}"
        + (f", {finding['method']}" if "method" in finding else "")
        + (", text of another source" if finding.get("text") == "other" else "")
    )


def effect(finding):
    """Its size with interval and p value, in words."""
    text = f"{amount(finding, finding['effect'])} {unit(finding)}".strip()
    if finding["low"] is not None:
        text += f", 95 % {amount(finding, finding['low'])} to {amount(finding, finding['high'])}"
        p = finding["p_holm"] if finding.get("family") else finding["p"]
        text += f", {'corrected' if finding.get('family') else 'uncorrected'} p = {p:.2g}"
    return f"{text}; {finding['seeds']} seed{'s' if finding['seeds'] > 1 else ''} [{finding['number']}]."


def claim(finding, cells):
    return f"{finding['claim'][0].upper()}{finding['claim'][1:]} ({where(finding, cells)})"


def presumed(finding, cells, found):
    """What became of the premise of a claim; empty where it has none."""
    premise = next((other for other in found if other["id"] == finding.get("premise")), None)
    if premise is None:
        return ""
    said = claim(premise, cells)
    return f" It presumes that {said[0].lower()}{said[1:]}: {SAYS[premise['verdict']]} [{premise['number']}]."


def sentence(finding, cells, found):
    """A primary endpoint in words."""
    said = f"{claim(finding, cells)}: {SAYS[finding['verdict']]}; {effect(finding)}"
    return said + presumed(finding, cells, found)


def description(finding, cells, words):
    """An endpoint that is not primary: its effect beside the sign that is expected of it."""
    sign = (
        ""
        if finding["sign"] == 0
        else f" {words['sign']}," if finding["effect"] * finding["sign"] > 0 else f" not {words['sign']},"
    )
    return f"{claim(finding, cells)}:{sign} {effect(finding)}"


def decided(members, measured, words):
    """What a family's primary endpoints amount to."""
    if not measured:
        return f"None of its {len(members)} primary endpoints was measured."
    signed = [finding for finding in measured if finding["sign"] != 0]
    amount = f"Of {len(members)} primary endpoints {len(measured)} were measured"
    among = f"of the {len(signed)} effects among them {words['expected']}"
    if all(finding["seeds"] == 1 for finding in measured):
        alike = sum(finding["effect"] * finding["sign"] > 0 for finding in signed)
        return f"{amount}, by a single seed, which decides none; {alike} {among} have that sign."
    return f"{amount}; {sum(finding['verdict'] == HELD for finding in members)} {among} held."


def families(document, found, cells, words):
    lines = []
    for name, title in document["families"].items():
        members = [finding for finding in found if finding.get("family") == name]
        measured = [finding for finding in members if finding["verdict"] != NOT_MEASURED]
        missing = [finding["number"] for finding in members if finding["verdict"] == NOT_MEASURED]
        lines += [
            f"### {title[0].upper() + title[1:]}",
            "",
            decided(members, measured, words),
            "",
        ]
        lines += [f"- {sentence(finding, cells, found)}" for finding in measured]
        lines += [f"- Not measured: {', '.join(missing)}."] if missing else []
        lines.append("")
    return lines


def of_set(finding, part):
    text = amount(finding, part["effect"])
    if part["low"] is not None:
        text += f" ({amount(finding, part['low'])} to {amount(finding, part['high'])})"
    return f"{text} | {len(part['by_seed'])}"


def repeated(found):
    """The primary endpoints by two sets of seeds."""
    both = [finding for finding in found if finding.get("family") and finding["sets"]]
    if not both:
        return []
    same = [finding for finding in both if finding["sets"][0]["effect"] * finding["sets"][1]["effect"] > 0]
    lines = [
        "## A second set of seeds",
        "",
        "The primary endpoints again, by the seeds of the plan and by others that only a long budget reaches; the two "
        f"sets share none. Of {len(both)} endpoints that both measured, {len(same)} have the same sign in both.",
        "",
        "| endpoint | first set: effect, 95 % | seeds | second set: effect, 95 % | seeds | unit | sign |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {finding['number']} | {' | '.join(of_set(finding, part) for part in finding['sets'])} | {unit(finding)} | "
        f"{'the same' if finding in same else 'the other'} |"
        for finding in both
    ]
    return lines + [""]


def described(found, cells, words):
    all_of_them = [finding for finding in found if not finding.get("family")]
    shown = [finding for finding in all_of_them if finding["verdict"] != NOT_MEASURED]
    left = [finding["number"] for finding in all_of_them if finding["verdict"] == NOT_MEASURED]
    return (
        ["## Described, not tested", "", "These decide nothing.", ""]
        + [f"- {description(finding, cells, words)}" for finding in shown]
        + ([f"- Not measured, or a ratio with a number that is not above zero: {', '.join(left)}."] if left else [])
        + [""]
    )


def of_noise(rows):
    lines = [
        "## Noise",
        "",
        "Standard deviations of ΔQL (GPTQ, 3 bits), in points, pooled over the end points of a cell (evaluation text: "
        "over the models along the way). That of the seed is without what calibration leaves in a mean over samples; a "
        "difference is between means over the same samples.",
        "",
        "| row | cell | source | standard deviation | models, or pairs |",
        "| --- | --- | --- | --- | --- |",
    ]
    return (
        lines
        + [
            f"| {row['number']} | {row['cell']} | {row['source']} | "
            + (f"{100 * row['deviation']:.3f}" if row["deviation"] else "0: calibration explains all")
            + f" | {row['count']} |"
            for row in rows
        ]
        + [""]
    )


def of_cells(cells, rows):
    lines = [
        "## What was trained",
        "",
        "| cell | parameters | tokens at the ends of decays, M | tokens a parameter | peak rates | seeds measured |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for cell in cells.values():
        seeds = sorted({row["seed"] for row in rows if row["cell"] == cell.name})
        counts = [end / 1e6 for end in ends(cell.scale)]
        lines.append(
            f"| {cell.name} | {size(cell) / 1e6:.2f} M | {', '.join(f'{count:.1f}' for count in counts)} | "
            f"{', '.join(f'{1e6 * count / size(cell):.0f}' for count in counts)} | "
            f"{', '.join(f'{peak:g}' for peak in cell.peaks)} | {len(seeds)} |"
        )
    return lines + [""]


def markdown(facts, plan, found, noisy, rows, drawn, cells):
    (document, _), words = endpoints(plan.endpoints), plan.words
    lines = [
        f"# {words['title']}",
        "",
        f"{words['introduction']} Every sentence below is computed from rows: [f1] is a row "
        "of findings.csv, and findings.json names the rows of measurements.csv that it was computed from. ΔQL is "
        "quantized loss over full-precision loss, less 1; its differences are in percentage points.",
        "",
    ]
    lines += [f"- {name}: {value}" for name, value in facts["words"].items()] + [""]
    lines += [
        "## Primary endpoints",
        "",
        f"Fixed beforehand in tests/study/{plan.endpoints}; effects are computed within a seed, tested over seeds "
        "(Student), and corrected by Holm's method within each family.",
        "",
    ]
    lines += families(document, found, cells, words) + repeated(found) + described(found, cells, words)
    lines += of_noise(noisy) + of_cells(cells, rows)
    if facts["left_out"]:
        lines += [
            "## Left out for time",
            "",
            f"Not computed within {facts['budget']}: {', '.join(facts['left_out'])}.",
            "",
        ]
    lines += ["## Figures", ""] + [f"![{name.removesuffix('.svg')}]({name})" for name in sorted(drawn)] + [""]
    return "\n".join(wrapped(line) for line in lines)


def wrapped(line):
    """At most 120 columns, but for tables."""
    if len(line) <= WIDTH or line.startswith("|"):
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def write_csv(path, columns, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def write_json(path, document):
    path.write_text(
        json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace("},{", "},\n{") + "\n", encoding="utf-8"
    )


def write(directory, facts, plan, rows, cells):
    """`facts`: {"words": {name: text}, "budget", "left_out": [unit]}; `plan`: of plans.py. Gives the findings."""
    rows = number_rows(rows)
    found, noisy, drawn = judge(rows, cells, plan.endpoints), noise(rows, cells), plan.draw(rows, cells)
    write_csv(directory / "measurements.csv", MEASURED, rows)
    write_json(directory / "measurements.json", rows)
    write_csv(directory / "findings.csv", FOUND, found)
    write_json(directory / "findings.json", {"facts": facts, "findings": found, "noise": noisy})
    for old in directory.glob("*.svg"):
        old.unlink()
    for name, text in drawn.items():
        (directory / name).write_text(text, encoding="utf-8")
    (directory / "REPORT.md").write_text(markdown(facts, plan, found, noisy, rows, drawn, cells), encoding="utf-8")
    return found
