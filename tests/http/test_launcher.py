"""What the launcher makes of what Slurm says, without a Slurm: programs of its names stand in for it, and the test is
the cluster. tests/slurm has the real one."""

import contextlib
import subprocess
import time

import models
import pytest
from service import BINARY, Service

EVALUATION = {"checkpoint": "t/c0", "dataset": "rows", "sequence_length": None}

# A job runs as soon as it is submitted; `jobs`, `ended` and `accounted` are what the programs answer, once there is no
# file `hold-...`.
PROGRAMS = {
    "sbatch": """cat > /dev/null
while [ -e hold-sbatch ]; do sleep 0.02; done
number=$(($(cat number) + 1))
echo $number > number
for word; do case $word in --job-name=*) name=${word#--job-name=};; esac; done
echo "$number $*" >> submitted
echo "$number|$number|$name|RUNNING|None" >> jobs
echo $number""",
    "squeue": """case "$*" in *--states=all*) file=ended;; *) file=jobs;; esac
while [ -e hold-$file ]; do sleep 0.02; done
exec cat $file""",
    "sacct": "exec cat accounted",  # which fails without the file, as sacct does without accounting
    "scancel": "exit 0",
}


class Lab:
    def __init__(self, directory, tmp):
        self.directory, self.log = directory, tmp / "launcher.log"
        directory.mkdir()
        for name, text in PROGRAMS.items():
            (directory / name).write_text(f'#!/bin/sh\ncd {directory}\necho "{name} $*" >> commands\n{text}\n')
            (directory / name).chmod(0o755)
        for name, text in {"number": "0\n", "submitted": "", "jobs": "", "ended": "", "commands": ""}.items():
            (directory / name).write_text(text)
        self.service = Service(tmp, "--workers", "0", environment={"HF_ENDPOINT": "http://127.0.0.1:9"})
        self.service.environment["PATH"] = f"{directory}:{self.service.environment['PATH']}"
        self.url = f"host={self.service.data}/pg/socket user=deltaq dbname=deltaq"
        models.write_llama(self.service.files / "model")
        self.service.checkpoint(self.service.files / "model", "t", "c0", step=0)
        self.service.sequences("rows", models.rows(2, 12))

    def words(self, *command):
        return [BINARY, *command, "--database-url", self.url, "--data-dir", self.service.data, "--root",
                self.service.files, "--threads", "1"]

    @contextlib.contextmanager
    def launcher(self, *options):
        interval = [] if "--interval" in options else ["--interval", "1"]
        with open(self.log, "ab") as log:
            process = subprocess.Popen([*self.words("launcher", "slurm"), *interval, *options],
                                       env=self.service.environment, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            assert process.wait(30) == 0, self.log.read_text()

    def worker(self, job, memory, device="cpu"):
        """As the job would start it."""
        return subprocess.Popen([*self.words("worker"), "--label", "launcher=deltaq", "--memory", str(memory),
                                 "--device", device],
                                env={**self.service.environment, "SLURM_JOB_ID": str(job)}, stderr=subprocess.DEVNULL)

    def post(self, **more):
        answer = self.service.post("/v1/runs", {"kind": "evaluate", "params": EVALUATION, "force": True, **more})
        assert answer.status == 202, answer.body
        return answer.json["id"]

    def submitted(self, count):
        """The words of the job of that number, once it was submitted."""
        self.until(lambda: len((self.directory / "submitted").read_text().splitlines()) >= count)
        words = (self.directory / "submitted").read_text().splitlines()[count - 1].split(" ")
        assert words[0] == str(count)
        return words[1:]

    def until(self, condition):
        end = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)

    def looked(self, times=2):
        """Until the launcher has looked so often again."""
        looks = len(self.commands("squeue --me"))
        self.until(lambda: len(self.commands("squeue --me")) >= looks + times)

    def sql(self, text):
        done = subprocess.run(["psql", "-XAtq", "-d", self.url, "-c", text], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def kill(self, worker, job, file):
        """Slurm kills it for its memory; `file` of the stand-ins has it."""
        worker.kill()
        worker.wait()
        (self.directory / file).write_text(f"{job}|OUT_OF_MEMORY\n")
        (self.directory / "jobs").write_text("")

    def commands(self, name):
        """The command lines of that program."""
        lines = (self.directory / "commands").read_text().splitlines()
        return [line for line in lines if line.startswith(f"{name} ")]

    def lose_workers(self, *jobs):
        """Workers that had no run and are killed; squeue does not list their jobs."""
        workers = [self.worker(job, 600) for job in jobs]
        self.until(lambda: self.sql("select count(*) from workers") == str(len(jobs)))
        for worker in workers:
            worker.kill()
            worker.wait()

    def change_jobs(self, old, new):
        """What squeue says, once it has `old`; it never reads half a file."""
        jobs, changed = self.directory / "jobs", self.directory / "jobs.new"
        self.until(lambda: old in jobs.read_text())
        changed.write_text(jobs.read_text().replace(old, new))
        changed.rename(jobs)


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path / "slurm", tmp_path)
    yield lab
    assert lab.service.stop() == 0


def test_a_job_out_of_memory_gets_its_run_more_and_then_a_plain_error(lab):
    with lab.service.gate.holding("evaluate", 0, lease="*"):
        run = lab.post()
        with lab.launcher("--memory", "600", "--most-memory", "1000"):
            assert "--mem=600M" in lab.submitted(1)
            worker = lab.worker(1, 600)
            lab.service.held(run)
            lab.kill(worker, 1, "ended")
            assert "--mem=1000M" in lab.submitted(2)  # twice as much, and no more than the most
            told = lab.sql(f"select state, memory_wanted >> 20, expiries from runs where id = '{run}'")
            assert told == "queued|1000|1"
            worker = lab.worker(2, 1000)
            lab.service.held(run, lease=2)
            (lab.directory / "ended").write_text("")  # the controller has forgotten it, accounting has not
            lab.kill(worker, 2, "accounted")
            document = lab.service.wait(run)
    assert document["state"] == "failed" and document["error"]["code"] == "too_large"
    assert "killed job 2, which had 1000 MiB: out of memory" in document["error"]["detail"]
    assert "start the launcher with a larger --most-memory" in document["error"]["detail"]
    assert (lab.directory / "number").read_text() == "2\n" and lab.sql("select count(*) from workers") == "0"
    log = lab.log.read_text()
    assert "job 1 was killed, out of memory with 600 MiB: 1 run back in the queue for a job with more" in log


def test_a_job_that_ended_otherwise_is_given_the_time_to_end(lab):
    """Of the same silence nothing follows while Slurm says no more than that the job has ended."""
    with lab.service.gate.holding("evaluate", 0, lease="*"):
        run = lab.post()
        with lab.launcher("--memory", "600"):
            lab.submitted(1)
            worker = lab.worker(1, 600)
            lab.service.held(run)
            worker.kill()
            worker.wait()
            (lab.directory / "ended").write_text("10|OUT_OF_MEMORY\n1|NODE_FAIL\n")  # of another job, and of ours
            (lab.directory / "jobs").write_text("")
            lab.looked()
            assert lab.sql(f"select state from runs where id = '{run}'") == "running"
            lab.sql("update workers set seen_at = seen_at - interval '1 minute'")
            lab.until(lambda: "job 1 is gone, NODE_FAIL: 1 run back in the queue" in lab.log.read_text())
            lab.submitted(2)
    assert lab.sql(f"select state, memory_wanted, expiries from runs where id = '{run}'") == "queued||1"


def test_all_jobs_that_are_gone_are_asked_for_at_once(lab):
    lab.lose_workers(7, 8, 9)
    lab.sql("update workers set seen_at = seen_at - interval '1 minute'")
    (lab.directory / "ended").write_text("7|NODE_FAIL\n")
    (lab.directory / "accounted").write_text("8|COMPLETED\n9|OUT_OF_MEMORY\n")
    with lab.launcher():
        lab.until(lambda: lab.sql("select count(*) from workers") == "0")
        lab.looked()
    controller = [line.split(" ")[-1] for line in lab.commands("squeue") if "--states=all" in line]
    accounting = [line.split(" ")[4] for line in lab.commands("sacct")]
    assert [sorted(ids.split(",")) for ids in controller] == [["7", "8", "9"]]
    assert [sorted(ids.split(",")) for ids in accounting] == [["8", "9"]]
    log = lab.log.read_text()
    assert "job 7 is gone, NODE_FAIL" in log and "job 8 is gone, COMPLETED" in log
    assert "job 9 was killed, out of memory" in log


def test_a_launcher_that_lost_its_name_during_a_look_submits_nothing(lab):
    """As while Slurm is slow: it answers here when the test lets it."""
    lab.lose_workers(7)
    lab.post()
    for file in ("jobs", "ended"):
        (lab.directory / f"hold-{file}").touch()
    with lab.launcher():
        lab.until(lambda: len(lab.commands("squeue")) == 1)
        seen = lab.sql("select seen_at from launchers")
        (lab.directory / "hold-jobs").unlink()
        lab.until(lambda: len(lab.commands("squeue")) == 2)
        assert lab.sql("select seen_at from launchers") != seen  # it claims its name again behind the list
        lab.sql("update launchers set owner = 'another', seen_at = clock_timestamp() + interval '4 minutes'")
        (lab.directory / "hold-ended").unlink()
        lab.until(lambda: "waits: another launcher" in lab.log.read_text())
    assert lab.commands("sbatch") == []


def test_a_launcher_has_its_name_for_as_long_as_a_submission_may_take(lab):
    (lab.directory / "hold-sbatch").touch()
    start = lab.sql("select clock_timestamp()")
    lab.post()
    with lab.launcher("--interval", "600"):
        lab.until(lambda: lab.commands("sbatch"))
        assert lab.sql(f"select seen_at >= timestamptz '{start}' + interval '1 minute' from launchers") == "t"
        (lab.directory / "hold-sbatch").unlink()
        lab.until(lambda: lab.sql("select seen_at < clock_timestamp() + interval '5 seconds' and seen_at <"
                                  f" timestamptz '{start}' + interval '1 minute' from launchers") == "t")


def test_what_slurm_refuses_keeps_no_other_run_waiting(lab):
    sbatch = lab.directory / "sbatch"
    sbatch.write_text(sbatch.read_text().replace("#!/bin/sh\n", """#!/bin/sh
case "$*" in *--mem=4096M*) echo "sbatch: error: Memory specification can not be satisfied" >&2; exit 1;; esac
"""))
    lab.post(requires={"memory_bytes": 4 << 30})
    lab.post()
    with lab.launcher("--memory", "600", "--most-memory", "9000"):
        assert "--mem=600M" in lab.submitted(1)
        lab.looked()
    assert lab.log.read_text().count("cannot submit: ") == 1
    assert "Memory specification can not be satisfied" in lab.log.read_text()


def test_more_jobs_than_an_array_may_have_are_submitted_one_array_after_the_other(lab):
    """As Slurm does without MaxArraySize of its own, the stand-in refuses what is longer."""
    sbatch = lab.directory / "sbatch"
    sbatch.write_text(sbatch.read_text().replace("#!/bin/sh\n", """#!/bin/sh
for word; do case $word in --array=0-*) [ ${word#--array=0-} -le 1000 ] || exit 1;; esac; done
"""))
    lab.post()
    lab.sql("insert into runs (kind, forced, planned_at) select kind, true, clock_timestamp()"
            " from runs, generate_series(1, 1200)")
    with lab.launcher("--most-jobs", "3000"):
        assert "--array=0-999" in lab.submitted(1)
        lab.submitted(2)


@pytest.mark.parametrize("held", ["PENDING|launch failed requeued held", "REQUEUE_HOLD|None"])
def test_a_job_that_slurm_holds_is_cancelled_and_its_run_gets_another(lab, held):
    """As after a failed prolog. The stand-in goes on listing the job."""
    lab.post()
    with lab.launcher("--most-jobs", "1"):
        lab.submitted(1)
        lab.change_jobs("|RUNNING|None", f"|{held}")
        lab.submitted(2)
    assert set(lab.commands("scancel")) == {"scancel 1"}  # without --state=PENDING, which REQUEUE_HOLD is not
    between = (lab.directory / "commands").read_text().split("\nsbatch ")[1]
    assert between.count("\nscancel 1") == 2  # at the look that found it, and at the one that passed
    log, state = lab.log.read_text(), held.replace(" ", "_").replace("|", ", ")
    assert log.count("Slurm holds job 1 ") == 1 and f"Slurm holds job 1 ({state}), so no worker comes of it" in log
    assert "the template of held jobs gets new ones after 1 look\n" in log
    assert "ended without taking a run" not in log and "not needed any more" not in log


def test_only_a_launchers_own_jobs_are_cancelled(lab):
    """Not those of a launcher whose name begins with its own, nor jobs of none of its templates."""
    run = lab.post()
    with lab.launcher():
        own = next(word for word in lab.submitted(1) if word.startswith("--job-name=")).partition("=")[2]
        assert own.startswith("deltaq-") and "-cafe0000-" not in own
        others = [own.replace("deltaq-", "deltaq-2-"), own.replace("deltaq-", f"{own}-"), "deltaq-cafe0000-0"]
        jobs, changed = lab.directory / "jobs", lab.directory / "jobs.new"
        lines = [f"{i}|{i}|{name}|PENDING|Priority\n" for i, name in enumerate([own, *others], 1)]
        changed.write_text("".join(lines))
        changed.rename(jobs)
        assert lab.service.post(f"/v1/runs/{run}/cancel", {}).json["state"] == "cancelled"
        lab.until(lambda: len(lab.commands("scancel")) >= 2)
    assert set(lab.commands("scancel")) == {"scancel --state=PENDING 1"}


def test_a_run_that_needs_more_than_the_usual_job_has_gets_it_by_its_plan(lab):
    """What the smallest plan says, in steps of a GiB."""
    lab.service.stop()
    lab.service.options += ["--memory", "1"]
    lab.service.start()
    body = {"kind": "evaluate", "params": EVALUATION}
    needed = lab.service.post("/v1/runs", {**body, "dry_run": True}).json["memory"]["host"]["peak_bytes"]
    assert needed > 1 << 20
    run = lab.post()
    with lab.launcher("--memory", "1", "--most-memory", "3000"):
        assert "--mem=1024M" in lab.submitted(1)
    planned = lab.sql(f"select memory_wanted, planned_at, planned_seconds from runs where id = '{run}'").split("|")
    assert planned[0] == str(needed) and planned[1] != "" and planned[2] == ""  # of no run before it


def test_a_run_that_needs_more_of_a_device_gets_a_larger_one(lab):
    """By its plan or by what it requires; for more than any template states nothing is submitted."""
    planned, *_ = (lab.post(requires=requires) for requires in (
        {"device": "cuda"}, {"device_memory_bytes": 20 << 30}, {"device_memory_bytes": (20 << 30) + 1}))
    with lab.launcher("--template", "device=cuda,device_memory=1M: --partition=small", "--template",
                      "device=cuda,device_memory=20G: --partition=large"):
        lab.submitted(2)
        lab.looked()
    jobs = (lab.directory / "submitted").read_text()
    assert jobs.count("--partition=large") == 2 and "small" not in jobs
    assert lab.log.read_text().count("no template") == 1 and str((20 << 30) + 1) in lab.log.read_text()
    wanted = lab.sql(f"select device_memory_wanted, memory_wanted from runs where id = '{planned}'").split("|")
    assert int(wanted[0]) > 1 << 20 and wanted[1] == ""


def test_a_job_has_twice_the_time_that_its_device_is_known_to_take(lab):
    """By runs on the device that the template gives."""
    known = {"cpu": 1200, "cuda:0": 7200}
    worker = lab.worker(0, 900)
    for device, seconds in known.items():
        run = lab.post()
        assert lab.service.wait(run)["state"] == "succeeded"
        lab.sql(f"update runs set device = '{device}', usage_seconds = {seconds} where id = '{run}'")
    worker.terminate()
    assert worker.wait(30) == 0
    runs = [lab.post(requires={"device": "cpu"}), lab.post(requires={"device": "cuda"}), lab.post(),
            lab.post(requires={"labels": ["big"]})]
    with lab.launcher("--time-limit", "60", "--runs-each", "9", "--template", ": --partition=plain", "--template",
                      "device=cuda,big: --partition=gpu"):
        lab.until(lambda: lab.sql("select count(*) from runs where state = 'queued' and planned_at is null") == "0")
        lab.submitted(2)
    planned = [lab.sql(f"select round(planned_seconds) from runs where id = '{run}'") for run in runs]
    assert planned == ["1200", "7200", "1200", "7200"]
    jobs = [line.split(" ") for line in (lab.directory / "submitted").read_text().splitlines()]
    times = {(word, option) for words in jobs for word in words for option in words
             if word.startswith("--time=") and option.startswith("--partition=")}
    assert times == {("--time=45", "--partition=plain"), ("--time=245", "--partition=gpu")}
