"""Ports of 127.0.0.1 that were free when they were asked for, for programs that must be told theirs."""

import contextlib
import socket


def free_ports(count):
    """Different ones, because each is held until all are found."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def free_port():
    return free_ports(1)[0]
