"""A job: the request, packed once, and where it stands. Only session.py changes its state."""
from __future__ import annotations

import hashlib
import math
import operator
import time
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import metas, tensors, wire
from .errors import InvalidError, TooLargeError
from .results import Result
from .schema import JobMeta, Parameter

WAITS, SENT, HELD, ENDED = range(4)
SECRET_BYTES_MAX = 128
TOP_K_MAX = 1000
_SECONDS_MAX = 1e12  # a deadline beyond that is none
_AFTER_BYTES = 9
_PRECISION_NUMBERS = {name: number for number, name in enumerate(wire.PRECISIONS)}

ParameterValue = Union[str, int, float, bool, None]


class Job:
    """One request of this client. `notify` is called once, without the client's lock, when it has ended and every earlier ordered job, too, if it is ordered."""
    __slots__ = ("client", "sequence", "meta", "frames", "payload_bytes", "inputs", "outputs", "parameters", "top_k", "digest", "digest_kind", "model_hash",
                 "tenant_hash", "sequence_id", "sequence_key", "priority", "precision", "flags", "labelled", "ordered", "deadline", "submitted", "state", "sends",
                 "needs", "contract", "cancelled", "cancel_unsent", "result", "notify", "hashes", "waiter", "done")

    def __init__(self) -> None:
        self.client = self.sequence = 0
        self.meta = b""
        self.frames: List[Any] = []
        self.payload_bytes = 0
        self.inputs: List[tensors.Packed] = []  # for the digest; empty where there is none
        self.outputs: Sequence[str] = ()
        self.parameters: Sequence[Tuple[str, ParameterValue]] = ()
        self.top_k = self.model_hash = self.tenant_hash = self.priority = self.precision = self.flags = 0
        self.sequence_id = self.sequence_key = 0  # as in the envelope; what names the sequence on this side, number or text
        self.digest = wire.NO_DIGEST
        self.digest_kind = -1
        self.labelled = self.needs = self.contract = self.ordered = self.cancelled = self.cancel_unsent = self.hashes = False
        self.done = False  # told: what is ordered may have its result before
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
        """Says which job comes before it in its sequence."""
        if before:
            self.meta += metas.sequence_after(before)


def _bytes_of_text(what: str, text: Any) -> bytes:
    """Of a text as it travels."""
    if not isinstance(text, str):
        raise InvalidError(f"{what} is a text, not {text!r}.")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidError(f"{what} has half of a surrogate pair, which UTF-8 cannot carry: {text!r}.") from None


def _whole(what: str, value: Any) -> int:
    """A whole number of any kind, NumPy's too."""
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidError(f"{what} is a whole number, not {value!r}.") from None


def seconds_of(what: str, value: Any) -> float:
    try:
        if value > 0:
            return float(value)
    except (TypeError, ValueError):
        pass
    raise InvalidError(f"{what} is a number of seconds above 0, not {value!r}.")


def _check_texts(what: str, texts: Sequence[str], most: int) -> None:
    if isinstance(texts, (str, bytes)):
        raise InvalidError(f"{what} is one text; give a list of them.")
    if len(texts) > most:
        raise TooLargeError(f"a job has {len(texts)} {what}; at most {most} are allowed.")
    for text in texts:
        if not isinstance(text, str) or not 1 <= len(_bytes_of_text(f"a name of {what}", text)) <= wire.NAME_BYTES_MAX:
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
        _bytes_of_text(f'parameter "{name}"', value)
        message.text = value
    else:
        raise InvalidError(f'parameter "{name}" is a {type(value).__name__}; it can be a text, a whole number, a float or a bool.')
    return message


def _plain(value: Any) -> Any:
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def _pack_plain(job: Job, arrays: Sequence[Tuple[str, Any]], copy: bool, parts: List[bytes]) -> bool:
    """Inputs that are arrays whose bytes are the wire's, all of them, as most are. False: there is another one; nothing was done."""
    shapes = []
    total = 0
    for name, array in arrays:
        if type(array) is not np.ndarray:
            return False
        shape = metas.shapes.get((name, array.dtype, array.shape)) or metas.shape_of(name, array)
        if shape is None:
            return False
        shapes.append(shape)
        total += shape.size
    job.payload_bytes = total
    for (name, array), shape in zip(arrays, shapes):
        data = array.tobytes() if shape.size <= wire.INLINE_BYTES else tensors.bytes_of(array, copy)
        if total <= wire.INLINE_BYTES or not shape.size:
            parts += (shape.inline, data)
        else:
            job.frames.append(data)
            parts.append(metas.framed(shape.described, len(job.frames)))
        if job.hashes:
            job.inputs.append(tensors.Packed(name, shape.number, array.shape, data))
    return True


def _pack_any(job: Job, inputs: Sequence[Tuple[str, Any]], copy: bool, parts: List[bytes]) -> None:
    job.inputs = packed = [tensors.pack(name, value, copy) for name, value in inputs]
    job.payload_bytes = total = sum(len(tensor.data) for tensor in packed)
    for tensor in packed:
        apart = total > wire.INLINE_BYTES and len(tensor.data) > 0
        if apart:
            job.frames.append(tensor.data)
        parts.append(metas.packed_input(tensor, len(job.frames) if apart else 0))


def _fill_wishes(meta: Any, job: Job, outputs: Optional[Sequence[str]], parameters: Optional[Mapping[str, ParameterValue]], tags: Sequence[str],
                 needs: Sequence[str], top_k: int) -> None:
    if outputs:
        _check_texts("requested outputs", outputs, wire.TENSORS_MAX)
        meta.outputs.extend(outputs)
        job.outputs = tuple(outputs)
    if tags:
        _check_texts("tags", tags, wire.TAGS_MAX)
        meta.tags.extend(tags)
    if needs:
        _check_texts("needs", needs, wire.TAGS_MAX)
        meta.needs.extend(needs)
        job.needs = True
    if parameters:
        _check_texts("parameters", list(parameters), wire.PARAMETERS_MAX)
        job.parameters = [(name, _plain(value)) for name, value in parameters.items()]
        meta.parameters.extend(_parameter(name, value) for name, value in job.parameters)
    if top_k:
        top_k = _whole("top_k", top_k)
        if not 0 <= top_k <= TOP_K_MAX:
            raise InvalidError(f"top_k {top_k}: 1 to {TOP_K_MAX} classes can be told.")
        meta.top_k = job.top_k = top_k


def _fill_sequence(job: Job, sequence: Union[int, str], start: bool, end: bool) -> bytes:
    """Gives the field of a text."""
    if isinstance(sequence, str):
        if not 1 <= len(_bytes_of_text("a sequence", sequence)) <= wire.NAME_BYTES_MAX or "\0" in sequence:
            raise InvalidError(f"a sequence is named by a number, or by a text of 1 to {wire.NAME_BYTES_MAX} bytes without a NUL.")
        job.sequence_key = wire.name_hash(sequence)  # as the broker makes a number of it
    else:
        number = _whole("the number of a sequence", sequence)
        if not 0 <= number < 1 << 64:
            raise InvalidError(f"sequence {number}: a number from 1 to 2^64-1 names a sequence, 0 none.")
        job.sequence_id = job.sequence_key = number
    if (start or end) and not sequence:
        raise InvalidError("sequence_start and sequence_end need a sequence: the number or text that its jobs share.")
    job.flags |= (wire.FLAG_SEQUENCE_START if start else 0) | (wire.FLAG_SEQUENCE_END if end else 0)
    return bytes(JobMeta(sequence=sequence).SerializeToString()) if isinstance(sequence, str) else b""


def _contract(precision: str) -> Tuple[int, bytes]:
    """The class of the envelope, and what the description says besides: "f32-exact" or "max_relative_error=X"."""
    number = _PRECISION_NUMBERS.get(precision) if isinstance(precision, str) else None
    if number is not None:
        return number, b""
    if precision == "f32-exact":
        return _PRECISION_NUMBERS["f32"], bytes(JobMeta(f32_exact=True).SerializeToString())
    name, _, text = str(precision).partition("=")
    try:
        bound = float(text) if name == "max_relative_error" else 0.0
    except ValueError:
        bound = 0.0
    if not 0.0 < bound < float("inf"):
        raise InvalidError(f'precision "{precision}" is unknown; they are {", ".join(wire.PRECISIONS)}, f32-exact and max_relative_error=X, '
                           "X a number above 0.")
    return _PRECISION_NUMBERS["any"], bytes(JobMeta(max_relative_error=bound).SerializeToString())


def _head(model: str, tenant: str, version: int, backend: str, label: str, explain: bool, trace: Union[bool, str]) -> metas.Head:
    if type(model) is not str or not 0 < len(model) <= wire.NAME_BYTES_MAX or (not model.isascii() and len(_bytes_of_text("a model's name", model)) > wire.NAME_BYTES_MAX):
        raise InvalidError(f"a model needs a name of 1 to {wire.NAME_BYTES_MAX} bytes.")
    if trace not in (False, True, "layers"):
        raise InvalidError('trace is False, True or "layers".')
    try:
        return metas.head_of(model, tenant, version, backend, label, bool(explain), 2 if trace == "layers" else int(trace))
    except (TypeError, ValueError) as error:
        raise InvalidError(f"version is a whole number from 0 to 2^32-1, backend and label are texts: {error}.") from None


def make_job(model: str, inputs: Mapping[str, Any], *, copy: bool, tenant: str, digest_kind: int, outputs: Optional[Sequence[str]] = None, version: int = 0,
             label: str = "", parameters: Optional[Mapping[str, ParameterValue]] = None, tags: Sequence[str] = (), needs: Sequence[str] = (), backend: str = "",
             deadline: Optional[float] = None, priority: int = 0, precision: str = "any", top_k: int = 0, cache: bool = True, explain: bool = False,
             trace: Union[bool, str] = False, traceparent: str = "", debug: bool = False, ordered: bool = False, sequence: Union[int, str] = 0, sequence_start: bool = False,
             sequence_end: bool = False, flags: int = 0, more: bytes = b"") -> Job:
    """The request in its packed form. What the arguments mean stands at Client.run. flags, more: of the envelope and of the description, besides."""
    job = Job()
    number, contract = _contract(precision)
    if type(priority) is not int:
        priority = _whole("priority", priority)
    if not 0 <= priority <= 255:
        raise InvalidError(f"priority {priority}: 1 (most urgent) to 255, 0 is the model's default.")
    head = _head(model, tenant, version, backend, label, explain, trace)
    parts = [head.packed, metas.submit_time(), more]
    if debug:
        needs = [*needs, "debug_jobs"]  # brokers that do not know debug mode send the job to a worker that does
    if outputs or parameters or tags or needs or top_k or traceparent:
        _bytes_of_text("traceparent", traceparent)
        meta = JobMeta(traceparent=traceparent, debug=debug)
        _fill_wishes(meta, job, outputs, parameters, tags, needs, top_k)
        parts.append(meta.SerializeToString())
    job.hashes = cache and trace != "layers" and not debug
    job.flags = flags if job.hashes else flags | wire.FLAG_NO_CACHE
    if sequence or sequence_start or sequence_end:
        parts.append(_fill_sequence(job, sequence, sequence_start, sequence_end))
    if contract:
        parts.append(contract)
    job.contract = bool(contract)
    job.labelled, job.ordered = label != "", ordered
    job.priority, job.precision, job.model_hash, job.tenant_hash = priority, number, head.model_hash, head.tenant_hash
    return _finish(job, inputs, copy, digest_kind, deadline, parts)


def _finish(job: Job, inputs: Mapping[str, Any], copy: bool, digest_kind: int, deadline: Optional[float], parts: List[bytes]) -> Job:
    """The inputs, and what follows from all the rest."""
    if len(inputs) > wire.TENSORS_MAX:
        raise TooLargeError(f"a job has {len(inputs)} inputs; at most {wire.TENSORS_MAX} are allowed.")
    pairs = list(inputs.items())
    if not _pack_plain(job, pairs, copy, parts):
        _pack_any(job, pairs, copy, parts)
    job.meta = meta = b"".join(parts)
    if len(meta) > wire.META_BYTES_MAX - _AFTER_BYTES:
        raise TooLargeError(f"the job's description takes {len(meta)} bytes, more than {wire.META_BYTES_MAX}: send long texts as a tensor.")
    if job.hashes:
        job.hash_with(digest_kind)
    job.submitted = time.monotonic()
    if deadline is not None:
        seconds = seconds_of("a deadline", deadline)
        job.deadline = job.submitted + seconds if seconds <= _SECONDS_MAX else math.inf
    return job


def detached_wishes(keep_for: Optional[float], secret: Optional[str]) -> bytes:
    """What a job that runs without its client says besides: for make_job's `more`."""
    meta = JobMeta()
    if keep_for is not None and keep_for != 0:
        meta.detached_ttl_us = int(min(seconds_of("keep_for", keep_for), _SECONDS_MAX) * 1e6)
    if secret is not None:
        if not 1 <= len(secret.encode()) <= SECRET_BYTES_MAX:
            raise InvalidError(f"the secret of a detached job has 1 to {SECRET_BYTES_MAX} bytes.")
        meta.detached_lock = hashlib.sha256(secret.encode()).digest()[:16]
    return bytes(meta.SerializeToString())


def make_fetch(job_id: str, tenant: str, state: bool, deadline: Optional[float]) -> Job:
    """Asks for a detached job's result, or for what becomes of it."""
    if not wire.job_id_valid(job_id):
        raise InvalidError(f'"{job_id[:64]}" is no job id, which looks like 0123456789abcdef-42.')
    job = Job()
    job.flags = wire.FLAG_FETCH
    job.tenant_hash = wire.name_hash(tenant) & 0xFFFFFFFF
    return _finish(job, {}, False, 0, deadline, [JobMeta(tenant=tenant, detached=job_id, detached_state=state).SerializeToString(), metas.submit_time()])
