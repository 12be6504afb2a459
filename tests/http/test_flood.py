"""Many connections that ask nothing leave room for those that ask something."""

import contextlib
import socket
import threading
import time

from service import Service


def flood(port, stop):
    """700 new connections with half a head, again and again."""
    while not stop.is_set():
        held = []
        for _ in range(700):
            with contextlib.suppress(OSError):
                connection = socket.create_connection(("127.0.0.1", port), timeout=1)
                connection.sendall(b"GET /v1/runs HTTP/1.1\r\nHost: loc")
                held.append(connection)
        stop.wait(1.4)
        for connection in held:
            connection.close()


def test_half_open_connections_leave_room_for_requests(tmp_path):
    """At the limit of 1,024 connections new ones would wait for the 5 s that a head may take."""
    service = Service(tmp_path, "--workers", "0")
    stop = threading.Event()
    floods = [threading.Thread(target=flood, args=(service.port, stop)) for _ in range(2)]
    try:
        for thread in floods:
            thread.start()
        time.sleep(2)
        seconds = []
        for _ in range(20):
            began = time.monotonic()
            assert service.get("/v1/runs").status == 200
            seconds.append(time.monotonic() - began)
        seconds.sort()
        print(f"median {seconds[10]:.2f} s, slowest {seconds[-1]:.2f} s")
        assert seconds[-1] < 2
    finally:
        stop.set()
        for thread in floods:
            thread.join()
        service.stop()
