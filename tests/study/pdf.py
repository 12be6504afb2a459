"""The figures of a report as PDF, each beside its SVG and of its size, printed by the browser of the dashboard's tests
where there is one. Standard library only."""

import base64
import pathlib
import sys
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "dashboard"))

import browser as chromium  # noqa: E402

INCH = 96  # CSS pixels
PAGE = "<!doctype html><style>body { margin: 0 } svg { display: block }</style>"


def printed(page, svg):
    """The bytes of a PDF of one page, as large as the figure."""
    root = xml.etree.ElementTree.fromstring(svg)
    width, height = (float(root.get(name)) for name in ("width", "height"))
    tree = page.call("Page.getFrameTree")["frameTree"]
    page.call("Page.setDocumentContent", frameId=tree["frame"]["id"], html=PAGE + svg)
    margins = dict.fromkeys(("marginTop", "marginBottom", "marginLeft", "marginRight"), 0)
    # A pixel more, for a page that is rounded down would need a second one.
    size = {"paperWidth": width / INCH, "paperHeight": (height + 1) / INCH}
    return base64.b64decode(page.call("Page.printToPDF", printBackground=True, **size, **margins)["data"])


def write(directory):
    """Gives what became of it in words: a report is whole without."""
    figures = sorted(directory.glob("*.svg"))
    for old in directory.glob("*.pdf"):
        old.unlink()
    if chromium.executable() is None:
        return "Its figures are SVG alone: there is no chromium-headless-shell, which would print them as PDF."
    try:
        with chromium.Browser() as browser, browser.page() as page:
            for file in figures:
                file.with_suffix(".pdf").write_bytes(printed(page, file.read_text(encoding="utf-8")))
    except (chromium.Failure, OSError) as failure:
        return f"Its figures are SVG: the browser printed them as PDF only in part ({failure})."
    return f"Its {len(figures)} figures are there as SVG and as PDF."
