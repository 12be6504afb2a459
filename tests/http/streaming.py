"""A client of server-sent events: reads as many as a test wants, as fast as it wants."""

import itertools
import json
import socket
import time


class Stream:
    """One connection. `last` is what a browser would send as Last-Event-ID when it comes again."""

    def __init__(self, port, path, last=None, limit=60, token=None):
        self.last, self.text, self.head, self.end = last, "", None, time.monotonic() + limit
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=limit)
        extra = f"Last-Event-ID: {last}\r\n" if last is not None else ""
        extra += f"Authorization: Bearer {token}\r\n" if token is not None else ""
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{extra}\r\n"
        self.socket.sendall(request.encode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def more(self):
        """Whether something more was read; False at the end of the stream."""
        self.socket.settimeout(max(0.01, self.end - time.monotonic()))
        try:
            piece = self.socket.recv(65536)
        except ConnectionResetError:
            return False
        self.text += piece.decode()
        return piece != b""

    def pieces(self):
        """The body, without its chunks."""
        while "\r\n\r\n" not in self.text:
            assert self.more(), self.text
        self.head, _, self.text = self.text.partition("\r\n\r\n")
        assert " 200 " in self.head and "text/event-stream" in self.head, self.head + self.text
        chunked = "chunked" in self.head.lower()
        while True:
            size, line, rest = self.text.partition("\r\n")
            if not chunked:
                yield self.text
                self.text = ""
            elif line and len(rest.encode()) >= int(size, 16) + 2:
                if int(size, 16) == 0:
                    return
                raw = rest.encode()
                self.text = raw[int(size, 16) + 2 :].decode()
                yield raw[: int(size, 16)].decode()
                continue
            if not self.more():
                return

    def events(self):
        """(id, kind, data) until the stream ends; a block with an id alone only moves `last`."""
        body = ""
        for piece in self.pieces():
            body += piece
            while "\n\n" in body:
                block, _, body = body.partition("\n\n")
                fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
                if "id" in fields:
                    self.last = int(fields["id"])
                if "event" in fields:
                    yield self.last, fields["event"], json.loads(fields["data"])

    def up_to(self, count):
        """So many events, or as many as there are until the stream ends."""
        return list(itertools.islice(self.events(), count))

    def take(self, count):
        found = self.up_to(count)
        assert len(found) == count, found
        return found

    def until(self, wanted):
        """All events up to the first for which wanted(kind, data) is true, that one too."""
        found = []
        for event in self.events():
            found.append(event)
            if wanted(*event[1:]):
                return found
        raise AssertionError(found)
