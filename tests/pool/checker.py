"""What must hold of a queue after faults have ended, read from its tables and the artifacts' directory alone.

    I1 every acknowledged submission is there
    I2 each reached a final state
    I3 a success has one result, of the last epoch
    I4 no row of another epoch is visible
    I5 every referenced object exists and has its hash
    I6 leases' epochs strictly grow; each transition begins where the last ended
    I7 what was cancelled never runs again
    I8 crashes and expired leases stay within their budgets"""

import hashlib

BUDGET, EXPIRIES = 3, 20


FINAL = ("succeeded", "failed", "cancelled")


def violations(pool, submitted):
    """`submitted`: run id -> seed. Returns a list of sentences."""
    wrong = []
    runs = {row["id"]: row for row in pool.sql("select id, state, epoch, crashes, expiries, result_epoch from runs")}
    results, artifacts, measured, events = {}, {}, {}, {}
    for table, into in (("run_results", results), ("artifacts", artifacts), ("measurements", measured)):
        for row in pool.sql(f"select * from {table}"):
            into.setdefault(row["run"], []).append(row)
    for row in pool.sql("select * from run_events where type = 'state' order by id"):
        events.setdefault(row["run"], []).append(row)
    for run, seed in submitted.items():
        row = runs.get(run)
        if row is None:
            wrong.append(f"I1 {run} is lost")
            continue
        if row["state"] not in FINAL:
            wrong.append(f"I2 {run} is {row['state']}")
        wrong += [f"{text} ({run})" for text in check_results(pool, row, seed, results.get(run, []),
                                                              artifacts.get(run, []), measured.get(run, []))]
        wrong += [f"{text} ({run})" for text in check_history(row, events.get(run, []))]
    return wrong


def check_results(pool, row, seed, results, artifacts, measured):
    if row["state"] != "succeeded":
        if results or artifacts or measured:
            yield f"I4 a {row['state']} run has results"
        return
    if row["result_epoch"] != row["epoch"]:
        yield f"I3 result of epoch {row['result_epoch']}, last epoch {row['epoch']}"
    if len(results) != 1 or len(artifacts) != 1 or len(measured) != 1:
        yield f"I3 {len(results)} results, {len(artifacts)} artifacts, {len(measured)} measurements"
    for thing in (*results, *artifacts, *measured):
        if thing["epoch"] != row["result_epoch"]:
            yield f"I4 a row of epoch {thing['epoch']}, the result is of {row['result_epoch']}"
    for result in results:
        if result["result"] != {"seed": seed, "epoch": row["result_epoch"]}:
            yield f"I4 result {result['result']}, epoch {row['result_epoch']}, seed {seed}"
    for artifact in artifacts:
        path = pool.directory / "artifacts" / artifact["sha256"]
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != artifact["sha256"]:
            yield "I5 the object is missing or has other bytes"
        elif path.read_text() != f"seed {seed}\n":
            yield "I5 the object is another run's"


def check_history(row, events):
    state, epoch, final, crashes, expired = None, 0, 0, 0, 0
    for event in events:
        data = event["data"]
        if data["from"] != state:
            yield f"I6 from {data['from']}, but it was {state}"
        if state == "cancelled" and not data.get("retry"):
            yield f"I7 cancelled, then {data['to']}"
        if data["from"] == "queued" and data["to"] == "running":
            if event["epoch"] <= epoch:
                yield f"I6 epoch {event['epoch']} after {epoch}"
            epoch = event["epoch"]
        elif data["from"] == "running" and data.get("lease", epoch) != epoch:
            yield f"I6 a lease of epoch {data['lease']} ended the run of {epoch}"
        crashes += data.get("reason") == "crashed"
        expired += data.get("reason") == "expired"
        final += data["to"] in FINAL
        state = data["to"]
    if state != row["state"] or final != 1:
        yield f"I3 {final} ends, the last is {state}, the row says {row['state']}"
    if row["crashes"] > min(BUDGET, crashes) or row["expiries"] > min(EXPIRIES, expired):
        yield f"I8 {row['crashes']} of {crashes} crashes, {row['expiries']} of {expired} expired leases"
    if row["state"] == "failed" and row["crashes"] < BUDGET and row["expiries"] < EXPIRIES:
        yield f"I8 failed with {row['crashes']} crashes and {row['expiries']} expired leases"
