"""A job: the request, packed once, and where it stands. Only session.py changes its state."""
from __future__ import annotations

import hashlib
import math
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import tensors, wire
from .errors import InvalidError, TooLargeError
from .results import Result
from .schema import JobMeta, Parameter, TensorDesc

WAITS, SENT, HELD, ENDED = range(4)
SECRET_BYTES_MAX = 128
TOP_K_MAX = 1000
_AFTER_BYTES = 9

ParameterValue = Union[str, int, float, bool, None]


class Job:
    """One request of this client. `notify` is called once, without the client's lock, when it has ended."""
    __slots__ = ("client", "sequence", "meta", "frames", "payload_bytes", "inputs", "outputs", "parameters", "top_k", "digest", "digest_kind", "model_hash",
                 "tenant_hash", "sequence_id", "priority", "precision", "flags", "labelled", "deadline", "submitted", "state", "sends", "cancelled",
                 "cancel_unsent", "result", "notify", "hashes", "waiter", "done")

    def __init__(self) -> None:
        self.client = self.sequence = 0
        self.meta = b""
        self.frames: List[Any] = []
        self.payload_bytes = 0
        self.inputs: Sequence[tensors.Packed] = ()
        self.outputs: Sequence[str] = ()
        self.parameters: Sequence[Tuple[str, ParameterValue]] = ()
        self.top_k = self.model_hash = self.tenant_hash = self.sequence_id = self.priority = self.precision = self.flags = 0
        self.digest = wire.NO_DIGEST
        self.digest_kind = -1
        self.labelled = self.cancelled = self.cancel_unsent = self.hashes = self.done = False
        self.deadline = math.inf
        self.submitted = 0.0
        self.state = WAITS
        self.sends = 0
        self.result: Optional[Result] = None
        self.notify: Optional[Callable[[Job], None]] = None
        self.waiter: Any = None

    @property
    def id(self) -> str:
        return wire.job_id_text(self.client, self.sequence)

    def hash_with(self, kind: int) -> None:
        """Computes the request digest, if the job has one and it is of another kind."""
        if self.hashes and kind != self.digest_kind:
            self.digest = wire.request_digest(kind, self.inputs, self.outputs, self.parameters, self.top_k)  # type: ignore[arg-type]
            self.digest_kind = kind
            self.flags = (self.flags & ~wire.FLAG_DIGEST_SHA256) | wire.FLAG_DIGEST | (wire.FLAG_DIGEST_SHA256 if kind == wire.SHA256 else 0)

    def follow(self, before: int) -> None:
        """Says which job comes before it in its sequence (JobMeta.sequence_after, a fixed64)."""
        if before:
            self.meta += b"\x69" + before.to_bytes(8, "little")


def _check_texts(what: str, texts: Sequence[str], most: int) -> None:
    if isinstance(texts, (str, bytes)):
        raise InvalidError(f"{what} is one text; give a list of them.")
    if len(texts) > most:
        raise TooLargeError(f"a job has {len(texts)} {what}; at most {most} are allowed.")
    for text in texts:
        if not isinstance(text, str) or not 1 <= len(text.encode()) <= wire.NAME_BYTES_MAX:
            raise InvalidError(f"each of {what} needs a name of 1 to {wire.NAME_BYTES_MAX} bytes.")


def _parameter(name: str, value: ParameterValue) -> Any:
    message = Parameter(name=name)
    if isinstance(value, bool):
        message.flag = value
    elif isinstance(value, int):
        if not -1 << 63 <= value < 1 << 63:
            raise InvalidError(f'parameter "{name}" does not fit 64 bits; give it as a text.')
        message.integer = value
    elif isinstance(value, float):
        message.number = value
    elif isinstance(value, str):
        message.text = value
    else:
        raise InvalidError(f'parameter "{name}" is a {type(value).__name__}; it can be a text, a whole number, a float or a bool.')
    return message


def _plain(value: Any) -> Any:
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def _pack_inputs(meta: Any, job: Job, inputs: Mapping[str, Any], copy: bool) -> None:
    packed = [tensors.pack(name, value, copy) for name, value in inputs.items()]
    if len(packed) > wire.TENSORS_MAX:
        raise TooLargeError(f"a job has {len(packed)} inputs; at most {wire.TENSORS_MAX} are allowed.")
    job.inputs = packed
    job.payload_bytes = total = sum(len(tensor.data) for tensor in packed)
    inline = total <= wire.INLINE_BYTES
    for tensor in packed:
        size = len(tensor.data)
        if inline or not size:
            meta.inputs.append(TensorDesc(name=tensor.name, dtype=tensor.dtype, dims=tensor.dims, bytes=size, data=bytes(tensor.data)))
        else:
            job.frames.append(tensor.data)
            meta.inputs.append(TensorDesc(name=tensor.name, dtype=tensor.dtype, dims=tensor.dims, bytes=size, frame=len(job.frames)))


def _fill_wishes(meta: Any, job: Job, outputs: Optional[Sequence[str]], parameters: Optional[Mapping[str, ParameterValue]], tags: Sequence[str],
                 top_k: int) -> None:
    if outputs:
        _check_texts("requested outputs", outputs, wire.TENSORS_MAX)
        meta.outputs.extend(outputs)
        job.outputs = tuple(outputs)
    if tags:
        _check_texts("tags", tags, wire.TAGS_MAX)
        meta.tags.extend(tags)
    if parameters:
        _check_texts("parameters", list(parameters), wire.PARAMETERS_MAX)
        job.parameters = [(name, _plain(value)) for name, value in parameters.items()]
        meta.parameters.extend(_parameter(name, value) for name, value in job.parameters)
    if top_k:
        if not 0 <= top_k <= TOP_K_MAX:
            raise InvalidError(f"top_k {top_k}: 1 to {TOP_K_MAX} classes can be told.")
        meta.top_k = job.top_k = top_k


def _fill_sequence(job: Job, sequence: int, start: bool, end: bool) -> None:
    if not 0 <= sequence < 1 << 64:
        raise InvalidError(f"sequence {sequence}: a number from 1 to 2^64-1 names a sequence, 0 none.")
    if (start or end) and not sequence:
        raise InvalidError("sequence_start and sequence_end need a sequence: the number that its jobs share.")
    job.sequence_id = sequence
    job.flags |= (wire.FLAG_SEQUENCE_START if start else 0) | (wire.FLAG_SEQUENCE_END if end else 0)


def _fill_detached(meta: Any, job: Job, detach: bool, detached: str, state: bool, keep_for: Optional[float], secret: Optional[str]) -> None:
    if detached:
        if not wire.job_id_valid(detached):
            raise InvalidError(f'"{detached[:64]}" is no job id, which looks like 0123456789abcdef-42.')
        meta.detached = detached
        meta.detached_state = state
        job.flags |= wire.FLAG_FETCH
    elif detach:
        job.flags |= wire.FLAG_DETACHED
        if keep_for:
            meta.detached_ttl_us = int(keep_for * 1e6)
        if secret is not None:
            if not 1 <= len(secret.encode()) <= SECRET_BYTES_MAX:
                raise InvalidError(f"the secret of a detached job has 1 to {SECRET_BYTES_MAX} bytes.")
            meta.detached_lock = hashlib.sha256(secret.encode()).digest()[:16]


_hashes: Dict[str, int] = {}


def _hash_of(name: str) -> int:
    found = _hashes.get(name)
    if found is None:
        if len(_hashes) > 4096:
            _hashes.clear()
        found = _hashes[name] = wire.name_hash(name)
    return found


def make_job(model: str, inputs: Mapping[str, Any], *, copy: bool, tenant: str, digest_kind: int, outputs: Optional[Sequence[str]] = None, version: int = 0,
             label: str = "", parameters: Optional[Mapping[str, ParameterValue]] = None, tags: Sequence[str] = (), backend: str = "",
             deadline: Optional[float] = None, priority: int = 0, precision: str = "any", top_k: int = 0, cache: bool = True, explain: bool = False,
             trace: Union[bool, str] = False, traceparent: str = "", sequence: int = 0, sequence_start: bool = False, sequence_end: bool = False,
             detach: bool = False, keep_for: Optional[float] = None, secret: Optional[str] = None, detached: str = "", detached_state: bool = False) -> Job:
    """The request in its packed form. What the arguments mean stands at Client.run."""
    job = Job()
    if not detached and (not isinstance(model, str) or not 1 <= len(model.encode()) <= wire.NAME_BYTES_MAX):
        raise InvalidError(f"a model needs a name of 1 to {wire.NAME_BYTES_MAX} bytes.")
    if precision not in wire.PRECISIONS:
        raise InvalidError(f'precision "{precision}" is unknown; they are {", ".join(wire.PRECISIONS)}.')
    if not 0 <= priority <= 255:
        raise InvalidError(f"priority {priority}: 1 (most urgent) to 255, 0 is the model's default.")
    if trace not in (False, True, "layers"):
        raise InvalidError('trace is False, True or "layers".')
    if deadline is not None and not deadline > 0:
        raise InvalidError(f"a deadline is a number of seconds above 0, not {deadline}.")
    meta = JobMeta(model=model, submit_unix_us=time.time_ns() // 1000)
    if tenant:
        meta.tenant = tenant
    if version:
        meta.version = version
    if backend:
        meta.backend = backend
    if label:
        meta.version_label = label
        job.labelled = True
    if traceparent:
        meta.traceparent = traceparent
    if explain:
        meta.explain = True
    if trace:
        meta.trace = 2 if trace == "layers" else 1
    _pack_inputs(meta, job, inputs, copy)
    if outputs or parameters or tags or top_k:
        _fill_wishes(meta, job, outputs, parameters, tags, top_k)
    no_cache = not cache or trace == "layers"
    job.flags = wire.FLAG_NO_CACHE if no_cache else 0
    if sequence or sequence_start or sequence_end:
        _fill_sequence(job, sequence, sequence_start, sequence_end)
    if detach or detached:
        _fill_detached(meta, job, detach, detached, detached_state, keep_for, secret)
    job.meta = meta.SerializeToString()
    if len(job.meta) + _AFTER_BYTES > wire.META_BYTES_MAX:
        raise TooLargeError(f"the job's description takes {len(job.meta)} bytes, more than {wire.META_BYTES_MAX}: send long texts as a tensor.")
    job.model_hash = _hash_of(model)
    job.tenant_hash = _hash_of(tenant) & 0xFFFFFFFF
    job.priority, job.precision = priority, wire.PRECISIONS.index(precision)
    job.hashes = not no_cache
    job.hash_with(digest_kind)
    job.submitted = time.monotonic()
    if deadline is not None and deadline < math.inf:
        job.deadline = job.submitted + deadline
    return job
