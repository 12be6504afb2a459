"""Of event streams and of requests that wait one client has half at most (server/http/permits.h)."""

import threading

import pytest
from echo import Events, Server, problem, wait_for_metric


@pytest.fixture
def eight_places():
    running = Server("--token", "--places", "8")
    running.bearer = lambda token: {"Authorization": f"Bearer {token}"}
    yield running
    running.stop()


def test_one_token_has_half_of_the_streams(eight_places):
    def ask(token):
        status, headers, document = eight_places.request("GET", "/v1/events/s-a", headers=eight_places.bearer(token))
        return status, document["code"], "Retry-After" in headers, document["detail"]

    opened = [Events(eight_places, "s-a", token="reader") for _ in range(4)]
    assert all(events.until(b"retry:") for events in opened)
    assert ask("reader") == (429, "too_many", True, "this token (or address, without one) has 4 event streams, half of "
                             "all 8, and may have no more: end one of them or try again later")
    others = [Events(eight_places, "s-a", token="writer") for _ in range(4)]
    assert all(events.until(b"retry:") for events in others), "the other half is for others"
    assert ask("reader")[:3] == (429, "too_many", True)
    assert ask("admin") == (503, "unavailable", True, "there are 8 event streams, which is the most; try again later")
    opened.pop().close()
    wait_for_metric(eight_places, b"deltaq_http_streams 7")
    opened.append(Events(eight_places, "s-a", token="reader"))
    assert opened[-1].until(b"retry:")
    for events in opened + others:
        events.close()


def test_one_token_has_half_of_the_waits(eight_places):
    answers = {"reader": [], "writer": []}

    def ask(token):
        return eight_places.request("GET", "/v1/wait/w-a?wait=60", headers=eight_places.bearer(token), timeout=90)

    def waiting(token):
        threads = [threading.Thread(target=lambda: answers[token].append(ask(token)[0])) for _ in range(4)]
        for thread in threads:
            thread.start()
        return threads

    threads = waiting("reader")
    wait_for_metric(eight_places, b"deltaq_http_waiting 4\n")
    refused = ask("reader")
    problem(refused, 429, "too_many")
    assert refused[1]["Retry-After"] and "has 4 waiting requests, half of all 8" in refused[2]["detail"]
    assert eight_places.request("GET", "/v1/wait/w-a", headers=eight_places.bearer("reader"))[0] == 200, "no wait"
    made = eight_places.request("POST", "/v1/wait/w-a?wait=60", headers=eight_places.bearer("reader"))
    assert made[0] == 200, "what was made is answered as it is"
    threads += waiting("writer")
    wait_for_metric(eight_places, b"deltaq_http_waiting 8\n")
    problem(ask("admin"), 503, "unavailable")
    eight_places.request("POST", "/v1/wake/w-a", headers=eight_places.bearer("writer"))
    for thread in threads:
        thread.join()
    assert answers == {"reader": [200] * 4, "writer": [200] * 4}
    again = "/v1/wait/w-a?wait=1&above=1000"
    assert eight_places.request("GET", again, headers=eight_places.bearer("reader"))[0] == 200, "places are given back"
