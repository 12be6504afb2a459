"""A gate for runs, server/pool/gate.h: holds them in the middle until a test has done there what it came for."""

import contextlib
import os
import time


class Gate:
    def __init__(self, directory):
        directory.mkdir(exist_ok=True)
        self.directory, self.hold_file, self.done = directory, directory / "hold", {}
        self.environment = {"DELTAQ_TEST_GATE": str(directory)}

    def hold(self, kind, done, unit="*", lease=1, also=False):
        """From now on runs of that kind (or the run of that id) are held when `done` units are done; what was held
        elsewhere goes on, unless `also`. `lease`: 1 is the first worker that has the run
        and 2 the next; "*" is each of them."""
        new, line = self.directory / "new", f"{kind} {lease} {unit} {done}\n"
        new.write_text((self.hold_file.read_text() if also else "") + line)
        os.rename(new, self.hold_file)
        self.done = {**(self.done if also else {}), str(lease): done}

    @contextlib.contextmanager
    def holding(self, *place, **more):
        self.hold(*place, **more)
        try:
            yield
        finally:
            self.open()

    def open(self):
        """Holds nothing any more."""
        self.hold_file.unlink(missing_ok=True)

    def reported(self, run, lease=1):
        """What a run that is held had done, or None."""
        try:
            text = (self.directory / f"held-{run}-{lease}").read_text()
        except FileNotFoundError:
            return None
        return int(text) if text.endswith("\n") else None

    def wait(self, run, lease=1, limit=300, watch=lambda: None):
        """Until it is held where hold() says; gives what it had done. `watch` is called meanwhile,
        and raises when that can no longer come about."""
        wanted, end = self.done.get(str(lease), self.done.get("*", 0)), time.monotonic() + limit
        while (done := self.reported(run, lease)) is None or done < wanted:
            watch()
            assert time.monotonic() < end, f"run {run} was never held"
            time.sleep(0.02)
        return done
