"""Requests that compute: they hold up nobody else, and end when their client has left."""

import http.client
import json
import socket
import time

import models
import pytest


@pytest.fixture(scope="module")
def wordy(service):
    """A tokenizer with 100,000 added tokens that all begin alike."""
    tokenizer = models.byte_tokenizer()
    tokenizer["added_tokens"] = [{"id": 256 + i, "content": f"<{'a' * (i % 40)}{i}>", "special": True}
                                 for i in range(100_000)]
    path = service.files / "wordy.json"
    path.write_text(json.dumps(tokenizer))
    return path


def post(service, body):
    text = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", service.port))
    connection.sendall(b"POST /v1/tokenize HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % (service.port, len(text)))
    connection.sendall(text)
    return connection


def test_added_tokens_are_found_whatever_their_number(service, wordy):
    text = "x<aaa3>y<" + "a" * 50 + "<a1><a41>"
    ids = service.post("/v1/tokenize", {"tokenizer": {"path": wordy.name}, "texts": [text]}).json["ids"][0]
    assert ids == [ord("x"), 256 + 3, ord("y"), ord("<"), *[ord("a")] * 50, 256 + 1, 256 + 41]


def test_work_for_clients_that_have_left_ends_and_holds_up_nobody(service, wordy):
    """Four texts of 13 MB, in which an added token seems to begin at every word."""
    heavy = [post(service, {"tokenizer": {"path": wordy.name}, "texts": ["<aaaaaaaaaaa " * 1_050_000]})
             for _ in range(4)]
    began = time.monotonic()
    for path in ("/readyz", "/v1/runs", "/v1/datasets"):
        assert service.get(path).status == 200
    assert time.monotonic() - began < 10, "requests that compute held up others"
    for connection in heavy:
        connection.close()
    answer = service.post("/v1/tokenize", {"tokenizer": {"path": wordy.name}, "texts": ["a"]})
    assert answer.status == 200 and time.monotonic() - began < 20, "work for clients that have left went on"
