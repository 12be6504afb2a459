"""Checkpoints of the hub whose files are named: one directory of a repository among several."""

import json

from test_hub import fetched, hub, post_fetch, quiet, served, small, snapshots  # noqa: F401 (fixtures)


def test_the_advice_to_fetch_is_whole(served, hub, small):
    hub.add("lab/advised", "main", {f"runs/a/{n}": d for n, d in small.items()})
    files = [f"runs/a/{n}" for n in small]
    before = set((served.data / "hub/snapshots").glob("[0-9a-f]*"))
    made = fetched(served, "lab/advised", files=files)["checkpoint"]
    (snapshot,) = set(snapshots(served)) - before
    snapshot.rename(snapshot.with_name("." + snapshot.name))
    answer = served.get(f"/v1/checkpoints/{made}/tensors")
    assert answer.status == 422 and 'fetch and its source\'s "files": {' in answer.json["detail"], answer.body
    advised = json.loads(answer.json["detail"].split(": ", 2)[2])
    assert post_fetch(served, advised, force=True).status == 409, "of another source"
    run = served.wait(post_fetch(served, {**advised, "files": files}, force=True).json["id"])
    assert run["result"]["checkpoint"] == made


def test_the_tokenizer_of_the_named_files_is_part_of_what_is_measured(served, hub, small):
    """Both have the same weights; what was measured of one is not the other's."""
    other = json.loads(small["tokenizer.json"])
    vocabulary = other["model"]["vocab"]
    other["model"]["vocab"] = {token: (id + 1) % len(vocabulary) for token, id in vocabulary.items()}
    hub.add("lab/two", "main", {**small, **{f"other/{n}": d for n, d in small.items()},
                                "other/tokenizer.json": json.dumps(other).encode()})
    (served.files / "two.txt").write_text("a text for two tokenizers " * 20)
    served.post("/v1/datasets", {"name": "two-text", "path": "two.txt", "format": "text"})
    made = [fetched(served, "lab/two", name="top"),
            fetched(served, "lab/two", name="other", files=[f"other/{n}" for n in small])]
    runs = [served.run("evaluate", checkpoint=m["checkpoint"], dataset="two-text", sequence_length=16) for m in made]
    assert runs[0]["id"] != runs[1]["id"]
    assert runs[0]["result"]["loss"] != runs[1]["result"]["loss"]
