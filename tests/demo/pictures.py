#!/usr/bin/env python3
"""The pictures of the README, taken from the demo's running server by a headless Chromium: the dashboard's own export
of the figure, and the page as a visitor sees it. Run the demo first; look at them before they are committed.

    pictures.py [DIRECTORY [OUT]]      (default: build/demo docs/pictures)
"""

import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "dashboard"))

import demo  # noqa: E402
from browser import Browser  # noqa: E402
from experiment import SCALES, Experiment  # noqa: E402
from launch import Server  # noqa: E402

DRAWN = "document.querySelector('#plot .main-svg') !== null && document.querySelector('.loading') === null"


def main():
    directory, out = (pathlib.Path(given or default).resolve() for given, default in
                      zip([*sys.argv[1:], None, None], (ROOT / "build" / "demo", ROOT / "docs" / "pictures")))
    server = Server(directory)
    if not server.find():
        sys.exit(f"pictures: no server of the demo in {directory} is running; run `make demo` first")
    out.mkdir(parents=True, exist_ok=True)
    curves = demo.pages(server, Experiment(None, SCALES["full"]))[0][1]
    with Browser() as browser, browser.page(1280, 1000) as page:
        page.open(curves)
        page.wait(DRAWN)
        # the last curve's points appear one frame after the axes
        page.run("new Promise((done) => setTimeout(done, 1500))")
        page.screenshot(out / "dashboard.png", whole=False)
        page.click("#save-svg")
        shutil.copyfile(page.downloaded(".svg"), out / "delta.svg")
    for file in sorted(out.iterdir()):
        print(f"{file} ({file.stat().st_size / 1024:.0f} KB)")


if __name__ == "__main__":
    main()
