"""What a run of the tests leaves in memory when it is killed: the next one removes it."""

import os
import pathlib
import signal
import subprocess
import sys
import time

RUN = pathlib.Path(__file__).resolve().parents[1] / "run.py"


def begin(tmp_path, suite):
    """A run of one suite whose folder is below `tmp_path`: there is no other memory than that."""
    code = f"import run, sys; run.MEMORY = {str(tmp_path)!r}; run.MEMORY_BYTES = 0; sys.exit(run.main())"
    return subprocess.Popen([sys.executable, "-c", code, suite], cwd=RUN.parent, start_new_session=True,
                            stdout=subprocess.DEVNULL)


def test_the_folder_of_a_killed_run_goes_and_that_of_a_living_one_stays(tmp_path):
    killed, living = begin(tmp_path, "long=sleep 60"), begin(tmp_path, "long=sleep 60")
    while len(list(tmp_path.glob("*/in-use"))) < 2:
        time.sleep(0.05)
    (folder,) = (f for f in tmp_path.iterdir() if str(f / "in-use") in open_files(killed.pid))
    try:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        assert folder.exists()
        assert begin(tmp_path, "short=true").wait() == 0
        (left,) = tmp_path.iterdir()
        assert left != folder and living.poll() is None
    finally:
        os.killpg(living.pid, signal.SIGKILL)
        living.wait()


def open_files(process):
    return [os.readlink(link) for link in pathlib.Path(f"/proc/{process}/fd").iterdir()]
