"""Answers: outputs as NumPy views, classes, timings, and where they come from."""
from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from . import tensors, wire
from .errors import STATUS_NAMES, CorruptError, PenstockError, error_class, status_name
from .schema import ResultMeta
from .tensors import Tensor


class Class(NamedTuple):
    """A class of a classifier, best first: its number in the output's row, a score of 0 to 1, and a name, "" when the model does not say."""
    index: int  # type: ignore[assignment]
    score: float
    name: str


class Annotation(NamedTuple):
    """What the worker read out of one row of an output (top_k)."""
    output: str
    row: int
    classes: List[Class]


class Timings(NamedTuple):
    """Seconds. queue: admitted to dispatched; compute: in the engine; worker: on the worker; total: admitted until the reply left the broker; round_trip: submitted to
    received, measured here. decode: decoding pictures on the worker."""
    queue: float
    compute: float
    worker: float
    total: float
    round_trip: float
    decode: float = 0.0


class Measured(NamedTuple):
    """Relative errors of a model's answers against the reference backend, on so many sets of inputs. source: "calibration", "seeded", "steps" (of an ensemble) or "reference"."""
    max_relative_error: float
    mean_relative_error: float
    inputs: int
    source: str
    repeatable: bool  # equal inputs gave equal bits


class DetachedState(NamedTuple):
    """What becomes of a detached job. Times in seconds."""
    state: str  # "waiting", "running", "done"
    status: str  # of one that is done
    attempts: int
    age: float
    left: float


class Result:
    """The end of a job. `result["name"]` is an output; `outputs` is all of them by name. Arrays are views of the received bytes and read-only."""
    __slots__ = ("status", "outputs", "meta", "error", "round_trip", "_client", "_sequence", "_data")

    def __init__(self, client: int, sequence: int, status: str = "OK", error: str = "", meta: Any = None):
        self._client, self._sequence = client, sequence
        self.status = status
        self.error = error
        self.meta = ResultMeta() if meta is None else meta
        self.outputs: Dict[str, Any] = {}
        self.round_trip = 0.0
        self._data: Sequence[Any] = ()  # of each output, in their order in meta

    @property
    def job_id(self) -> str:
        """The id that logs, `penstock explain` and `penstock trace` use."""
        return wire.job_id_text(self._client, self._sequence)

    def __getitem__(self, name: str) -> Any:
        return self.outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.outputs)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.outputs.items())
        return f"<Result {self.job_id} {self.status}{' ' + self.error if self.error else ''} {shapes}>"

    @property
    def tensors(self) -> Dict[str, Tensor]:
        """The outputs as they travelled: element type, dims, bytes."""
        return {desc.name: Tensor(tensors.DTYPES[desc.dtype], tuple(desc.dims), data) for desc, data in zip(self.meta.outputs, self._data)}

    @property
    def model(self) -> str:
        return str(self.meta.model)

    @property
    def version(self) -> int:
        return int(self.meta.version)

    @property
    def backend(self) -> str:
        return str(self.meta.backend)

    @property
    def device(self) -> str:
        return str(self.meta.device)

    @property
    def worker(self) -> str:
        return str(self.meta.worker)

    @property
    def library(self) -> str:
        return str(self.meta.library)

    @property
    def isa(self) -> str:
        """The instruction set that its kernels were chosen for."""
        return str(self.meta.isa)

    @property
    def build(self) -> str:
        """Of the engine that computed it."""
        return str(self.meta.build)

    @property
    def age(self) -> Optional[float]:
        """Seconds since it was stored; None when it is not from the result cache."""
        return self.meta.age_us * 1e-6 if self.meta.cached else None

    @property
    def measured(self) -> Optional[Measured]:
        """How far this model's answers may be off there, in this precision; None when nobody has measured it."""
        if not self.meta.HasField("measured"):
            return None
        m = self.meta.measured
        return Measured(m.largest, m.mean, m.inputs, m.source, m.repeatable)

    @property
    def precision(self) -> str:
        number = self.meta.precision
        return wire.PRECISIONS[number] if number < len(wire.PRECISIONS) else "unknown"

    @property
    def cached(self) -> bool:
        """Answered from the result cache."""
        return bool(self.meta.cached)

    @property
    def attempts(self) -> int:
        return int(self.meta.attempts)

    @property
    def batch_size(self) -> int:
        return int(self.meta.batch_size)

    @property
    def batch_reason(self) -> str:
        return str(self.meta.batch_reason)

    @property
    def retry_after(self) -> Optional[float]:
        return self.meta.retry_after_us * 1e-6 if self.meta.retry_after_us else None

    @property
    def timings(self) -> Timings:
        m = self.meta
        return Timings(m.queue_us * 1e-6, m.compute_us * 1e-6, m.worker_us * 1e-6, m.total_us * 1e-6, self.round_trip, m.decode_us * 1e-6)

    @property
    def annotations(self) -> List[Annotation]:
        return [Annotation(a.output, a.row, [Class(c.index, c.score, c.name) for c in a.classes]) for a in self.meta.annotations]

    @property
    def classes(self) -> List[Class]:
        """The best classes of the first row (top_k); [] where none were asked for."""
        found = self.annotations
        return found[0].classes if found else []

    @property
    def labels(self) -> List[str]:
        """Texts of the parameter "labels": the older form of classes."""
        return list(self.meta.labels)

    @property
    def explanation(self) -> Any:
        """Why the job ran where it did (explain=True): the message Explanation of proto/job.proto; None without one."""
        return self.meta.explanation if self.meta.HasField("explanation") else None

    @property
    def debug_log(self) -> str:
        """A line per operator of a run in debug mode (debug=True), then the first NaN or infinity, value beyond f16 and deviation; "" without one."""
        return str(self.meta.debug_log)

    @property
    def layers(self) -> List[Tuple[str, str, str, float]]:
        """Name, operator, backend and seconds of each step of the run (trace="layers")."""
        return [(layer.name, layer.op, layer.backend, layer.us * 1e-6) for layer in self.meta.layers]

    def detached_state(self) -> DetachedState:
        """Of an answer to Client.detached_state(); CorruptError where it says none."""
        if not self.meta.HasField("detached"):
            raise CorruptError("the broker's answer does not say what becomes of the detached job.")
        d = self.meta.detached
        return DetachedState(d.state, status_name(d.status), d.attempts, d.age_us * 1e-6, d.left_us * 1e-6)

    def error_raised(self) -> PenstockError:
        """Of a job that did not end well."""
        return error_class(self.status)(self.error, self.retry_after, self)

    def exception(self) -> Optional[PenstockError]:
        """None when the job ended well."""
        return None if self.status == "OK" else self.error_raised()


_seen: Dict[Tuple[str, int, Tuple[int, ...], int], Any] = {}  # outputs that were found right, and their NumPy types


def _see(key: Tuple[str, int, Tuple[int, ...], int]) -> None:
    """Of a type whose bytes are those of its array."""
    dtype = tensors.numpy_dtype(key[1])
    if dtype is not None and key[1] != tensors.STRING and key[3] == tensors.bytes_needed(key[1], key[2]) and tensors.wire_number(dtype):
        if len(_seen) >= 1024:
            _seen.clear()
        _seen[key] = dtype


def _frame_of(desc: Any, frames: Any, used: Set[int]) -> Any:
    number = desc.frame
    if number > len(frames) or number in used or desc.data:
        raise CorruptError(f"output '{desc.name}' says raw frame {number} of {len(frames)}, which is absent or taken.")
    used.add(number)
    return frames[number - 1]


def _good_name(name: str) -> bool:
    return 0 < len(name) <= wire.NAME_BYTES_MAX and (name.isprintable() or not any(c < " " or c == "\x7f" for c in name))


def _take_outputs(result: Result, frames: Any) -> int:
    """Gives the number of zero bytes in payloads that rode in the meta."""
    used: Set[int] = set()
    descs, outputs, kept, zeros = result.meta.outputs, result.outputs, [], 0
    if len(descs) > wire.TENSORS_MAX:
        raise CorruptError(f"the answer has {len(descs)} outputs, more than {wire.TENSORS_MAX}.")
    for desc in descs:
        name, number, dims, size = key = desc.name, desc.dtype, tuple(desc.dims), desc.bytes
        data = desc.data if not desc.frame else _frame_of(desc, frames, used)
        if len(data) != size:
            raise CorruptError(f"output '{name}' announces {size} bytes, but {len(data)} came.")
        zeros += data.count(0) if type(data) is bytes else 0
        kept.append(data)
        dtype = _seen.get(key)
        if name in outputs or (dtype is None and not _good_name(name)):
            raise CorruptError(f"the answer has an output without a good name of its own: {name!r}.")
        if dtype is None:
            tensors.check(name, number, dims, size)
            outputs[name] = tensors.unpack(number, dims, data)
            _see(key)
        else:
            outputs[name] = np.frombuffer(data, dtype).reshape(dims)
    if len(used) != len(frames):
        raise CorruptError(f"the answer has {len(frames)} raw frames, of which its outputs name {len(used)}.")
    result._data = kept
    return zeros


def _check_texts(message: Any) -> None:
    bad = wire.texts_have_nul(message)
    if bad:
        raise CorruptError(f"the text {bad} of the answer has a NUL byte.")


def read_result(env: wire.Envelope, meta: bytes, frames: Any) -> Result:
    """A RESULT as it came; one that is malformed ends its job CORRUPT. frames: a buffer for each raw frame."""
    try:
        message = ResultMeta.FromString(meta)
    except Exception:  # protobuf's DecodeError, and its own of other versions
        return Result(env.client, env.sequence, "CORRUPT", "the answer's description is malformed; broker and client may differ in version.")
    result = Result(env.client, env.sequence, STATUS_NAMES[env.status], message.error, message)
    if env.status_told >= wire.STATUSES:
        result.error = f"the answer has the status {env.status_told}, which this version does not know{': ' + message.error if message.error else ''}"
    try:
        zeros = 0 if env.status else _take_outputs(result, frames)
        if meta.count(0) != zeros:  # zeros stand in payloads, which are no texts, and hardly ever elsewhere
            _check_texts(message)
    except CorruptError as error:
        return Result(env.client, env.sequence, "CORRUPT", error.text)
    except (ValueError, OverflowError) as error:  # of NumPy: no bytes, and a shape beyond what it has
        return Result(env.client, env.sequence, "CORRUPT", f"an output of the answer cannot be an array: {error}.")
    return result
