"""The packed description of a job (JobMeta of proto/job.proto), put together from pieces that are packed once: what stays the same from job to job is kept.

A field may stand anywhere in a message, so the pieces follow each other: what is asked, when, and each input. Threads: any; what is kept is only ever added or dropped.
"""
from __future__ import annotations

import time
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from . import tensors
from .schema import JobMeta, TensorDesc
from .tensors import Packed
from .wire import name_hash

_KEPT_MAX, _KEPT_BYTES_MAX = 4096, 1024  # pieces of each kind, and bytes of one; beyond that all are dropped, or it is not kept
_SUBMIT_TIME = b"\xf0\x01"  # tags of JobMeta.submit_unix_us, .inputs and .sequence_after, and of TensorDesc.data and .frame
_INPUT, _AFTER, _DATA, _FRAME = b"\x1a", b"\x69", b"\x32", b"\x28"


def varint(value: int) -> bytes:
    """
    >>> varint(0), varint(300)
    (b'\\x00', b'\\xac\\x02')
    """
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


class Shape(NamedTuple):
    """Inputs of one name, element type and dims."""
    number: int
    size: int      # bytes of the payload
    described: bytes  # TensorDesc without payload
    inline: bytes  # what stands before a payload that rides in the meta


shapes: Dict[Tuple[str, Any, Tuple[int, ...]], Shape] = {}  # those that shape_of() has made
_heads: Dict[Tuple[Any, ...], Head] = {}


def _keep(kept: Dict[Any, Any], key: Any, value: Any) -> None:
    if len(kept) >= _KEPT_MAX:
        kept.clear()
    kept[key] = value


def _described(name: str, number: int, dims: Sequence[int], size: int) -> bytes:
    return bytes(TensorDesc(name=name, dtype=number, dims=dims, bytes=size).SerializeToString())


def _inline(described: bytes, size: int) -> bytes:
    behind = _DATA + varint(size) if size else b""
    return _INPUT + varint(len(described) + len(behind) + size) + described + behind


def shape_of(name: str, array: Any) -> Optional[Shape]:
    """Of an array whose bytes are the wire's when they are in C order; None for others. Raises what tensors.pack() raises."""
    number = tensors.wire_number(array.dtype)
    if not number:
        return None
    tensors.check_input(name, array.shape)
    described = _described(name, number, array.shape, array.nbytes)
    found = Shape(number, array.nbytes, described, _inline(described, array.nbytes))
    _keep(shapes, (name, array.dtype, array.shape), found)
    return found


def framed(described: bytes, frame: int) -> bytes:
    """An input whose payload is the frame-th raw frame."""
    behind = _FRAME + varint(frame)
    return _INPUT + varint(len(described) + len(behind)) + described + behind


def packed_input(tensor: Packed, frame: int) -> bytes:
    """Any input; frame 0: its payload rides here."""
    described = _described(tensor.name, tensor.dtype, tensor.dims, len(tensor.data))
    return framed(described, frame) if frame else _inline(described, len(tensor.data)) + bytes(tensor.data)


class Head(NamedTuple):
    """What is asked of the pool as a whole, and the hashes of the names in it."""
    packed: bytes
    model_hash: int
    tenant_hash: int


def head_of(model: str, tenant: str, version: int, backend: str, label: str, explain: bool, trace: int) -> Head:
    """For a model's checked name."""
    key = (model, tenant, version, backend, label, explain, trace)
    found = _heads.get(key)
    if found is None:
        meta = JobMeta(model=model, tenant=tenant, version=version, backend=backend, version_label=label, explain=explain, trace=trace)
        found = Head(meta.SerializeToString(), name_hash(model), name_hash(tenant) & 0xFFFFFFFF)
        if len(found.packed) <= _KEPT_BYTES_MAX:
            _keep(_heads, key, found)
    return found


_high = (0, b"")


def submit_time() -> bytes:
    """Field submit_unix_us, now. All but the lowest two groups of seven bits stay for 16 ms."""
    global _high
    now = time.time_ns() // 1000
    high, packed = _high
    if now >> 14 != high:
        high, packed = _high = now >> 14, varint(now >> 14)
    return _SUBMIT_TIME + bytes((now & 127 | 128, now >> 7 & 127 | 128)) + packed


def sequence_after(before: int) -> bytes:
    """Field sequence_after, a fixed64."""
    return _AFTER + before.to_bytes(8, "little")
