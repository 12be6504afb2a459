"""What the demo's numbers say: three comparisons, each with a 95 % interval,
in a sentence that says so when one does not hold.

A measurement is {"delta", "interval", "loss_fp", "loss_q", "draws"}: means over disjoint calibration samples, and the
server's interval, which holds what evaluation sequences and these samples do. All measurements share the sequences.
Differences of two are joined as if they did not (Zou and Donner's method of variance estimates recovery), which is too
wide when they rise and fall together; means over token counts take the mean of the widths, which is right when the
differences are fully dependent and too wide otherwise.
So no interval here is narrower than 95 %. Standard library only.
"""

import collections
import math

Estimate = collections.namedtuple("Estimate", "value low high")


def measurement(result):
    """Of what a run of the kind `quantize` found."""
    draws = result["calibration_draws"]
    return {
        "delta": result["delta"],
        "interval": result["delta_interval"],
        "loss_fp": result["loss_fp"],
        "loss_q": result["loss_q"],
        "draws": 1 if draws is None else len(draws["delta"]),
    }


def estimate(measured):
    return Estimate(measured["delta"], *measured["interval"])


def minus(a, b):
    value = a.value - b.value
    return Estimate(
        value,
        value - math.hypot(a.value - a.low, b.high - b.value),
        value + math.hypot(a.high - a.value, b.value - b.low),
    )


def mean(estimates):
    return Estimate(*(sum(column) / len(estimates) for column in zip(*estimates)))


def between(a, b, share):
    """The point at `share` of the way from a to b, as if both were measured on different sequences."""
    value = (1 - share) * a.value + share * b.value
    low = math.hypot((1 - share) * (a.value - a.low), share * (b.value - b.low))
    high = math.hypot((1 - share) * (a.high - a.value), share * (b.high - b.value))
    return Estimate(value, value - low, value + high)


def apart(a, b):
    return a.low > b.high or b.low > a.high


def at_loss(line, loss):
    """ΔQL where the full-precision loss along measurements of one peak rate passes `loss`;
    None beyond what was measured."""
    line = sorted(line, key=lambda entry: entry["loss_fp"])
    for a, b in zip(line, line[1:]):
        if a["loss_fp"] <= loss <= b["loss_fp"] and a["loss_fp"] < b["loss_fp"]:
            return between(estimate(a), estimate(b), (loss - a["loss_fp"]) / (b["loss_fp"] - a["loss_fp"]))
    return None


def points(estimate_, sign=1):
    """ "1.2 points (95 %: 0.9 to 1.5)"; with the sign turned when the sentence says "less"."""
    low, high = sorted((100 * sign * estimate_.low, 100 * sign * estimate_.high))
    return f"{100 * sign * estimate_.value:.2f} points (95 %: {low:.2f} to {high:.2f})"


def verdict(estimate_, sign):
    """True: the interval lies on the side that the paper reports.
    False: it lies on the other. None: it includes zero."""
    if estimate_.low <= 0 <= estimate_.high:
        return None
    return estimate_.value * sign > 0


def fails(holds):
    return "the interval includes zero" if holds is None else "the interval lies on the other side of zero"


def compare(upper, lower, counts):
    """Differences of two groups {tokens: measurement} at the same tokens."""
    both = [count for count in counts if count in upper and count in lower]
    differences = {count: minus(estimate(upper[count]), estimate(lower[count])) for count in both}
    clear = [
        count
        for count in both
        if apart(estimate(upper[count]), estimate(lower[count])) and differences[count].value > 0
    ]
    return mean(list(differences.values())), differences, clear


def decay(decayed, constant, counts):
    total, differences, clear = compare(decayed, constant, counts)
    holds = verdict(total, +1)
    said = (f"averaged over {len(differences)} token counts, "
            f"a decayed run has {points(total)} more ΔQL than the constant run at the same tokens")
    grows = ", ".join(f"{100 * value.value:+.2f} at {count / 1e6:.1f} M" for count, value in differences.items())
    said += f" ({grows})"
    if holds:
        text = (f"Decay raises ΔQL: {said}; "
                f"at {len(clear)} of {len(differences)} counts the two runs' intervals do not touch.")
    else:
        text = f"That decay raises ΔQL does not hold in these numbers: {said}, and {fails(holds)}."
    return finding(
        "decay",
        holds,
        total,
        text,
        apart=clear,
        differences={str(count): value for count, value in differences.items()},
    )


def peak(large, small, rates):
    """`large`, `small`: the decayed runs {tokens: measurement} of two peak rates. A larger rate learns faster, so that
    equal tokens would compare models of different quality: each run of the small rate is held against the line through
    those of the large one, at its own full-precision loss."""
    pairs = [
        (entry["loss_fp"], minus(other, estimate(entry)))
        for _, entry in sorted(small.items())
        if (other := at_loss(large.values(), entry["loss_fp"])) is not None
    ]
    if not pairs:
        text = (
            "Whether a larger peak rate softens the damage cannot be told from these numbers: "
            f"no decayed run of peak rate {rates[1]:g} has a "
            f"full-precision loss within those of peak rate {rates[0]:g}."
        )
        return finding("peak", None, None, text)
    total = mean([difference for _, difference in pairs])
    holds = verdict(total, -1)
    losses = " and ".join(f"{loss:.3f}" for loss, _ in pairs)
    said = (f"at the same full-precision loss ({losses} nats), "
            f"decayed runs of peak rate {rates[0]:g} have {points(total, -1)} less ΔQL than those of {rates[1]:g}")
    if holds:
        text = f"A larger peak rate softens the damage: {said}."
    else:
        text = f"That a larger peak rate softens the damage does not hold in these numbers: {said}, and {fails(holds)}."
    return finding("peak", holds, total, text, losses=[loss for loss, _ in pairs])


def average(averaged, decayed, counts):
    total, differences, _ = compare(averaged, decayed, counts)
    holds = verdict(total, -1)
    last = max(differences)
    said = (
        f"averaged over {len(differences)} token counts, the mean of the constant run's latest checkpoints has "
        f"{points(total, -1)} less ΔQL than the "
        f"decayed run (at {last / 1e6:.1f} M tokens their quantized losses are {averaged[last]['loss_q']:.3f} "
        f"and {decayed[last]['loss_q']:.3f} nats, "
        f"their full-precision losses {averaged[last]['loss_fp']:.3f} and {decayed[last]['loss_fp']:.3f})"
    )
    if holds:
        text = f"Averaging instead of decay does less damage: {said}."
    else:
        text = (f"That averaging instead of decay does less damage does not hold in these numbers: {said}, "
                f"and {fails(holds)}.")
    return finding(
        "average", holds, total, text, differences={str(count): value for count, value in differences.items()}
    )


def finding(name, holds, total, text, **more):
    return {"name": name, "holds": holds, "effect": total, "text": text, **more}
