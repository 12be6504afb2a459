"""What the measurements of a study say about each of the paper's findings: an effect, its 95 % interval over seeds, a verdict.

A point is {"group", "peak", "seed", "tokens", "budget", "bits", "delta", "loss_fp", "top_eigenvalue", ...}. Groups: "constant" (measured
where its rate would have been decayed to nothing), "decay", "cosine", "lawa", "sam", "wd0", "wd+". Differences are taken between runs of
one seed and averaged within it, so that a seed is one observation and runs that share data and start are not counted twice.
"""

import math

HELD, NOT_HELD, NOT_DECIDED = "held", "did not hold here", "not decided"

# Two-sided 95 % points of Student's t by degrees of freedom, from 1; beyond the table the last is a little wide.
T95 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131]


def mean(values):
    return sum(values) / len(values)


def interval(values):
    """Mean and half width of its 95 % interval; the width is None for fewer than two values."""
    if len(values) < 2:
        return mean(values), None
    centre = mean(values)
    variance = sum((value - centre) ** 2 for value in values) / (len(values) - 1)
    return centre, T95[min(len(values) - 1, len(T95)) - 1] * math.sqrt(variance / len(values))


def verdict(effect, half, sign):
    """`sign` is that of the effect that the paper reports."""
    if half is None or abs(effect) <= half:
        return NOT_DECIDED
    return HELD if effect * sign > 0 else NOT_HELD


def by_seed(pairs):
    """{seed: mean difference} of [(seed, difference)]."""
    seeds = sorted({seed for seed, _ in pairs})
    return {seed: mean([difference for at, difference in pairs if at == seed]) for seed in seeds}


def index(points, bits):
    return {(p["group"], p["peak"], p["seed"], p["budget"]): p for p in points if p["bits"] == bits and p.get("delta") is not None}


def paired(points, bits, group, other):
    """delta of `group` minus delta of `other` for every peak, seed and budget that both have."""
    found = index(points, bits)
    return [(seed, p["delta"] - found[other, peak, seed, budget]["delta"])
            for (name, peak, seed, budget), p in found.items() if name == group and (other, peak, seed, budget) in found]


def peak_pairs(points, bits):
    """delta at the largest peak minus delta at the smallest, of decayed runs."""
    found = index(points, bits)
    pairs = []
    for seed, budget in sorted({(s, b) for group, _, s, b in found if group == "decay"}):
        peaks = sorted(peak for group, peak, s, b in found if group == "decay" and (s, b) == (seed, budget))
        if len(peaks) > 1:
            low, high = (found["decay", peak, seed, budget]["delta"] for peak in (peaks[0], peaks[-1]))
            pairs.append((seed, high - low))
    return pairs


def equal_loss_pairs(points, bits):
    """delta of SAM minus delta of AdamW at the same full-precision loss: between its two decayed runs that enclose SAM's loss, linear
    in the loss. Where SAM's loss lies outside, nothing is extrapolated. Returns the pairs and how many were left out."""
    found = index(points, bits)
    pairs, outside = [], 0
    for (group, peak, seed, _), p in sorted(found.items()):
        if group != "sam":
            continue
        line = sorted((q["loss_fp"], q["delta"]) for (g, at, s, _), q in found.items() if g == "decay" and (at, s) == (peak, seed))
        spans = [(a, b) for a, b in zip(line, line[1:]) if a[0] <= p["loss_fp"] <= b[0] and a[0] < b[0]]
        if not spans:
            outside += 1
            continue
        (x0, y0), (x1, y1) = spans[0]
        pairs.append((seed, p["delta"] - (y0 + (y1 - y0) * (p["loss_fp"] - x0) / (x1 - x0))))
    return pairs, outside


# name, what the paper reports, the comparison, the sign it reports
FINDINGS = [
    ("decay", "Damage rises when the learning rate decays", "decayed run minus constant run, same tokens", +1,
     lambda points, bits: (paired(points, bits, "decay", "constant"), 0)),
    ("peak", "A larger peak rate softens the damage", "largest peak minus smallest, decayed, same tokens", -1,
     lambda points, bits: (peak_pairs(points, bits), 0)),
    ("lawa", "Averaging the latest weights (LAWA) softens the damage", "LAWA of the constant run minus decayed run, same tokens", -1,
     lambda points, bits: (paired(points, bits, "lawa", "decay"), 0)),
    ("weight_decay", "Weight decay softens the damage", "large weight decay minus none, decayed, same tokens", -1,
     lambda points, bits: (paired(points, bits, "wd+", "wd0"), 0)),
    ("sam", "SAM softens the damage at equal loss", "SAM minus AdamW interpolated to the same full-precision loss", -1, equal_loss_pairs),
]


def judge(points, all_bits):
    rows = []
    for name, claim, comparison, sign, compare in FINDINGS:
        for bits in all_bits:
            pairs, left_out = compare(points, bits)
            seeds = by_seed(pairs)
            row = {"name": name, "claim": claim, "comparison": comparison, "bits": bits, "seeds": len(seeds), "pairs": len(pairs),
                   "left_out": left_out, "effect": None, "low": None, "high": None, "verdict": NOT_DECIDED, "by_seed": seeds}
            if seeds:
                effect, half = interval(list(seeds.values()))
                row.update(effect=effect, verdict=verdict(effect, half, sign))
                if half is not None:
                    row.update(low=effect - half, high=effect + half)
            rows.append(row)
    return rows


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for k in range(start, end + 1):
            found[order[k]] = (start + end) / 2
        start = end + 1
    return found


def spearman(xs, ys):
    if len(xs) < 3:
        return None
    a, b = ranks(xs), ranks(ys)
    ma, mb = mean(a), mean(b)
    spread = math.sqrt(sum((x - ma) ** 2 for x in a) * sum((y - mb) ** 2 for y in b))
    return sum((x - ma) * (y - mb) for x, y in zip(a, b)) / spread if spread > 0 else None
