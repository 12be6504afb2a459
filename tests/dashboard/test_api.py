"""The page of the API: Swagger UI over openapi.yaml, under the server's own policy, and a request that is tried."""

import json

import pytest
from looks import APART, CONTRAST, keep_picture
from stand_in import PLOTLY

SWAGGER = PLOTLY.with_name("swagger-ui.js")
READY = "document.querySelectorAll('.swagger-ui .opblock').length > 40"
TRAJECTORIES = "#operations-checkpoints-listTrajectories"
ANSWER = f"document.querySelector('{TRAJECTORIES} .live-responses-table tbody .response-col_%s')?.innerText.trim()"

needs_swagger = pytest.mark.skipif(not SWAGGER.is_file(), reason="build/static/swagger-ui.js is missing: make static")


def tried(page):
    """The status and the body of GET /v1/trajectories, tried as a reader would."""
    page.wait(READY)
    page.click(f"{TRAJECTORIES} .opblock-summary-control")
    # Only when it has read the operation, some time after the button is there, can Swagger UI send it.
    page.wait(f"document.querySelector('{TRAJECTORIES} .parameters tbody tr') !== null")
    page.click(f"{TRAJECTORIES} .btn.execute")
    return page.wait(ANSWER % "status"), page.run(ANSWER % "description")


@needs_swagger
def test_a_request_is_tried_with_the_token_of_the_reader(world, server, visit):
    world.token = "the-reader's-own"
    page = visit("#/api")
    page.expected = ["401"]
    assert tried(page)[0].startswith("401")
    page.run("sessionStorage.setItem('deltaq-token', " + json.dumps(world.token) + ")")
    page.run("location.reload()")
    status, body = tried(page)
    assert status.startswith("200") and "decay-3M" in body
    assert f"{server.url}/v1/trajectories" in page.run(f"document.querySelector('{TRAJECTORIES}').innerText")
    assert ("GET", "/v1/trajectories") in [(method, path.split("?")[0]) for method, path in world.requests]


@needs_swagger
def test_the_page_fits_wide_and_narrow(visit):
    page = visit("#/api")
    page.wait(READY)
    assert page.run("document.querySelector('nav a[aria-current=page]').innerText") == "API"
    for width in (1280, 400):
        page.size = (width, 900)
        page.resize(*page.size)
        for dark in (False, True):
            page.scheme(dark)
            page.wait(f"innerWidth === {width} && document.documentElement.scrollWidth <= {width}")
            assert page.run(APART)
            assert page.run(CONTRAST) == []
            keep_picture(page, f"api-{'dark' if dark else 'light'}-{width}")


def test_without_swagger_ui_the_page_says_so_and_gives_the_description(world, visit):
    world.missing.add("swagger-ui.js")
    page = visit("#/api")
    page.expected = ["404", "swagger-ui.js"]
    words = page.wait("document.querySelector('#no-swagger')?.innerText")
    assert "make static" in words
    assert page.run("fetch(document.querySelector('#description').getAttribute('href')).then(one => one.text())"
                    ".then(text => text.startsWith('openapi: 3.1'))")
