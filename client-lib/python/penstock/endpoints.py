"""A list of brokers as people write it, read as the C library reads it (proto/wire/endpoints.h)."""
from __future__ import annotations

import socket
from typing import List, Optional, Tuple

from .errors import InvalidError

_MOST, _LIST_BYTES_MAX, _ONE_BYTES_MAX = 16, 2048, 255


def parse_endpoints(text: str) -> List[str]:
    """Separated by commas; spaces around them and repetitions do not count.

    >>> parse_endpoints("tcp://a:5550, tcp://b:5550,tcp://a:5550")
    ['tcp://a:5550', 'tcp://b:5550']
    """
    if len(text.encode()) > _LIST_BYTES_MAX:
        raise InvalidError(f"a list of brokers has at most {_LIST_BYTES_MAX} bytes.")
    found: List[str] = []
    for entry in (part.strip(" \t") for part in text.split(",")):
        if "://" not in entry or "\0" in entry or len(entry.encode()) > _ONE_BYTES_MAX:
            raise InvalidError(f'broker endpoint "{entry[:60]}" must look like tcp://127.0.0.1:5550 or ipc:///run/penstock; several are separated by commas.')
        port = entry.rpartition(":")[2]
        if entry.lower().startswith("tcp://") and port.isdecimal() and int(port) > 65535:  # ZeroMQ takes what is left of it
            raise InvalidError(f'broker endpoint "{entry}": a port is a number from 1 to 65535.')
        if entry not in found:
            found.append(entry)
    if len(found) > _MOST:
        raise InvalidError(f'a list of brokers has at most {_MOST} entries; "{found[_MOST]}" is beyond.')
    return found


def _split(endpoint: str) -> Optional[Tuple[str, int]]:
    host, colon, port = endpoint[6:].rpartition(":")
    if not endpoint.startswith("tcp://") or not colon or not host or not port.isdigit() or set(host) & set("[*;/"):
        return None
    return None if all(c in "0123456789." for c in host) else (host, int(port))


def resolve_endpoints(endpoints: List[str]) -> List[str]:
    """A tcp:// name with several addresses counts as all of them; the names themselves stay behind them. Asks the resolver, which may take seconds."""
    found: List[str] = []
    for endpoint in endpoints:
        parts, addresses = _split(endpoint), []
        if parts:
            try:
                addresses = [entry[4][0] for entry in socket.getaddrinfo(parts[0], None, socket.AF_INET, socket.SOCK_STREAM)]
            except OSError:
                pass  # ZeroMQ asks again when it connects
        several = len(addresses) > 1 and parts is not None
        found += [f"tcp://{address}:{parts[1]}" for address in addresses] if several and parts else [endpoint]
    return list(dict.fromkeys(found + endpoints))[:_MOST]
