"""Many connections that ask nothing leave room for those that ask something."""

import contextlib
import pathlib
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


def processor_ticks(process):
    """Hundredths of a second that it has computed."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_no_thread_spins_when_descriptors_run_out(tmp_path):
    """256 of them: a listener without connections of its own would be asked to accept again and again."""
    service = Service(tmp_path, "--workers", "0", "--probes", "127.0.0.1:0", prefix=["prlimit", "--nofile=256"])
    stop = threading.Event()
    floods = [threading.Thread(target=flood, args=(service.port, stop)) for _ in range(2)]
    descriptors = pathlib.Path(f"/proc/{service.process.pid}/fd")
    try:
        for thread in floods:
            thread.start()
        time.sleep(2)
        most, before = 0, processor_ticks(service.process)
        for _ in range(20):
            time.sleep(0.2)
            most = max(most, len(list(descriptors.iterdir())))
        ticks = processor_ticks(service.process) - before
        print(f"{ticks} ticks in 4 s, {most} descriptors")
        assert most < 250 and ticks < 40, "none are left, or a thread spins"
    finally:
        stop.set()
        for thread in floods:
            thread.join()
        service.stop()
