"""One browser for all tests, a fresh tab and a fresh world for each."""

import json

import browser as chromium
import contract
import pytest
import stand_in
from stand_in import HOSTILE, PLOTLY

MADE_UP = ("made_up", HOSTILE)  # what tests of unknown names give on purpose


@pytest.fixture(scope="session")
def browser():
    if not chromium.executable():
        pytest.skip("chromium-headless-shell is not installed")
    with chromium.Browser() as running:
        yield running


@pytest.fixture
def world():
    return stand_in.demonstration()


@pytest.fixture
def server(world):
    """Its documents have no field that openapi.yaml does not name, which a page would wait for in vain."""
    running = stand_in.StandIn(world)
    yield running
    running.close()
    own = {field for path, text in set(running.documents) for field in undeclared(path, json.loads(text))}
    own = {field for field in own if not any(name in field for name in MADE_UP)}
    assert not own, own


def undeclared(path, document):
    operation = contract.operation_of("GET", path)
    schema = operation and contract.schema_of(operation, 200, "application/json")
    if not schema:
        return [f"{path} itself"]
    return [f"{contract.template_of(path)}: {field}" for field in contract.undeclared([schema], document)]


@pytest.fixture
def visit(browser, server):
    """visit(hash, width=1280, dark=False) -> a tab that shows it, loaded.
    Nothing may have been complained about at the end."""
    pages = []

    def go(address="#/", width=1280, dark=False, url=None,
           ready="document.querySelector('main h1') && !document.querySelector('.loading')"):
        if "curves" in address and not PLOTLY.is_file():
            pytest.skip("build/static/plotly.js is missing; run `make static`")
        page = browser.page(width, 900, dark)
        page.__enter__()
        page.expected = []
        pages.append(page)
        page.open(f"{url or server.url}/{address}")
        page.wait(ready)
        return page

    yield go
    try:
        for page in pages:
            complaints = [text for text in page.complaints if not any(expected in text for expected in page.expected)]
            assert complaints == []
            assert [url for url in page.requests
                    if not url.startswith(("http://127.0.0.1:", "data:", "blob:", "about:"))] == []
    finally:
        for page in pages:
            page.__exit__(None, None, None)
