"""Fetches that are under way at the same time share the space of the cache."""

from hub_stand_in import sha256
from test_hub import files_of, hub, post_fetch  # noqa: F401 (fixtures)
from service import Service
from test_watch import until


def test_two_fetches_at_once_stay_within_the_bound(hub, tmp_path):
    """The cache has space for one of two checkpoints. The fetch that comes second is put off while the first one is
    under way, and takes its place afterwards."""
    for i in range(2):
        files = files_of(tmp_path / f"model-{i}", seed=48300 + i, hidden_size=64, intermediate_size=256)
        hub.add("lab/both", f"step{i}", files)
    size = len(files["model.safetensors"])
    service = Service(tmp_path / "service", "--threads", "1", "--workers", "2", "--hub-cache", str(int(size * 1.5)),
                      environment={"HF_ENDPOINT": hub.url})
    try:
        hold = hub.fail("store", "blobs", "hold", after=1000)
        runs = [post_fetch(service, {"repo": "lab/both", "revision": "step0"}).json["id"]]
        assert hold.reached.wait(60)
        runs.append(post_fetch(service, {"repo": "lab/both", "revision": "step1"}).json["id"])
        decided = (f"select state, tries, run_at > clock_timestamp() + interval '90 seconds' from runs where id ="
                   f" '{runs[1]}' and (tries > 0 or state not in ('queued', 'running'))")
        until("the second is put off, or has ended", lambda: service.sql(decided))
        assert service.sql(decided) == [["queued", "1", "t"]]
        told = str(service.sql(f"select data from run_events where run = '{runs[1]}'"))
        assert "other fetches" in told and "raise --hub-cache" in told
        hold.released.set()
        assert service.wait(runs[0])["state"] == "succeeded"
        service.sql("update runs set run_at = clock_timestamp() where state = 'queued'")
        assert service.wait(runs[1])["state"] == "succeeded"
        kept = sum(file.stat().st_size for file in (service.data / "hub/blobs").iterdir())
        assert size <= kept <= size * 1.5
        assert (service.data / "hub/blobs" / f"sha256-{sha256(files['model.safetensors'])}").exists()
    finally:
        assert service.stop() == 0
