"""Client: the calls of Penstock from any thread, blocking or with futures."""
from __future__ import annotations

import concurrent.futures
import math
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterable, List, Mapping, Optional, Tuple, Type

from .connection import HELLO, READY, Ask
from .driver import Driver, Until
from .job import Job, make_fetch, make_job
from .pool import Inputs, Model, answer_of, detached_options, inputs_are_plain, label_argument, models_of, named_inputs, outcomes_of, quarantine_of, record
from .results import DetachedState, Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .pool import JobOptions


class Future(concurrent.futures.Future):  # type: ignore[type-arg]
    """A job under way, as of concurrent.futures: result(timeout), exception(), done(), add_done_callback(), and wait() and as_completed() of that module."""

    def __init__(self, client: "Client", job: Job):
        super().__init__()
        self._client = client
        self._job = job
        self.set_running_or_notify_cancel()
        job.notify = self._end

    @property
    def job_id(self) -> str:
        """The id that logs, `penstock cancel` and the broker use."""
        return self._job.id

    def cancel(self) -> bool:
        """Asks the pool to stop the job. It still ends once: with CancelledError, or with its real answer when that came first. False: it has ended already."""
        if self.done():
            return False
        self._client._cancel(self._job)
        return True

    def cancelled(self) -> bool:
        """It ended as cancelled."""
        return self.done() and self._job.result is not None and self._job.result.status == "CANCELLED"

    def _end(self, job: Job) -> None:
        assert job.result is not None
        error = job.result.exception()
        if error:
            self.set_exception(error)
        else:
            self.set_result(job.result)


class Client(Driver):
    """A session with a broker, or with one of several. Threads: any. `with Client() as client:` closes it, and so does the end of the last reference to it. A child of
    os.fork() makes its own.

    >>> import numpy as np
    >>> from penstock import Client, UnavailableError
    >>> with Client("tcp://127.0.0.1:9", unreachable=0.05) as client:
    ...     try:
    ...         client.run("digits", {"image": np.zeros((1, 28, 28), np.uint8)})
    ...     except UnavailableError as error:
    ...         print(error.status)
    UNAVAILABLE
    """

    # ---- a session's life ----

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def wait_ready(self, timeout: float = 10.0) -> None:
        """Waits until a broker has welcomed this session. UnavailableError after the timeout; the broker's reason when it refuses."""
        self._check_open()
        self._lock.acquire()
        try:
            self._drive_until(Until(lambda: self._session.state != HELLO), time.monotonic() + timeout)
            ready = self._session.state == READY
        finally:
            self._leave()
        if not ready:
            raise self._not_ready(timeout)

    # ---- jobs ----

    def _prepare(self, model: str, inputs: Inputs, copy: bool, options: Any) -> Job:
        if self._closing:
            self._check_open()
        if not inputs_are_plain(inputs):
            version = options.get("version", 0)
            known = self._known(model, version)
            inputs = named_inputs(known or self._learn(model, version, self.models()), inputs)
        return make_job(model, inputs, copy=copy, tenant=self._tenant, digest_kind=self._session.digest_kind, **options)

    def run(self, model: str, inputs: Inputs, **options: "Unpack[JobOptions]") -> Result:
        """Submits a job and waits for its answer; raises the error that it ends with.

        inputs: arrays by the names of the model's inputs; or, without names, one value or a tuple in the model's order. Lists become arrays of the model's element type,
        a Pillow image the pixels that it takes. outputs: names wanted, all without. version or label: which version of the model. parameters: of the model; part of the
        cache's key. tags: the worker must carry all. needs: flags that it must have, "NAME" or
        "NAME=VALUE". backend: which must run it. deadline: seconds from now. priority: 1 is the most urgent, 0 the model's default.
        precision: the class demanded ("f32", ...), "f32-exact", or a
        bound on the measured error, "max_relative_error=1e-2". top_k: so many best classes of each row. cache=False: neither read from nor stored in the result cache.
        explain: Result.explanation. trace=True: kept for trace(); "layers": and the run's layers are measured. traceparent: W3C trace context. debug=True: it runs alone, in debug mode, on a worker
        with --allow-debug: Result.debug_log. ordered: its end is told
        only after those of all earlier ordered jobs of this client. sequence: of models that keep state between jobs: jobs of one number or text, a first one
        (sequence_start) and a last one (sequence_end).
        """
        return self._run(self._prepare(model, inputs, False, options))

    def _run(self, job: Job) -> Result:
        session = self._session
        self._lock.acquire()
        try:
            if self._closing:
                self._check_open()
            session.submit(job)
            try:
                if self._driving:
                    self._nudge()
                else:
                    self._lead(job, math.inf)
                if not job.done:
                    self._drive_until(job, math.inf)
            except BaseException:  # the caller was interrupted
                session.cancel(job, time.monotonic())
                self._kick()
                raise
            if job.result is None:  # the client is being closed
                session.cancel(job, time.monotonic())
        finally:
            self._leave()
        result = job.result
        if result is None:
            result = Result(job.client, job.sequence, "CANCELLED", "the client was closed before the answer came.")
        if result.status != "OK":
            raise result.error_raised()
        return result

    def _submit(self, job: Job) -> Future:
        future = Future(self, job)
        self._lock.acquire()
        try:
            self._check_open()
            self._session.submit(job)
            self._count_futures(1)
            self._kick()
        finally:
            self._leave()
        return future

    def submit(self, model: str, inputs: Inputs, *, copy: bool = True, **options: "Unpack[JobOptions]") -> Future:
        """As run(), but returns at once. copy=False: the inputs' arrays are not copied and must not change until the job has ended."""
        return self._submit(self._prepare(model, inputs, copy, options))

    def submit_many(self, jobs: Iterable[Tuple[str, Inputs, Mapping[str, Any]]], *, copy: bool = True) -> List[Future]:
        """Several jobs, each a model, inputs and a dict of run()'s options: all of them or none. They leave behind each other, so that the broker can make batches."""
        prepared = [self._prepare(model, inputs, copy, options) for model, inputs, options in jobs]
        self._lock.acquire()
        try:
            self._check_open()
            self._session.check_room(len(prepared), sum(job.payload_bytes for job in prepared))
            futures = [Future(self, job) for job in prepared]
            for job in prepared:
                self._session.submit(job)
            self._count_futures(len(futures))
            self._kick()
        finally:
            self._leave()
        return futures

    def _cancel(self, job: Job) -> None:
        self._lock.acquire()
        try:
            if not self._closing:
                self._session.cancel(job, time.monotonic())
                self._kick()
        finally:
            self._leave()

    # ---- detached jobs ----

    def detach(self, model: str, inputs: Inputs, *, keep_for: Optional[float] = None, secret: Optional[str] = None, **options: "Unpack[JobOptions]") -> str:
        """Submits a job that runs without this client, and returns its id once the broker has it on disk. keep_for: seconds that job and result are kept. secret: who knows
        it may cancel the job."""
        return self._run(self._prepare(model, inputs, False, detached_options(options, keep_for, secret))).job_id

    def _fetch(self, job_id: str, state: bool, deadline: Optional[float]) -> Job:
        self._check_open()
        return make_fetch(job_id, self._tenant, state, deadline)

    def fetch(self, job_id: str, deadline: Optional[float] = None) -> Result:
        """The result of a detached job, as soon as there is one."""
        return self._run(self._fetch(job_id, False, deadline))

    def submit_fetch(self, job_id: str, deadline: Optional[float] = None) -> Future:
        """As fetch(), but returns at once."""
        return self._submit(self._fetch(job_id, False, deadline))

    def detached_state(self, job_id: str, deadline: Optional[float] = None) -> DetachedState:
        """What becomes of a detached job, at once."""
        return self._run(self._fetch(job_id, True, deadline)).detached_state()

    # ---- questions ----

    def _ask(self, verb: str, argument: str, timeout: float) -> Any:
        self._check_open()
        self._lock.acquire()
        try:
            ask: Ask = self._session.ask(verb, argument)
            self._kick()
            try:
                self._drive_until(ask, time.monotonic() + timeout)
            finally:
                self._session.forget(ask)
        finally:
            self._leave()
        if not ask.done:
            raise self._no_answer(verb)
        return answer_of(ask)

    def models(self, timeout: float = 5.0) -> List[Model]:
        """The models of the pool."""
        return models_of(self._ask("models", "", timeout))

    def workers(self, timeout: float = 5.0) -> List[Any]:
        """The workers of the pool: records with the fields of WorkerInfo (proto/control.proto)."""
        return [record(worker) for worker in self._ask("workers", "", timeout).workers]

    def stats(self, timeout: float = 5.0) -> Any:
        """The broker's counters: a record with the fields of Stats (proto/control.proto)."""
        return record(self._ask("stats", "", timeout).stats)

    def explain(self, job_id: str, timeout: float = 5.0) -> Any:
        """Why a job ran where it did, waits, or was refused: a record with the fields of Explanation (proto/job.proto)."""
        return record(self._ask("explain", job_id, timeout).explanation)

    def trace(self, what: str = "recent", timeout: float = 5.0) -> str:
        """JSON of a job's life by its id, or of "recent", "errors", "slow" or "kept" jobs; behind a blank the form: "json", "chrome", "otlp"."""
        return str(self._ask("trace", what, timeout).text)

    def cancel(self, job_id: str, secret: str = "", timeout: float = 5.0) -> None:
        """Cancels a job by its id, also one of another session. secret: of a detached job."""
        self._ask("cancel", f"{job_id} {secret}" if secret else job_id, timeout)

    def drain(self, worker: str = "", timeout: float = 5.0) -> None:
        """Lets the broker finish and leave, or only the worker of that name."""
        self._ask("drain", worker, timeout)

    def load(self, model: str, timeout: float = 60.0) -> List[Any]:
        """Lets all workers load "NAME" or "NAME:VERSION" (again): records of what became of it on each."""
        return outcomes_of(self._ask("load", model, timeout))

    def unload(self, model: str, timeout: float = 60.0) -> List[Any]:
        """Lets all workers take a model, or one version of it, out of service."""
        return outcomes_of(self._ask("unload", model, timeout))

    def label(self, model: str, label: str, version: int, share: float = 0.0, timeout: float = 5.0) -> None:
        """Names a version; 0 takes the label back. share: of the jobs that name neither version nor label, 0 to 1."""
        self._ask("label", label_argument(model, label, version, share), timeout)

    def quarantine(self, job_id: str = "", timeout: float = 5.0) -> List[Any]:
        """The jobs in quarantine, or the one of that id: records with the fields of QuarantinedJob (proto/control.proto)."""
        return quarantine_of(self._ask("quarantine", job_id, timeout))

    def kick(self, job_id: str, timeout: float = 5.0) -> None:
        """Lets a job out of quarantine, or "all": equal ones may run again."""
        self._ask("kick", job_id, timeout)

    def log_level(self, level: str = "", whom: str = "", timeout: float = 5.0) -> str:
        """Changes how much "broker", "workers", a worker of that name or, without a name, all of them log: "debug", "info", "warn" or "error", until the next change
        or restart. JSON of what is in force."""
        return str(self._ask("log-level", f"{level} {whom}".strip(), timeout).text)
