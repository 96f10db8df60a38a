"""Loopback ports for servers that tests start, as port_free() of pool.c gives them: below those that the system gives to connections, and to one test alone.

A port that was asked of the system (bind to 0) is given to the next connection as soon as it is closed: a server that starts a moment later may not get it.
"""
import os
import socket
import time
from pathlib import Path

PORTS = 12000
claims = []  # names of sockets that nobody calls: while this process lives no other test is given the port
count = [os.getpid() * 37 + time.time_ns() // 1000 % 997]


def given_from():
    """The first of the ports that the system gives to whoever asks for any."""
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        first = 32768
    return first if first > PORTS + 1024 else 32768


def claimed(port):
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0penstock-test-port-{port}")
    except OSError:
        claim.close()
        return False
    claims.append(claim)
    return True


def bindable(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port():
    first = given_from() - PORTS
    for _ in range(PORTS):
        port = first + count[0] % PORTS
        count[0] += 1
        if claimed(port) and bindable(port):
            return port
    raise SystemExit(f"no free loopback port from {first} to {first + PORTS - 1}")


def free_ports(number):
    return [free_port() for _ in range(number)]
