"""The envelope of every message, and the request digest. The contract: proto/PROTOCOL.md."""
from __future__ import annotations

import hashlib
import math
import struct
from typing import Any, Iterable, NamedTuple, Optional, Sequence, Tuple

import xxhash

MAJOR, MINOR = 1, 3
ENVELOPE = struct.Struct("<2s4BHQQ16sQQQI4BII")
ENVELOPE_BYTES = 80
META_BYTES_MAX = 64 * 1024
CONTROL_BYTES_MAX = 4 * 1024 * 1024
PACK_BYTES_MAX = 256 * 1024
INLINE_BYTES = 2048
TENSORS_MAX = PARAMETERS_MAX = 64
TAGS_MAX = 16
NAME_BYTES_MAX = 255
CHUNK_BYTES = 128 * 1024
WINDOW_BYTES = 1024 * 1024

CLIENT_HELLO, SUBMIT, CANCEL, ACK, CONTROL, GOODBYE, RESULT, CONTROL_REPLY, WELCOME, PING, PONG = range(1, 12)
DRAIN, RESUME, ATTACH, CHUNK, CREDIT, PACK, NOTICE, NEIGHBOUR, HANDED = range(15, 24)  # this client takes no PACK and asks for no NOTICE, so it never gets one; the last two travel between brokers
_TYPES = 24
_NAME_JOBS = frozenset((SUBMIT, CANCEL, RESULT, CHUNK, CREDIT, NOTICE, HANDED))
_CARRY_DATA = frozenset((SUBMIT, RESULT, CHUNK))
_LONG_METAS = frozenset((CLIENT_HELLO, CONTROL, CONTROL_REPLY, WELCOME, 12, 13))

FLAG_PARTIAL, FLAG_DIGEST_FIRST, FLAG_NO_CACHE, FLAG_RESENT, FLAG_DIGEST_SHA256, FLAG_DIGEST = 1, 2, 4, 8, 16, 32
FLAG_DETACHED, FLAG_FETCH, FLAG_SEQUENCE_START, FLAG_SEQUENCE_END = 64, 128, 1 << 12, 1 << 13

PRECISIONS = ("any", "f32", "f16_storage", "f16_mma", "f16_math", "bf16", "int8")
XXH3, SHA256 = 0, 1
INTERNAL, STATUSES = 19, 20
NO_DIGEST = bytes(16)
_OURS = b"PK"


class WireError(Exception):
    """A message that is none. `status` is a status number."""

    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status = status


class Envelope(NamedTuple):
    """Host form of the 80 bytes. sequence_id is the offset of CHUNK and CREDIT."""
    minor: int
    type: int
    flags: int
    client: int
    sequence: int
    digest: bytes
    model_hash: int
    sequence_id: int
    deadline_us: int
    tenant_hash: int
    priority: int
    precision: int
    status: int
    status_told: int
    frames: int
    meta_at: int
    transfer: int


_CORRUPT, _TOO_LARGE, _UNSUPPORTED, _VERSION = 12, 5, 9, 13


def encode(kind: int, client: int = 0, sequence: int = 0, *, flags: int = 0, digest: bytes = NO_DIGEST, model_hash: int = 0, sequence_id: int = 0,
           deadline_us: int = 0, tenant_hash: int = 0, priority: int = 0, precision: int = 0, status: int = 0, frames: int = 0, meta: bytes = b"",
           transfer: int = 0) -> bytes:
    """A header frame: the envelope with its meta behind it."""
    return ENVELOPE.pack(_OURS, MAJOR, MINOR, kind, ENVELOPE_BYTES, flags, client, sequence, digest, model_hash, sequence_id, deadline_us, tenant_hash,
                         priority, precision, status, frames, len(meta), transfer) + meta


_pack_envelope, _unpack_envelope, _new_tuple = ENVELOPE.pack, ENVELOPE.unpack_from, tuple.__new__


def encode_submit(job: Any, flags: int, deadline_us: int, transfer: int) -> bytes:
    """The header frame of a job: encode() without its names, which cost as much as the packing."""
    meta: bytes = job.meta
    header: bytes = _pack_envelope(_OURS, MAJOR, MINOR, SUBMIT, ENVELOPE_BYTES, flags, job.client, job.sequence, job.digest, job.model_hash, job.sequence_id, deadline_us,
                                   job.tenant_hash, job.priority, job.precision, 0, len(job.frames), len(meta), transfer)
    return header + meta


def _check_layout(frame: bytes) -> None:
    size = len(frame)
    if size < 4 or frame[:2] != _OURS:
        raise WireError(_CORRUPT, f"a frame of {size} bytes does not begin with a Penstock envelope (no 'PK' at its start).")
    if frame[2] != MAJOR:
        raise WireError(_VERSION, f"the peer speaks protocol {frame[2]}.{frame[3]} and this side {MAJOR}.{MINOR}: only equal major versions understand each "
                                  "other; update the older one.")
    if size < ENVELOPE_BYTES:
        raise WireError(_CORRUPT, f"the header frame has {size} bytes, its envelope alone needs {ENVELOPE_BYTES}.")
    if frame[5] < ENVELOPE_BYTES or (frame[5] > ENVELOPE_BYTES and frame[3] <= MINOR):
        raise WireError(_CORRUPT, f"the envelope claims {frame[5]} bytes, version {MAJOR}.{frame[3]} has {ENVELOPE_BYTES}.")


def _unknown(minor: int, what: str, value: int) -> WireError:
    if minor > MINOR:
        return WireError(_UNSUPPORTED, f"protocol {MAJOR}.{minor} has {what} {value}, which this side ({MAJOR}.{MINOR}) does not know: skip it.")
    return WireError(_CORRUPT, f"the envelope has the unknown {what} {value}.")


def decode(frame: bytes) -> Envelope:
    """The envelope of a header frame; WireError says what is wrong with it."""
    if len(frame) < ENVELOPE_BYTES or frame[:3] != b"PK\x01" or frame[5] != ENVELOPE_BYTES:
        _check_layout(frame)
    (_, _, minor, kind, header_bytes, flags, client, sequence, digest, model_hash, sequence_id, deadline_us, tenant_hash, priority, precision, told, frames,
     meta_bytes, transfer) = _unpack_envelope(frame)
    if not 0 < kind < _TYPES:
        raise _unknown(minor, "message type", kind)
    if precision >= len(PRECISIONS):
        raise _unknown(minor, "precision class", precision)
    if kind in _NAME_JOBS and (not client or not sequence):
        raise WireError(_CORRUPT, "the message needs a job id: client and sequence must not be 0.")
    if frames and kind not in _CARRY_DATA:
        raise WireError(_CORRUPT, f"a message of type {kind} carries no tensors, but announces {frames} raw frames.")
    if len(frame) - header_bytes != meta_bytes:
        raise WireError(_CORRUPT, f"the header frame has {len(frame)} bytes, but envelope and meta fill {header_bytes + meta_bytes}.")
    if frames > TENSORS_MAX:
        raise WireError(_TOO_LARGE, f"the message announces {frames} raw frames, at most {TENSORS_MAX} are allowed.")
    if meta_bytes > META_BYTES_MAX and not (kind in _LONG_METAS and meta_bytes <= CONTROL_BYTES_MAX or kind == PACK and meta_bytes <= PACK_BYTES_MAX):
        raise WireError(_TOO_LARGE, f"the message has a meta of {meta_bytes} bytes, more than are allowed.")
    return _new_tuple(Envelope, (minor, kind, flags, client, sequence, digest, model_hash, sequence_id, deadline_us, tenant_hash, priority, precision,
                                 told if told < STATUSES else INTERNAL, told, frames, header_bytes, transfer if minor else 0))


def name_hash(name: str) -> int:
    """XXH3-64 with seed 0; an empty name is 0.

    >>> hex(name_hash("digits"))
    '0x763db670658ef41e'
    """
    return xxhash.xxh3_64_intdigest(name.encode()) if name else 0


def job_id_text(client: int, sequence: int) -> str:
    """
    >>> job_id_text(0x123456789abcdef, 7)
    '0123456789abcdef-7'
    """
    return f"{client:016x}-{sequence}"


def job_id_valid(text: str) -> bool:
    """
    >>> job_id_valid("0123456789abcdef-7"), job_id_valid("0123456789abcdef-07"), job_id_valid("7")
    (True, False, False)
    """
    client, dash, sequence = text.partition("-")
    hexes = len(client) == 16 and all(c in "0123456789abcdef" for c in client) and client.strip("0") != ""
    return bool(dash) and hexes and sequence.isascii() and sequence.isdigit() and sequence[0] != "0" and int(sequence) < 1 << 64


def _number_text(number: float) -> str:
    if math.isnan(number):
        return "d:nan"
    if math.isinf(number):
        return "d:inf" if number > 0 else "d:-inf"
    digits, exponent = number.hex().split("p")
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".") if number else digits.split(".")[0]
    return f"d:{digits}p{exponent}"


def parameter_text(value: Any) -> bytes:
    """The one spelling of a parameter's value: bool, int, float, text, or None for a parameter without a value.

    >>> parameter_text(3.0), parameter_text(-5), parameter_text(True), parameter_text("fast"), parameter_text(-0.0)
    (b'd:0x1.8p+1', b'i:-5', b'b:1', b's:fast', b'd:-0x0p+0')
    """
    if isinstance(value, bool):
        return b"b:1" if value else b"b:0"
    if isinstance(value, int):
        return b"i:%d" % value
    if isinstance(value, float):
        return _number_text(value).encode()
    return b"s:" + (value or "").encode()


class DigestTensor(NamedTuple):
    """An input as the digest sees it."""
    name: str
    dtype: int
    dims: Sequence[int]
    data: Any  # bytes or a contiguous buffer of bytes


_U64 = struct.Struct("<Q").pack


def _text(value: bytes) -> bytes:
    return _U64(len(value)) + value


def request_digest(kind: int, inputs: Iterable[DigestTensor], outputs: Iterable[str] = (), parameters: Iterable[Tuple[str, Any]] = (), top_k: int = 0) -> bytes:
    """16 bytes that say what is asked: equal requests have equal digests."""
    stream: Any = xxhash.xxh3_128() if kind == XXH3 else hashlib.sha256()
    ordered = sorted(((tensor.name.encode(), tensor) for tensor in inputs), key=lambda pair: pair[0])
    head = b"penstock-request-1" + _U64(len(ordered))
    for name, tensor in ordered:
        dims = [d & 0xFFFFFFFFFFFFFFFF for d in tensor.dims]
        stream.update(head + _text(name) + struct.pack(f"<{len(dims) + 3}Q", tensor.dtype, len(dims), *dims, len(tensor.data)))
        stream.update(tensor.data)
        head = b""
    names = sorted(name.encode() for name in outputs)
    pairs = sorted((name.encode(), parameter_text(value)) for name, value in parameters)
    tail = head + _U64(len(names)) + b"".join(map(_text, names)) + _U64(len(pairs)) + b"".join(_text(name) + _text(value) for name, value in pairs)
    stream.update(tail + _U64(top_k) if top_k else tail)
    return bytes(stream.digest()[:16])


def texts_have_nul(message: Any) -> Optional[str]:
    """The name of a text field with a NUL byte, anywhere in the message; None: all are good."""
    for field, value in message.ListFields():
        repeated = hasattr(value, "__len__") and not isinstance(value, (str, bytes))
        if field.type == field.TYPE_STRING:
            if any("\0" in text for text in (value if repeated else (value,))):
                return str(field.name)
        elif field.type == field.TYPE_MESSAGE:
            for part in (value if repeated else (value,)):
                found = texts_have_nul(part)
                if found:
                    return found
    return None
