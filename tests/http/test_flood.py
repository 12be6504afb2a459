"""Many connections that ask nothing leave room for those that ask something."""

import contextlib
import http.client
import pathlib
import socket
import threading
import time

from ports import free_port
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


def ask_probes(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


def flood_of_probes(port, stop, codes):
    """200 kept connections that ask the main address for /readyz at once, again and again."""
    request = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port

    def connect():
        return socket.create_connection(("127.0.0.1", port), timeout=60)

    clients = [connect() for _ in range(200)]
    while not stop.is_set():
        for client in clients:
            with contextlib.suppress(OSError):  # closed: told by the empty answer
                client.sendall(request)
        for i, client in enumerate(clients):
            answer = client.recv(8192)
            if answer:
                codes.add(int(answer.split()[1]))
            else:  # on a slow machine a connection waits for its turn so long that the server closes it
                client.close()
                clients[i] = connect()
    for client in clients:
        client.close()


def test_the_listener_for_probes_answers_while_others_flood_probes_of_the_main_address(tmp_path):
    """Both had one thread and one queue of 32, so the listener for probes said that it was too busy."""
    probes = free_port()
    service = Service(tmp_path, "--workers", "0", "--probes", f"127.0.0.1:{probes}")
    stop, codes = threading.Event(), set()
    flood = threading.Thread(target=flood_of_probes, args=(service.port, stop, codes))
    try:
        flood.start()
        while 503 not in codes:  # their queue is full
            assert flood.is_alive()
            time.sleep(0.01)
        assert [ask_probes(probes, path) for path in ("/readyz", "/metrics") * 30] == [200] * 60
    finally:
        stop.set()
        flood.join()
        service.stop()
