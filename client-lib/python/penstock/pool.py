"""What the broker tells of its pool, as plain records, and what both kinds of client have in common."""
from __future__ import annotations

import os
import time
from collections.abc import Mapping as AnyMapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import pictures, tensors, wire
from .connection import REFUSED, Ask, Settings
from .endpoints import parse_endpoints, resolve_endpoints
from .errors import InvalidError, NotFoundError, UnavailableError, error_class
from .job import ParameterValue, detached_wishes
from .keys import read_keys
from .link import Link
from .session import Session

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    class JobOptions(TypedDict, total=False):
        """What run() and submit() take besides model and inputs: Client.run tells each."""
        outputs: Sequence[str]
        version: int
        label: str
        parameters: Mapping[str, ParameterValue]
        tags: Sequence[str]
        needs: Sequence[str]
        backend: str
        deadline: Optional[float]
        priority: int
        precision: str
        top_k: int
        cache: bool
        explain: bool
        trace: Union[bool, str]
        traceparent: str
        debug: bool
        ordered: bool
        sequence: Union[int, str]
        sequence_start: bool
        sequence_end: bool

Inputs = Union[Mapping[str, Any], Any]
Path = Union[str, "os.PathLike[str]"]


class Signature(NamedTuple):
    """A tensor that a model takes or gives. A dim of -1 is free; batched: the first dim is the batch."""
    name: str
    dtype: str
    dims: Tuple[int, ...]
    batched: bool
    optional: bool
    pictures: bool = False  # takes files of pictures, too, as bytes: the worker decodes them


class Model(NamedTuple):
    """A model of the pool. `info` has the rest of what the broker says: offers, counters, labels of versions."""
    name: str
    version: int
    inputs: List[Signature]
    outputs: List[Signature]
    platform: str
    labels: List[str]
    preprocess: str
    info: Any


def record(message: Any) -> Any:
    """A protobuf message as a plain record; times keep their unit in their names (_us)."""
    fields: Dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is None:
            fields[field.name] = list(value) if hasattr(value, "append") else value
        elif hasattr(value, "add"):
            fields[field.name] = [record(part) for part in value]
        else:
            fields[field.name] = record(value) if message.HasField(field.name) else None
    return SimpleNamespace(**fields)


def _signature(sig: Any) -> Signature:
    name = tensors.DTYPES[sig.dtype] if sig.dtype < len(tensors.DTYPES) else "none"
    return Signature(sig.name, name, tuple(sig.dims), sig.batched, sig.optional, sig.pictures)


def models_of(reply: Any) -> List[Model]:
    found = []
    for model in reply.models:
        offer = model.offers[0] if model.offers else None
        found.append(Model(model.name, model.version, [_signature(s) for s in model.inputs], [_signature(s) for s in model.outputs],
                           offer.platform if offer else "", list(offer.labels) if offer else [], offer.preprocess if offer else "", record(model)))
    return found


def outcomes_of(reply: Any) -> List[Any]:
    return [record(outcome) for outcome in reply.outcomes]


def quarantine_of(reply: Any) -> List[Any]:
    return [record(job) for job in reply.quarantine]


def label_argument(model: str, label: str, version: int, share: float) -> str:
    if not 0 <= share <= 1:
        raise InvalidError("the share of a label lies between 0 and 1.")
    return f"{model} {label} {version} {int(share * 1e6 + 0.5)}"


def detached_options(options: Mapping[str, Any], keep_for: Optional[float], secret: Optional[str]) -> Dict[str, Any]:
    return {**options, "flags": wire.FLAG_DETACHED, "more": detached_wishes(keep_for, secret)}


def answer_of(ask: Ask) -> Any:
    """The reply of a question that was answered; else its error."""
    if ask.status != "OK":
        raise error_class(ask.status)(ask.error)
    return ask.reply


def model_of(models: Sequence[Model], name: str, version: int) -> Model:
    """The version, or the highest one."""
    found = [model for model in models if model.name == name and (not version or model.version == version)]
    if not found:
        raise NotFoundError(f'no worker serves the model "{name}"{f" in version {version}" if version else ""}.')
    return max(found, key=lambda model: model.version)


def _as_wanted(sig: Signature, value: Any) -> Any:
    if isinstance(value, (np.ndarray, tensors.Tensor)):
        return value
    if sig.pictures and pictures.are_files(value):
        return pictures.files(value)
    if tensors.dtype_number(sig.dtype) == tensors.STRING:
        return np.asarray(value, dtype=object)
    number = tensors.dtype_number(sig.dtype)
    return np.asarray(value) if tensors.numpy_dtype(number) is None else tensors.from_values(sig.name, number, value)


def named_inputs(model: Model, inputs: Inputs) -> Dict[str, Any]:
    """Inputs without names get the model's, in its order; a picture becomes the pixels that the model takes; lists and numbers become arrays of the element type that it
    takes."""
    if not isinstance(inputs, AnyMapping):
        values = list(inputs) if isinstance(inputs, tuple) else [inputs]
        names = [sig.name for sig in model.inputs if not sig.optional or len(values) == len(model.inputs)]
        if len(values) != len(names):
            raise InvalidError(f'the model "{model.name}" takes {len(names)} inputs ({", ".join(names)}), {len(values)} were given; give a dict of names to say which.')
        inputs = dict(zip(names, values))
    sigs = {sig.name: sig for sig in model.inputs}
    for name in inputs:
        if name not in sigs:
            raise NotFoundError(f'the model "{model.name}" has no input "{name}"; it has {", ".join(sigs)}.')
    return {name: pictures.pixels(model, sigs[name], value) if pictures.is_picture(value) else _as_wanted(sigs[name], value) for name, value in inputs.items()}


def inputs_are_plain(inputs: Inputs) -> bool:
    """All are arrays under names: nothing about the model need be known."""
    if not isinstance(inputs, AnyMapping):
        return False
    for value in inputs.values():
        if not isinstance(value, (np.ndarray, tensors.Tensor)):
            return False
    return True


class Base:
    """Settings, session and packing; Client and AsyncClient move it."""

    def __init__(self, endpoint: str = "tcp://127.0.0.1:5550", *, key: Optional[Path] = None, broker_key: Optional[str] = None, name: str = "python",
                 tenant: str = "", unreachable: float = 10.0, grace: float = 0.0, jobs_max: int = 4096, bytes_max: int = 1 << 30,
                 frame_bytes_max: int = 256 << 20, tell_drain: bool = False):
        """endpoint: of the broker; several, separated by commas: one is used, the others when it is lost or drains. key: file of `penstock keygen`; broker_key: the
        broker's public key: with both the connection is encrypted. unreachable: jobs end with UnavailableError after so many seconds without a broker, 0 = never.
        grace: how long the broker keeps the jobs of a lost connection, 0 = its default. jobs_max, bytes_max: of unanswered jobs, before submit raises BusyError.
        frame_bytes_max: largest tensor that is accepted. tell_drain: a job that the only broker refuses because it is about to end fails at once; else it waits for the
        broker that comes in its place."""
        if len(name.encode()) > 255 or len(tenant.encode()) > 255:
            raise InvalidError("name and tenant of a client have at most 255 bytes.")
        if unreachable < 0 or grace < 0 or jobs_max < 1 or bytes_max < 0 or frame_bytes_max < 1:
            raise InvalidError("unreachable, grace, jobs_max, bytes_max and frame_bytes_max are not negative, and there is room for a job.")
        brokers = parse_endpoints(endpoint)
        link = Link(frame_bytes_max, jobs_max, read_keys(key, broker_key))
        try:
            for one in brokers:  # a malformed endpoint is told at once
                link.open(one)
                link.close(0)
        except BaseException:
            link.end()
            raise
        self._tenant = "" if tenant == "default" else tenant
        settings = Settings(endpoint, name, self._tenant, unreachable, grace, jobs_max, bytes_max, frame_bytes_max, tell_drain)
        self._link = link
        self._session = Session(settings, link, resolve_endpoints(brokers), time.monotonic())
        self._models: Dict[Tuple[str, int], Tuple[float, Model]] = {}

    def _known(self, name: str, version: int) -> Optional[Model]:
        """What was learned of the model in the last minute."""
        found = self._models.get((name, version))
        return found[1] if found and found[0] > time.monotonic() else None

    def _learn(self, name: str, version: int, models: Sequence[Model]) -> Model:
        model = model_of(models, name, version)
        if len(self._models) > 1000:
            self._models.clear()
        self._models[name, version] = (time.monotonic() + 60, model)
        return model

    def _no_answer(self, verb: str) -> UnavailableError:
        why = self._session.why_not()
        return UnavailableError(f'no answer to "{verb}" from a broker at {self._session.settings.endpoint} in time{": " + why if why else ""}; is penstock-broker '
                                "running there?")

    def _not_ready(self, timeout: float) -> Exception:
        if self._session.state == REFUSED:
            return error_class(self._session.refusal[0])(self._session.refusal[1])
        why = self._session.why_not()
        return UnavailableError(f"no broker at {self._session.settings.endpoint} welcomed this client within {timeout:.1f} s{': ' + why if why else ''}; is "
                                "penstock-broker running there?")

    @property
    def counters(self) -> Dict[str, int]:
        """What this session has seen: jobs_submitted, jobs_ended, jobs_resent, jobs_pending, results_duplicate, messages_bad, connections."""
        return {**self._session.counters, "jobs_pending": len(self._session.pending)}

    @property
    def session_id(self) -> str:
        """16 hex digits: the first half of the ids of its jobs."""
        return f"{self._session.uuid:016x}"
