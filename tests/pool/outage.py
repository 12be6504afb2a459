"""A network between workers and their database that a test can cut: a proxy of PostgreSQL's socket."""

import pathlib
import selectors
import socket
import tempfile
import threading
import time


class Network:
    """`conninfo` leads through it. While it is cut bytes go nowhere and nobody is told, as with a dead link.
    `rate`: the bytes a second that it lets through."""

    def __init__(self, conninfo, rate=None):
        self.rate = rate
        words = dict(word.split("=", 1) for word in conninfo.split())
        name = f".s.PGSQL.{words.get('port', '5432')}"
        self.target = str(pathlib.Path(words["host"].strip("'")) / name)
        self.directory = tempfile.TemporaryDirectory(prefix="deltaq-net-")
        words["host"] = self.directory.name
        self.conninfo = " ".join(f"{key}={value}" for key, value in words.items())
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(pathlib.Path(self.directory.name) / name))
        self.listener.listen(64)
        self.cut, self.closed = threading.Event(), False
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        selector, partner = selectors.DefaultSelector(), {}
        selector.register(self.listener, selectors.EVENT_READ)
        while not self.closed:
            ready = selector.select(0.05)
            if self.cut.is_set():
                self.cut.wait()
                threading.Event().wait(0.02)
                continue
            for key, _ in ready:
                if key.fileobj is self.listener:
                    near, far = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
                    try:
                        far.connect(self.target)
                    except OSError:
                        near.close()
                        continue
                    partner[near], partner[far] = far, near
                    selector.register(near, selectors.EVENT_READ)
                    selector.register(far, selectors.EVENT_READ)
                elif key.fileobj in partner:
                    self.pass_on(selector, partner, key.fileobj)

    def pass_on(self, selector, partner, source):
        try:
            data = source.recv(65536)
            if data:
                if self.rate:
                    time.sleep(len(data) / self.rate)
                partner[source].sendall(data)
                return
        except OSError:
            pass
        other = partner.pop(source)
        partner.pop(other, None)
        for end in (source, other):
            selector.unregister(end)
            end.close()

    def close(self):
        self.closed = True
        self.cut.clear()
