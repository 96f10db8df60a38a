"""CURVE keys: 64 hex digits, and the file of `penstock keygen` that only its owner may read."""
from __future__ import annotations

import os
import stat
from typing import NamedTuple, Optional, Tuple, Union

from .errors import CorruptError, DeniedError, InvalidError, IoError

_FILE_BYTES_MAX = 4096


class Keys(NamedTuple):
    """What the connecting side of CURVE needs, 32 bytes each."""
    public: bytes
    secret: bytes
    broker: bytes


def parse_key(text: str) -> bytes:
    """
    >>> len(parse_key("ab" * 32))
    32
    """
    if len(text) != 64 or not all(c in "0123456789abcdefABCDEF" for c in text):
        raise InvalidError(f"a key has 64 hex digits, as `penstock keygen` prints it; this has {len(text)} characters.")
    return bytes.fromhex(text)


def _find(text: str, name: str, path: str) -> bytes:
    for line in text.split("\n"):
        if line.startswith(name):
            rest = line[len(name):].lstrip(" \t")
            if rest.startswith("="):
                try:
                    return parse_key(rest[1:].strip())
                except InvalidError:
                    break
            break
    raise CorruptError(f"{path} holds no key pair: two lines, public = HEX and secret = HEX, that belong together.")


def read_key_file(path: str) -> Tuple[bytes, bytes]:
    """The public and the secret key of a key file. Refuses one that others may read, and a pair that does not belong together."""
    try:
        with open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            data = file.read(_FILE_BYTES_MAX)
    except OSError as error:
        raise IoError(f"cannot read the key file {path}: {error.strerror}; `penstock keygen` makes one.") from None
    if stat.S_ISREG(facts.st_mode) and facts.st_mode & 0o077:
        raise DeniedError(f"others may read the key file {path}; chmod 600 it, and make a new key if somebody may have.")
    if b"\0" in data:
        raise CorruptError(f"a byte of the key file {path} is 0: it is damaged, put the right one back.")
    text = data.decode("utf-8", "replace")
    public, secret = _find(text, "public", path), _find(text, "secret", path)
    if _public_of(secret) not in (public, None):
        raise CorruptError(f"{path} holds no key pair: two lines, public = HEX and secret = HEX, that belong together.")
    return public, secret


def _public_of(secret: bytes) -> Optional[bytes]:
    import zmq
    from zmq.utils import z85
    if not hasattr(zmq, "curve_public"):
        return None
    return z85.decode(zmq.curve_public(z85.encode(secret)))


def read_keys(key: Union[str, "os.PathLike[str]", None], broker_key: Optional[str]) -> Optional[Keys]:
    """key: path of a key file. None when neither is given; one without the other is refused."""
    path = os.fspath(key) if key else ""
    if bool(path) != bool(broker_key):
        raise InvalidError("an encrypted connection needs both: a key file of one's own and the broker's public key.")
    if not path or not broker_key:
        return None
    broker = parse_key(broker_key)
    return Keys(*read_key_file(path), broker)
