"""What the dashboard's modules say, called in a page."""

import csv
import io
import json

import pytest


@pytest.fixture
def call(visit):
    """call(module, expression, **given): the value of an expression of the module's exports and of what is given."""
    page = visit("#/runs")  # metrics are told before the first page

    def go(module, expression, **given):
        names = ", ".join(given)
        return page.run(f"import('/{module}.js').then(module => (({{{names}}}) => {expression})({json.dumps(given)}))")

    return go


def quantized(identity, delta, bits, protocol="p", **more):
    return {"id": identity, "kind": "quantize", "state": "succeeded", "params": {"method": {"name": "rtn", "bits": 4}},
            "result": {"delta": delta, "bits_per_weight": bits, "protocol_id": protocol, **more}}


# --- Reasons ----------------------------------------------------------------------------------------------------------
def reasons(call, now, then, rate=(1e-3, 1e-3), curvature=None):
    def runs(which):
        return [] if curvature is None else [{"id": f"s{which}", "kind": "sharpness", "state": "succeeded",
                                              "params": {}, "result": {"largest_algebraic": curvature[which]}}]

    before = {"name": "earlier", "checkpoint": {"learning_rate": rate[1]}, "run": quantized("b", *then[:2], **then[2]),
              "runs": runs(1)}
    run = quantized("a", *now[:2], **now[2])
    given = {"run": run, "checkpoint": {"learning_rate": rate[0]}, "place": None, "before": before, "comparison": None,
             "runs": runs(0), "flags": [], "evaluation": "text"}
    return " ".join(call("verdict", "module.reasons(given)", given=given))


def test_what_did_not_change_is_not_told_as_a_rise(call):
    same = {"loss_fp": 2.5, "loss_q": 2.6}
    words = reasons(call, (0.04, 4, same), (0.04, 4, same), curvature=(38.0, 38.0))
    assert "Since earlier it did not change." in words and "The learning rate stayed at 0.001." in words
    assert "The full-precision loss stayed the same and the quantized loss stayed the same." in words
    assert "The largest eigenvalue stayed at 38." in words
    assert not any(word in words for word in ("rose", "fell", "0.0000", "gain"))
    nearly = {"loss_fp": 2.5 - 1e-7, "loss_q": 2.6 + 1e-7}  # the same as far as it is shown
    words = reasons(call, (0.04 + 1e-9, 4, nearly), (0.04, 4, same), curvature=(38.0 + 1e-9, 38.0))
    assert not any(word in words for word in ("rose", "fell", "0.0000", "gain"))


@pytest.mark.parametrize("now, then, told", [(0.002, -0.001, "+0.300"), (-0.001, -0.002, "+0.100"),
                                             (-0.004, -0.002, "−0.200"), (0.002, 0.0, "+0.200")])
def test_a_change_from_below_zero_is_told_in_points(call, now, then, told):
    """A ratio of the two has the wrong sign, or none."""
    words = reasons(call, (now, 4, {}), (then, 4, {}))
    assert f"Since earlier it changed by {told} points." in words, words


def test_what_changed_is_told_with_its_direction(call):
    now, then = {"loss_fp": 2.4, "loss_q": 2.65}, {"loss_fp": 2.5, "loss_q": 2.6}
    words = reasons(call, (0.06, 4, now), (0.04, 4, then), rate=(1e-4, 1e-3), curvature=(40.0, 38.0))
    assert "Since earlier it changed by +50.0 %." in words
    assert "The learning rate fell from 0.001 to 1×10⁻⁴." in words
    assert "loss fell by 0.1000 nats and the quantized loss rose by 0.0500 nats. Quantization takes all of" in words
    assert "The largest eigenvalue rose from 38 to 40." in words
    words = reasons(call, (0.05, 4, {"loss_fp": 2.4, "loss_q": 2.575}), (0.04, 4, then))
    assert "the quantized loss fell by 0.0250 nats. Quantization takes 75.0 % of that gain." in words


def test_what_is_recommended_has_never_more_bits(call):
    run = quantized("own", 0.05, 3.15)
    more = [quantized("more", 0.001, 4.15), quantized("slightly", 0.002, 3.16)]
    less = [quantized("equal", 0.04, 3.15), quantized("fewer", 0.03, 2.15)]
    elsewhere = quantized("elsewhere", 0.001, 2.15, protocol="q")
    found = "module.cheaper(run, runs)?.id ?? null"
    assert call("verdict", found, run=run, runs=[run, *more, elsewhere]) is None
    assert call("verdict", found, run=run, runs=[run, *more, *less, elsewhere]) == "fewer"


# --- Series -----------------------------------------------------------------------------------------------------------
def test_series_of_which_only_some_have_a_dataset_keep_names_apart(call):
    series = [{"label": "rtn 4-bit", "dataset": "text"}, {"label": "rtn 4-bit"},
              {"label": "rtn 4-bit", "dataset": None, "protocol_id": "f00d"}]
    names = call("scatter", "module.groupsOf(answer, null).map(group => group.label)",
                 answer={"series": series, "points": []})
    assert "rtn 4-bit on text" in names and len(set(names)) == 3
    assert not any("undefined" in name or "null" in name for name in names)
    across = [{"label": "rtn 4-bit", "dataset_x": "text"}, {"label": "rtn 4-bit"}]
    assert not any("undefined" in name for name in call(
        "scatter", "module.groupsOf(answer, null).map(group => group.label)", answer={"series": across, "points": []}))


def test_a_method_of_x_is_told_beside_y_of_full_precision(call):
    def names(*series):
        return call("scatter", "module.groupsOf({series, points: []}, null).map(group => group.label)",
                    series=list(series))

    assert names({"label": "", "label_x": "rtn 4-bit"}) == ["against rtn 4-bit"]
    assert names({"label": "", "label_x": ""}) == [""] and names({"label": "rtn 4-bit", "label_x": ""}) == ["rtn 4-bit"]
    several = names(*({"label": "", "label_x": label} for label in ("rtn 3-bit", "rtn 4-bit")))
    assert several == ["against rtn 4-bit", "against rtn 3-bit"]


# --- Runs of a checkpoint ---------------------------------------------------------------------------------------------
def test_the_costliest_quantization_is_of_the_evaluation_that_most_runs_share(call):
    found = "module.costliest(runs)?.id ?? null"
    many = [quantized("small", 0.01, 4.15, sequences=129), quantized("large", 0.05, 2.15, sequences=129)]
    few = [quantized("wild", 0.9, 2.15, protocol="q", sequences=1)]
    assert call("measurements", found, runs=[*few, *many]) == "large"
    tied = [*few, quantized("tame", 0.2, 3.15, protocol="q", sequences=1)]
    assert call("measurements", found, runs=[*tied, *many]) == "large"  # of as many runs, that of more sequences
    assert call("measurements", found, runs=[]) is None
    assert call("measurements", found, runs=[{**many[0], "state": "failed", "result": None}]) is None


def attribution(identity, bits, protocol):
    return {"id": identity, "kind": "attribution", "state": "succeeded",
            "params": {"method": {"name": "rtn", "bits": bits},
                       "evaluation": {"dataset": "text", "sequence_length": 64, "max_sequences": 8}},
            "result": {"protocol_id": protocol, "units": [{"name": "mlp", "alone": {"delta": 0.02}}]}}


def test_an_attribution_of_another_method_or_evaluation_says_so(call):
    run = quantized("own", 0.05, 4.15)
    known = [attribution("three", 3, "p"), attribution("elsewhere", 4, "q"), attribution("same", 4, "p")]
    found = "((one) => [one.id, module.apartFrom(one, run)])(module.attributionOf(runs, run))"
    assert call("measurements", found, run=run, runs=known) == ["same", ""]
    assert call("measurements", found, run=run, runs=known[:2]) == ["elsewhere", "on text, at most 8 sequences of 64 "
                                                                    "tokens"]
    assert call("measurements", found, run=run, runs=known[:1]) == ["three", "rtn 3-bit"]

    def sentence(runs):
        given = {"run": run, "checkpoint": {}, "place": None, "before": None, "comparison": None, "runs": runs,
                 "flags": [], "evaluation": "text"}
        return call("verdict", "module.reasons(given)", given=given)[-1]

    assert sentence(known) == "Quantized alone, these cost most: mlp (ΔQL 2.00 %)."
    assert sentence(known[:2]).startswith("On text, at most 8 sequences of 64 tokens, quantized alone, these cost most")
    assert sentence(known[:1]).startswith("At rtn 3-bit, quantized alone, these cost most")


# --- Colours ----------------------------------------------------------------------------------------------------------
def test_trajectories_shown_together_have_colours_of_their_own(call):
    made = [{"name": f"t{number:02}", "created_at": f"2026-01-{1 + number:02}"} for number in range(20)]
    found = "[...module.apart(module.colourIndex(made), shown)].filter(([name]) => shown.includes(name))"

    def colours(*shown):
        return dict(call("palette", found, made=made, shown=shown))

    assert colours("t00", "t09") == {"t00": 0, "t09": 1}  # as on every page
    assert colours("t00", "t08", "t01") == {"t00": 0, "t08": 2, "t01": 1}  # t00 and t08 are usually alike
    eight = colours(*(f"t{number:02}" for number in (0, 8, 16, 1, 9, 17, 2, 10)))
    assert sorted(eight.values()) == list(range(8))
    assert len(colours(*(one["name"] for one in made))) == 20


def test_curves_that_differ_in_an_option_look_different(call):
    def looks(*methods):
        curves = [{"key": label, "trajectory": "t", "method": label.split()[0], "label": label,
                   "bits": int(label[label.index("-") - 1])} for label in methods]  # fmt: skip
        found = "[...module.seriesLooks(curves, new Map([['t', 3]]), 4).values()].map(look => [look.colour, look.dash])"
        return call("series", found, curves=curves)

    assert looks("rtn 4-bit g32", "rtn 3-bit g32", "rtn 4-bit g64") == [[3, 0], [3, 0], [0, 0]]  # the dash tells bits
    many = looks(*(f"rtn 4-bit g{2 ** power}" for power in range(3, 10)))
    assert many[:4] == [[3, 0], [0, 0], [1, 0], [2, 0]] and many[4:] == [[3, 1], [3, 2], [3, 3]]
    dashes = call("palette", "[0, 1, 2, 3].map(other => [module.dash(4, other), module.strokeDash(4, other)])")
    assert len({dash for dash, _ in dashes}) == 4 and dashes[1] == ["9px,2px,2px,2px", "9 2 2 2"]


def test_labels_are_sorted_by_the_numbers_in_them(call):
    labels = [f"rtn 4-bit g{size}" for size in (16, 32, 4, 8, 128)]
    series = [{"trajectory": "t", "method": "rtn", "bits": 4, "label": label, "points": []} for label in labels]
    found = call("curves", "module.assemble(['t'], 'delta', 'step', {curves: {series}}).curves.map(one => one.label)",
                 series=series)
    assert found == [f"rtn 4-bit g{size}" for size in (4, 8, 16, 32, 128)]
    found = call("scatter", "module.groupsOf({series, points: []}, null).map(group => group.label)", series=series)
    assert found == [f"rtn 4-bit g{size}" for size in (4, 8, 16, 32, 128)]


# --- Correlations and marks -------------------------------------------------------------------------------------------
def test_intervals_of_correlations_are_promised_only_where_there_are_some(call):
    def words(*found):
        return call("scatter", "module.intervalWords(groups)", groups=[{"found": one} for one in found])

    none = {"interval": None, "differences": {"interval": None}, "note": "no interval of the values: too few"}
    changes = {**none, "differences": {"interval": [-0.2, 0.4]}}
    assert words(none, none) == "No interval of the values: too few."
    assert words(none, changes).endswith("with fewer than five only the changes have an interval.")
    assert "fewer than five" not in words(none, {**none, "interval": [0.1, 0.9]})
    assert words({"interval": [0, 1], "note": "a trend is left"}, none).endswith("averages. A trend is left.")
    assert words({}) == words() == ""
    told = call("scatter", "module.captionOf(group)", group={
        "label": "", "points": [0] * 24, "found": {"pearson": 0.5, "spearman": 0.5, "differences": {"n": 22,
                                                                                                    "pearson": 0.01}}})
    assert told.endswith("; correlation of the 22 changes between neighbouring checkpoints: 0.01")


def test_the_last_point_before_the_rate_falls_is_never_the_first(call):
    def start(*rates):
        found = call("marks", "module.decayStart(points)", points=[{"x": x, "y": y} for x, y in enumerate(rates)])
        return found and found["x"]

    assert start(1, 1, 1, 0.5, 0) == 2 and start(0.5, 1, 0.9, 0.5) == 1
    assert start(1, 0.9, 0.6, 0) is None and start(0.5, 0.01) is None  # a cosine, a branch
    assert start(1, 1, 1) is None


# --- Numbers of figures -----------------------------------------------------------------------------------------------
def saved(call, module, expression, **given):
    look = "{ink: {colour: index => '#00000' + index, muted: '', heat: [], line: '', paper: '#ffffff'}, narrow: false}"
    text = call("saving", f"import('/{module}.js').then(of => module.csvOf(of.{expression.replace('LOOK', look)}))",
                **given)
    return list(csv.reader(io.StringIO(text)))


def test_saved_numbers_of_units_name_the_units_and_have_intervals(call):
    units = [{"name": f"model.layers.{layer}.mlp", "alone": {"delta": 0.02, "delta_interval": [0.01, 0.04]},
              "marginal": None} for layer in range(2)]  # fmt: skip
    units[1]["alone"]["delta_interval"] = None
    rows = saved(call, "attribution", "unitsFigure(units, LOOK)", units=units)
    assert rows[0] == ["series", "ΔQL (%)", "y", "low", "high"]
    assert rows[1:] == [["alone", "2", "0.mlp", "1", "4"], ["alone", "2", "1.mlp", "", ""]]
    rows = saved(call, "attribution", "unitsFigure(units, LOOK)", units=[units[0]] * 61)  # too many for an axis
    assert rows[0][-1] == "point" and rows[61][-1] == "model.layers.0.mlp"


def test_saved_numbers_of_panels_say_which_panel(call):
    rows = saved(call, "train_live", "trainFigure(points, validation, LOOK)",
                 points=[{"step": 1, "loss": 5.5, "rate": 0.001, "norm": 0.5}], validation=[{"x": 1, "y": 5.25}])
    assert {row[0] for row in rows[1:]} == {"batch · loss (nats)", "learning rate", "gradient norm",
                                            "validation · loss (nats)"}
    rows = saved(call, "geometry", "lineFigure(found, ['a', 'b'], LOOK)", found={
        "alphas": [0, 1], "losses": [2, 3], "deltas": [0.01, 0.02], "delta_intervals": [[0, 0.03], [0.01, 0.05]]})
    assert rows[0] == ["series", "alpha", "y", "low", "high"]
    assert ["deltas · ΔQL (%)", "1", "2", "1", "5"] in rows
    assert ["full precision · loss (nats)", "0", "2", "", ""] in rows


def test_saved_numbers_of_the_frontier_name_the_checkpoints(call):
    row = {"trajectory": "t", "name": "step-1", "label": "rtn 4-bit g32", "method": "rtn", "width": 4, "y": 2.5,
           "bits": 4.5, "size": None, "evaluation": "text", "checkpoint": "c1", "best": True}
    rows = saved(call, "frontier", "quantizedFrontier(rows, {...LOOK, y: 'loss_q', title: 'loss', colour: () => ''})",
                 rows=[row])
    assert ["rtn", "4.5", "2.5", "t/step-1 · rtn 4-bit g32"] in rows
    rows = saved(call, "frontier", "quantizedFrontier(rows, {...LOOK, y: 'loss_q', title: 'loss', colour: () => ''})",
                 rows=[{**row, "low": 2.25, "high": 3}, row])
    assert ["rtn", "4.5", "2.5", "2.25", "3", "t/step-1 · rtn 4-bit g32"] in rows
    assert ["rtn", "4.5", "2.5", "", "", "t/step-1 · rtn 4-bit g32"] in rows
    told = "module.frontierKey(rows).join('; ').includes('a comparison in pairs decides')"
    assert call("frontier", told, rows=[{**row, "low": 2.25, "high": 3}]) and not call("frontier", told, rows=[row])


def test_of_two_equal_quantizations_both_are_unbeaten(call):
    """Neither beats the other; one of the same damage for more bits is beaten."""
    places = ((4, 2.5), (4, 2.5), (4.5, 2.5), (4, 2.6), (5, 2))
    rows = [{"evaluation": "text", "bits": bits, "y": y} for bits, y in places]
    best = "module.unbeaten(rows, {y: 'loss_q', size: false}).map(row => row.best)"
    assert call("frontier", best, rows=rows) == [True, True, False, False, True]
    assert call("frontier", best, rows=rows[::-1]) == [True, False, False, True, True]


# --- Numbers and ages -------------------------------------------------------------------------------------------------
def test_large_percentages_have_separators_and_small_losses_digits(call):
    shown = call("format", "[99.99, 100, 97585.7, -123.4567].map(share => module.percent(share))")
    assert shown == ["9999 %", "10,000 %", "9,758,570 %", "−12,346 %"]
    assert call("format", "module.percentInterval(0.5, 200)") == "50 to 20,000 %"
    assert call("format", "module.percentInterval(-0.00001, 0.012)") == "−0.00 to 1.20 %"  # zero lies inside
    assert call("format", "module.percentInterval(0, 0.012)") == "0.00 to 1.20 %"
    assert call("format", "module.percentInterval(0.9957, 1.0008)") == "99.6 to 100.1 %"  # and not "100 to 100"
    assert call("format", "module.percentInterval(0.99981, 0.99984)") == "99.981 to 99.984 %"
    assert call("format", "module.percentInterval(1, 1)") == "100 to 100 %"
    assert call("format", "module.percentNumber(-0.000001, 2)") == "0.00"
    losses = call("format", "[2.34567, 0.001, 0.00099, 0.0000312, 0, null].map(value => module.loss(value))")
    assert losses == ["2.3457", "0.0010", "9.9×10⁻⁴", "3.12×10⁻⁵", "0.0000", "–"]
    words = reasons(call, (150.0, 4, {}), (0.01, 4, {}))  # a change that has separators is still one
    assert "Since earlier it changed by +1,499,900 %" in words


def test_ages_stay_true(call):
    told = call("age", """(() => {
        const then = new Date(Date.now() - 11000).toISOString(), now = Date.now, root = document.createElement("p");
        root.append(module.age(then), module.age(null));
        document.body.append(root);
        const before = root.textContent;
        Date.now = () => now() + 120000;
        module.renewAges();
        Date.now = now;
        return [before, root.textContent]; })()""")
    assert told == ["11 s ago–", "2 min ago–"]


def test_a_trend_needs_two_points_of_a_curve(call):
    drawn = "module.sparkline(curves, '', '') !== null"
    one = {"points": [{"x": 1, "y": 0.1}], "bits": 4}
    assert not call("sparkline", drawn, curves=[one, one]) and not call("sparkline", drawn, curves=[])
    assert call("sparkline", drawn, curves=[one, {"points": [{"x": 1, "y": 0.1}, {"x": 2, "y": 0.2}], "bits": 3}])
