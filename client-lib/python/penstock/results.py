"""Answers: outputs as NumPy views, classes, timings, and where they come from."""
from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

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
    received, measured here."""
    queue: float
    compute: float
    worker: float
    total: float
    round_trip: float


class DetachedState(NamedTuple):
    """What becomes of a detached job. Times in seconds."""
    state: str  # "waiting", "running", "done"
    status: str  # of one that is done
    attempts: int
    age: float
    left: float


class Result:
    """The end of a job. `result["name"]` is an output; `outputs` is all of them by name. Arrays are views of the received bytes and read-only."""
    __slots__ = ("job_id", "status", "outputs", "meta", "error", "round_trip", "_raw")

    def __init__(self, job_id: str, status: str = "OK", error: str = "", meta: Any = None, outputs: "Optional[Dict[str, Any]]" = None):
        self.job_id = job_id
        self.status = status
        self.error = error
        self.meta = ResultMeta() if meta is None else meta
        self.outputs: Dict[str, Any] = outputs if outputs is not None else {}
        self.round_trip = 0.0
        self._raw: Dict[str, Tensor] = {}

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
        return self._raw

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
        return Timings(m.queue_us * 1e-6, m.compute_us * 1e-6, m.worker_us * 1e-6, m.total_us * 1e-6, self.round_trip)

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
    def layers(self) -> List[Tuple[str, str, str, float]]:
        """Name, operator, backend and seconds of each step of the run (trace="layers")."""
        return [(layer.name, layer.op, layer.backend, layer.us * 1e-6) for layer in self.meta.layers]

    @property
    def detached(self) -> Optional[DetachedState]:
        """The answer to detached_state()."""
        if not self.meta.HasField("detached"):
            return None
        d = self.meta.detached
        return DetachedState(d.state, status_name(d.status), d.attempts, d.age_us * 1e-6, d.left_us * 1e-6)

    def exception(self) -> Optional[PenstockError]:
        """None when the job ended well."""
        return None if self.status == "OK" else error_class(self.status)(self.error, self.retry_after, self)


def _data_of(desc: Any, frames: Any, used: Set[int]) -> Any:
    if not desc.frame:
        data = desc.data
    elif desc.frame > len(frames) or desc.frame in used or desc.data:
        raise CorruptError(f"output '{desc.name}' says raw frame {desc.frame} of {len(frames)}, which is absent or taken.")
    else:
        used.add(desc.frame)
        data = frames[desc.frame - 1]
    if len(data) != desc.bytes:
        raise CorruptError(f"output '{desc.name}' announces {desc.bytes} bytes, but {len(data)} came.")
    return data


def _take_outputs(result: Result, frames: Any) -> None:
    used: Set[int] = set()
    descs = result.meta.outputs
    if len(descs) > wire.TENSORS_MAX:
        raise CorruptError(f"the answer has {len(descs)} outputs, more than {wire.TENSORS_MAX}.")
    for desc in descs:
        name, number, dims = desc.name, desc.dtype, tuple(desc.dims)
        if name in result._raw or not name or len(name) > wire.NAME_BYTES_MAX or (not name.isprintable() and any(c < " " or c == "\x7f" for c in name)):
            raise CorruptError(f"the answer has an output without a good name of its own: {name!r}.")
        data = _data_of(desc, frames, used)
        tensors.check(name, number, dims, len(data))
        result._raw[name] = Tensor(tensors.DTYPES[number], dims, data)
        result.outputs[name] = tensors.unpack(number, dims, data)
    if len(used) != len(frames):
        raise CorruptError(f"the answer has {len(frames)} raw frames, of which its outputs name {len(used)}.")


def _bad_text(message: Any) -> Optional[str]:
    """The text field with a NUL byte. Most answers have only these texts; the slower look is for the rest."""
    m = message
    if "\0" in m.model + m.backend + m.device + m.worker + m.batch_reason + m.library + m.error:
        return wire.texts_have_nul(message)
    if m.annotations or m.labels or m.layers or m.HasField("explanation") or m.HasField("detached"):
        return wire.texts_have_nul(message)
    return None  # the names of outputs are looked at with them


def read_result(env: wire.Envelope, meta: bytes, frames: Any) -> Result:
    """A RESULT as it came; one that is malformed ends its job CORRUPT. frames: a buffer for each raw frame."""
    job_id = wire.job_id_text(env.client, env.sequence)
    try:
        message = ResultMeta.FromString(meta)
    except Exception:  # protobuf's DecodeError, and its own of other versions
        return Result(job_id, "CORRUPT", "the answer's description is malformed; broker and client may differ in version.")
    bad = _bad_text(message)
    if bad:
        return Result(job_id, "CORRUPT", f"the text {bad} of the answer has a NUL byte.")
    result = Result(job_id, STATUS_NAMES[env.status], message.error, message)
    if env.status_told >= wire.STATUSES:
        result.error = f"the answer has the status {env.status_told}, which this version does not know{': ' + message.error if message.error else ''}"
    if env.status == 0:
        try:
            _take_outputs(result, frames)
        except CorruptError as error:
            return Result(job_id, "CORRUPT", error.text)
    return result
