"""Gates: what they hold checkpoints to in words, what they say of the newest ones, and the section of a checkpoint's
page. DELTAQ_SCREENSHOTS=DIR keeps pictures."""

import pytest
import stand_in
import stand_in_gates
from looks import check_looks
from stand_in import HOSTILE
from stand_in_gates import add_gate, judge, judged, rule

RULES = [
    "ΔQL (bits 4) is at most 2.00 %",
    "ΔQL (bits 4, group size 128) is at most 1.5 times the median of the last 5 measured checkpoints before it; "
    "it fails where the 95 % interval holds the limit",
    "Quantized loss minus that of the last measured checkpoint before it is at least \u22120.2500 nats",
    "Trace has no change point among its last 5 measured checkpoints, from step 1,000 on; "
    "it passes where the 95 % interval of the change begins before them",
    "The integrity check finds nothing wrong",
]
SECTION = "document.querySelector('section[aria-label=Gates]')"
LINES = f"[...({SECTION}?.querySelectorAll('li') ?? [])].map(line => line.innerText)"
ROWS = "[...document.querySelectorAll('main tbody tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))"
BUDGET = rule(metric="delta", max=0.02)


@pytest.fixture
def world():
    return stand_in.demonstration()


def verdicts(world):
    return [path for _, path in world.requests if "/verdict" in path]


# --- The page ---------------------------------------------------------------------------------------------------------
def test_gates_are_listed_with_their_rules_and_newest_verdict(world, visit):
    damage = stand_in_gates.gates(world)
    world.add_trajectory("empty", [])
    add_gate(world, HOSTILE, BUDGET, trajectory="empty")
    page = visit("#/gates")
    page.wait(f"{ROWS}.some(row => row[3].includes('fail'))")
    found = {row[0]: row for row in page.run(ROWS)}
    assert found["damage"][1] == "constant" and found["damage"][2].split("\n") == RULES
    assert "▲ fail" in found["damage"][3] and "step-1953" in found["damage"][3]
    assert "pending" in found["budget"][3] and found[HOSTILE][3] == "no checkpoint yet"
    assert page.run("document.querySelectorAll('main tbody .good').length") == 0
    assert page.run("document.querySelector('nav a[aria-current=page]').innerText") == "Gates"
    check_looks(page, "gates")
    judge(world, damage, "c7", *(judged(one, "pass") for one in damage["rules"]))
    world.add_run("evaluate", {"checkpoint": "c1"}, "queued")  # the stand-in's log tells of runs alone
    page.wait(f"{ROWS}.some(row => row[3].includes('✓ pass'))", seconds=20)
    assert page.run("window.hurt") is None


def test_the_newest_gates_are_asked_for_a_verdict(world, visit):
    for number in range(23):
        add_gate(world, f"gate-{number:02}", BUDGET)
    page = visit("#/gates?sort=Gate")
    page.wait("document.querySelectorAll('main tbody .verdict').length === 20")
    assert "Only the newest 20 were asked" in page.run("document.querySelector('main').innerText")
    assert {path.split("/")[3] for path in verdicts(world)} == {f"g{number}" for number in range(3, 23)}
    names = [row[0] for row in page.run(ROWS)]
    assert names == sorted(names) and len(names) == 23


def test_without_gates_the_page_says_how_to_make_one(world, visit):
    page = visit("#/gates")
    text = page.run("document.querySelector('main').innerText")
    assert "No gate was made yet." in text and "/v1/gates' -H 'Content-Type: application/json'" in text
    assert verdicts(world) == []
    check_looks(page, "no-gates")


# --- The section of a checkpoint --------------------------------------------------------------------------------------
def test_a_checkpoint_tells_what_its_gates_say_and_why(world, visit):
    stand_in_gates.gates(world)
    page = visit("#/checkpoints/c7")
    page.wait(f"{LINES}.length === 6")
    heads = page.run(f"[...{SECTION}.querySelectorAll('h3')].map(head => head.innerText)")
    assert [head.split() for head in heads] == [["budget", "pending"], ["damage", "▲", "fail"]]  # the newest first
    unmeasured, *lines = page.run(LINES)
    value = "it is 5.08 % (95 %: 4.45 to 5.71 %), gptq 4-bit g128"
    assert unmeasured == f"pending {RULES[0]}: not measured."
    assert lines == [
        f"▲ fail {RULES[0]}: {value}.",
        f"▲ fail {RULES[1]}: {value}; the median before is 3.67 % (step-732 to step-1708); the limit is 5.50 %; "
        "the limit lies inside the interval.",
        f"✓ pass {RULES[2]}: it is 2.5000 nats, full precision; the one before is 2.5500 nats (step-1708); "
        "the limit is 2.3000 nats.",
        f"✓ pass {RULES[3]}: it is 150, full precision; the interval of the change begins before the last ones; "
        "it jumps up by 12 after step-976 (step 976; likely from step 732 to step 1,464; p = 0.002).",
        f"pending {RULES[4]}: its weights were not read.",
    ]
    assert page.run(f"{SECTION}.querySelector('li a').getAttribute('href')") == "#/runs/r0"
    check_looks(page, "checkpoint-gates")


def test_what_integrity_finds_is_told_in_its_words(world, visit):
    clean = rule(integrity="clean")
    judge(world, add_gate(world, "sound", clean), "c2", judged(clean, "fail", flags=["identical", "jump"]))
    page = visit("#/checkpoints/c2")
    (line,) = page.wait(f"{LINES}.length && {LINES}")
    assert line.endswith(": it holds the same weights as another checkpoint; it is far from its neighbours.")
    judge(world, world.gates[0], "c2", judged(clean, "pass", flags=[]))
    page.call("Page.reload")
    page.wait(f"{LINES}.join() === '✓ pass {RULES[4]}.'")


def test_a_checkpoint_without_gates_asks_for_no_verdict(world, visit):
    add_gate(world, "elsewhere", BUDGET, trajectory="decay-1M")
    page = visit("#/checkpoints/c3")
    page.wait("document.querySelector('#why') !== null")
    assert page.run(f"{SECTION} === null") and verdicts(world) == []
    assert sum(path.startswith("/v1/gates") for _, path in world.requests) == 1


def test_a_verdict_that_cannot_be_had_is_neither_good_nor_bad(world, visit, monkeypatch):
    add_gate(world, "damage", BUDGET)
    original = stand_in.Handler.get_gates

    def get_gates(handler, parts, fields):
        return (503, "Unavailable", "the database is away") if len(parts) == 2 else original(handler, parts, fields)

    monkeypatch.setattr(stand_in.Handler, "get_gates", get_gates)
    page = visit("#/checkpoints/c3")
    page.expected = ["503"]
    page.wait(f"{SECTION}?.innerText.includes('The verdict cannot be had: the database is away')")
    assert page.run(f"{SECTION}.querySelector('.verdict').innerText") == "not told"
    assert page.run(f"{SECTION}.querySelectorAll('.good, .bad').length") == 0
    page.run("location.hash = '#/gates'")
    page.wait("document.querySelector('main tbody .verdict')?.innerText === 'not told'")


def test_a_checkpoint_asks_its_twenty_newest_gates(world, visit):
    for number in range(22):
        add_gate(world, f"gate-{number}", BUDGET)
    page = visit("#/checkpoints/c3")
    page.wait(f"{LINES}.length === 20")
    assert "Not asked: 2 older gates." in page.run(f"{SECTION}.innerText")
    assert {path.split("/")[3] for path in verdicts(world)} == {f"g{number}" for number in range(2, 22)}
