"""What all tests of pages look at: figures that are drawn, their traces, and whether a page fits and can be read."""

import json
import os
import pathlib

DRAWN = "Boolean(document.querySelector('#plot .main-svg') && document.querySelector('#plot').data)"
THREE = "#/curves?trajectory=constant&trajectory=decay-1M&trajectory=decay-3M"
CURVES = "document.querySelector('#plot').data.filter(trace => trace.meta.kind === %s)"


def traces(page, kind):
    return page.run(CURVES % json.dumps(kind)
                    + ".map(({name, x, y, yaxis, line, text, marker}) => ({name, x, y, yaxis, line, text, marker}))")


def check_looks(page, name):
    """At both widths, light and dark: nothing runs over, nothing is unreadable, and the heading's parts keep apart.
    Keeps pictures below DELTAQ_SCREENSHOTS where that is set."""
    for width in (1280, 400):
        page.size = (width, 900)
        page.resize(*page.size)
        for dark in (False, True):
            page.scheme(dark)
            page.wait(f"(Number(getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/)[0]) < 60) "
                      f"=== {json.dumps(dark)}")
            page.wait(ALL_DRAWN)
            assert page.run("document.documentElement.scrollWidth") <= width
            assert page.run(CONTRAST) == []
            assert page.run(APART)
            keep_picture(page, f"{name}-{'dark' if dark else 'light'}-{width}")


def keep_picture(page, name):
    if os.environ.get("DELTAQ_SCREENSHOTS"):
        page.screenshot(pathlib.Path(os.environ["DELTAQ_SCREENSHOTS"]) / f"{name}.png")


# No two words of the heading lie on each other, and none outside of the page.
APART = """(() => {
  const nodes = [...document.querySelectorAll('.top nav a, .top button, .brand')];
  const boxes = nodes.map(node => node.getBoundingClientRect());
  const meet = (a, b) =>
    a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5;
  return boxes.every(box => box.left >= 0 && box.right <= document.documentElement.clientWidth) &&
    boxes.every((box, place) => boxes.slice(place + 1).every(other => !meet(box, other))); })()"""
# Every figure has the colours and the width of the page.
ALL_DRAWN = """[...document.querySelectorAll('.js-plotly-plot')].every(plot => {
  const paper = getComputedStyle(plot.querySelector('.main-svg')).backgroundColor;
  const panel = getComputedStyle(plot.closest('.panel')).backgroundColor;
  return paper === panel && Math.abs(plot._fullLayout.width - plot.clientWidth) <= 1; })"""
# Texts whose contrast with what is behind them is below WCAG's 4.5 (3 for large ones).
CONTRAST = """(() => {
  const parse = (colour) => { const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number); return {r, g, b, a}; };
  const light = ({r, g, b}) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const found = parse(getComputedStyle(node).backgroundColor);
      if (found.a > 0.5) return found;
    }
    return parse('rgb(255,255,255)');
  };
  const weak = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.getClientRects().length || node.closest('.unseen, .skip, option')) continue;
    const style = getComputedStyle(node), inSvg = node.closest('svg');
    const front = parse(inSvg ? style.fill : style.color), back = behind(node);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a), ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 600);
    if (ratio < (large ? 3 : 4.5)) weak.push(`${node.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return weak;
})()"""
