"""examples/wandb_sync.py, killed behind one of its steps: `wandb_killed.py STEP COUNT ARGUMENT…` kills itself (SIGKILL)
after the COUNT-th call of STEP: log (a point is given to W&B), keep (how far it came was kept), move (a run took its
place). Ends with status 0 where there are fewer. Run by build/trackers/bin/python."""

import importlib.util
import os
import pathlib
import signal
import sys

import wandb

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load():
    specification = importlib.util.spec_from_file_location("wandb_sync", ROOT / "examples" / "wandb_sync.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def killed_behind(owner, name, count):
    original, calls = getattr(owner, name), iter(range(count, 0, -1))

    def counted(*arguments, **more):
        result = original(*arguments, **more)
        if next(calls, 0) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, counted)


def main():
    step, count = sys.argv[1], int(sys.argv[2])
    script = load()
    killed_behind(*{"log": (wandb.Run, "log"), "keep": (script.Ledger, "keep"), "move": (pathlib.Path, "rename")}[step],
                  count)
    sys.argv[1:] = sys.argv[3:]
    script.main()


if __name__ == "__main__":
    main()
