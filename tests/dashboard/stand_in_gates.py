"""The stand-in's gates: rules as the server stores them, and verdicts that tests give (World.gates, World.verdicts).
Standard library only."""

UNSET = ("metric", "max", "min", "max_ratio", "min_ratio", "max_change", "min_change", "against_last", "integrity")
FOUND = ("value", "interval", "limit", "straddles", "run", "series", "base", "compared_with", "flags", "change",
         "p_value", "reason")


def rule(**given):
    return {**dict.fromkeys(UNSET), "series": {}, "straddle": "value", **given}


def judged(one, verdict, **found):
    """A rule of a verdict: what was not found is null."""
    return {"rule": one, "verdict": verdict, **dict.fromkeys(FOUND), **found}


def add_gate(world, name, *rules, trajectory="constant"):
    gate = {"id": f"g{len(world.gates)}", "name": name, "trajectory": trajectory, "rules": list(rules),
            "created_at": "2026-11-20T08:00:00Z"}  # fmt: skip
    world.gates.append(gate)
    return gate


def judge(world, gate, checkpoint, *rules):
    """From now on this is what the gate says of a checkpoint, by its id; of all others it is pending."""
    world.verdicts[gate["id"], checkpoint] = rules


def gates(world):
    """Two gates of `constant`: rules of every sort and what they find at c3 and c7, and one that is not measured."""
    bits = {"method.bits": 4}
    label, course = "gptq 4-bit g128", [one["name"] for one in world.checkpoints[:7]]
    limit = rule(metric="delta", series=bits, max=0.02)
    ratio = rule(metric="delta", series={**bits, "method.group_size": 128}, against_last=5, max_ratio=1.5,
                 straddle="fail")
    loss = rule(metric="loss_q", against_last=1, min_change=-0.25)
    point = rule(metric="trace", changepoint=5, **{"from": 1000}, straddle="pass")
    clean = rule(integrity="clean")
    place = [{"x": one["step"], "checkpoint": one["id"], "checkpoint_name": one["name"]}
             for one in world.checkpoints[3:5]]
    change = {"kind": "level", "after": place[0], "before": place[1], "interval": [732, 1464], "size": 12.0}
    measured = {"value": 0.0508, "interval": [0.0445, 0.0571], "run": "r0", "series": label}
    damage = add_gate(world, "damage", limit, ratio, loss, point, clean)
    add_gate(world, "budget", limit)
    for checkpoint in ("c3", "c7"):
        judge(world, damage, checkpoint,
              judged(limit, "fail", limit=0.02, straddles=False, **measured),
              judged(ratio, "fail", limit=0.055, straddles=True, base=0.0367, compared_with=course[2:], **measured),
              judged(loss, "pass", value=2.5, limit=2.3, straddles=False, base=2.55, compared_with=course[-1:],
                     series="", run="r0"),
              judged(point, "pass", value=150.0, straddles=True, change=change, p_value=0.002, series=""),
              judged(clean, "pending", reason="its weights were not read"))
    return damage


class Gates:
    """The handler of the gates, for a request handler as that of stand_in_service."""

    def get_gates(self, parts, fields):
        world = self.world
        if not parts:
            return self.page("gates", world.gates, fields)
        gate = next((one for one in world.gates if parts[0] in (one["id"], one["name"])), None)
        if gate is None or len(parts) == 1:
            return gate
        checkpoint = next((one for one in world.checkpoints if one["id"] == fields["checkpoint"][0]), None)
        if checkpoint is None:
            return None
        unmeasured = [judged(one, "pending", reason="not measured") for one in gate["rules"]]
        rules = list(world.verdicts.get((gate["id"], checkpoint["id"]), unmeasured))
        words = {one["verdict"] for one in rules}
        return {"gate": gate["name"], "gate_id": gate["id"], "trajectory": gate["trajectory"], "trajectory_id": "t0",
                "checkpoint": checkpoint["id"], "checkpoint_name": checkpoint["name"], "step": checkpoint["step"],
                "verdict": next(word for word in ("fail", "pending", "pass") if word in words),
                "rules": rules}  # fmt: skip
