"""Client: jobs from any thread. A caller that waits for its job drives the session itself, so that a job costs no change of threads; a housekeeping thread does so for
futures, and keeps heartbeats and deadlines when nobody waits."""
from __future__ import annotations

import concurrent.futures
import math
import os
import threading
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Deque, List, Optional, Type

import zmq

from .job import Job
from .errors import InvalidError
from .pool import Base, Inputs, Model, answer_of, inputs_are_plain, models_of, named_inputs, record
from .results import DetachedState, Result
from .session import HELLO, READY, Ask

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .pool import JobOptions

_TURN_MESSAGES = 256  # handled before the timers are looked at again
_BUSY_TURN = 0.02


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


class _Until:
    """Something to wait for that is no job: what `question` says."""
    waiter: Any = None

    def __init__(self, question: Any):
        self._question = question

    @property
    def done(self) -> bool:
        return bool(self._question())


def _release(lock: Any) -> None:
    try:
        lock.release()
    except RuntimeError:
        pass  # it was woken already


class Client(Base):
    """A session with a broker, or with one of several. Threads: any. `with Client() as client:` closes it; do not use it in a child after os.fork().

    >>> import numpy as np
    >>> from penstock import Client, UnavailableError
    >>> with Client("tcp://127.0.0.1:9", unreachable=0.05) as client:
    ...     try:
    ...         client.run("digits", {"image": np.zeros((1, 28, 28), np.uint8)})
    ...     except UnavailableError as error:
    ...         print(error.status)
    UNAVAILABLE
    """

    def __init__(self, endpoint: str = "tcp://127.0.0.1:5550", **settings: Any):
        super().__init__(endpoint, **settings)
        self._lock = threading.Lock()
        self._driving = self._closing = self._closed = self._nudged = self._pump_asleep = False
        self._followers: Deque[Any] = deque()
        self._futures = 0
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poller: Any = None
        self._poller_of = -1
        self._pump_wake = threading.Lock()
        self._pump_wake.acquire()
        with self._lock:
            self._session.run_timers(time.monotonic())
        self._pump = threading.Thread(target=self._pump_run, name="penstock", daemon=True)
        self._pump.start()

    # ---- who moves the session ----

    def _nudge(self) -> None:
        if not self._nudged:
            self._nudged = True
            os.write(self._wake_write, b"!")

    def _kick(self) -> None:
        """With the lock: there is something to send."""
        if self._driving:
            self._nudge()
            return
        self._session.flush(time.monotonic())
        if self._pump_asleep:
            self._pump_asleep = False
            _release(self._pump_wake)

    def _take_ended(self) -> List[Any]:
        ended, self._session.ended = self._session.ended, []
        for one in ended:
            self._futures -= one.notify is not None and isinstance(one, Job)
        return ended

    @staticmethod
    def _tell(ended: List[Any]) -> None:
        """Without the lock."""
        for one in ended:
            if one.notify is not None:
                one.notify(one)
            if one.waiter is not None:
                _release(one.waiter)

    def _leave(self) -> None:
        """Gives the lock back and tells who has ended."""
        ended = self._take_ended() if self._session.ended else ()
        self._lock.release()
        if ended:
            self._tell(ended)

    def _wait_messages(self, timeout: float) -> Any:
        """Without the lock, owning the sockets: messages that came, and whether the connection is gone."""
        link = self._link
        if self._poller_of != link.generation:
            self._poller = zmq.Poller()
            for socket in link.sockets():
                self._poller.register(socket, zmq.POLLIN)
            self._poller.register(self._wake_read, zmq.POLLIN)
            self._poller_of = link.generation
        ready = self._poller.poll(min(math.ceil(timeout * 1000), 60000) if timeout > 0 else 0)
        messages: Any = ()
        lost = False
        for socket, _ in ready:
            if socket == self._wake_read:
                os.read(self._wake_read, 4096)
            elif socket is link.socket or socket is link.bulk:
                messages = messages or link.receive(_TURN_MESSAGES)
            else:
                lost = link.lost()
        if lost:  # the last replies of a leaving broker
            messages = list(messages) + link.receive(1 << 20)
        return messages, lost

    def _turn(self, item: Any, limit: float) -> None:
        """Timers and queues, then messages. With the lock and the sockets; the lock is not kept throughout."""
        session = self._session
        now = time.monotonic()
        self._nudged = False
        try:
            session.run_timers(now)
            session.flush(now)
        except zmq.ZMQError as error:
            session.trouble = f"the connection failed: {error}"
            session.connection_lost(now)
        ended = self._take_ended() if session.ended else ()
        stop = item.done
        timeout = 0 if stop else min(session.next_due(), limit) - now
        self._lock.release()
        messages, lost = (), False
        try:
            if ended:
                self._tell(ended)
            if not stop:
                messages, lost = self._wait_messages(timeout)
        finally:
            self._lock.acquire()
        if messages or lost:
            self._handle(messages, lost)

    def _handle(self, messages: Any, lost: bool) -> None:
        now = time.monotonic()
        session = self._session
        try:
            for header, frames in messages:
                session.receive(header, frames, now)
        except zmq.ZMQError as error:
            session.trouble, lost = f"the connection failed: {error}", True
        if lost:
            session.connection_lost(now)

    def _lead(self, item: Any, limit: float) -> None:
        self._driving = True
        try:
            while not item.done and not self._closing and time.monotonic() < limit:
                self._turn(item, limit)
        finally:
            self._driving = False
            self._pass_on()

    def _pass_on(self) -> None:
        """The sockets are free: the oldest who waits for them is woken, else the housekeeper, if it is wanted."""
        if self._followers:
            _release(self._followers[0])
        elif self._futures and self._pump_asleep:
            self._pump_asleep = False
            _release(self._pump_wake)

    def _follow(self, item: Any, limit: float) -> None:
        waiter = item.waiter
        if waiter is None:
            waiter = item.waiter = threading.Lock()
        waiter.acquire(blocking=False)
        self._followers.append(waiter)
        ended = self._take_ended() if self._session.ended else ()
        self._lock.release()
        try:
            self._tell(ended)  # type: ignore[arg-type]
            wait = limit - time.monotonic()
            waiter.acquire(timeout=-1 if wait == math.inf else max(0.0, min(wait, 1e6)))
        finally:
            self._lock.acquire()
            self._followers.remove(waiter)

    def _drive_until(self, item: Any, limit: float) -> None:
        """With the lock: until item.done, the limit, or the client is closed."""
        while not item.done and not self._closing and time.monotonic() < limit:
            if self._driving:
                self._follow(item, limit)
            else:
                self._lead(item, limit)
        if not self._driving:
            self._pass_on()  # we may have been chosen and found that we are done

    def _pump_run(self) -> None:
        never = _Until(lambda: not self._futures)
        self._lock.acquire()
        while not self._closing:
            if not self._driving and self._futures:
                self._lead(never, math.inf)
            elif not self._driving:
                self._lead_once()
            self._pump_sleep()
        self._leave()

    def _lead_once(self) -> None:
        self._driving = True
        try:
            self._turn(_Until(lambda: False), 0)
        finally:
            self._driving = False
            self._pass_on()

    def _pump_sleep(self) -> None:
        if self._closing or (self._futures and not self._driving):
            return
        session = self._session
        wait = session.next_due() - time.monotonic()
        wait = min(wait, _BUSY_TURN) if session.busy() else wait
        self._pump_asleep = True
        self._leave()
        self._pump_wake.acquire(timeout=min(max(wait, 0.001), 60))
        self._lock.acquire()
        self._pump_asleep = False

    # ---- a session's life ----

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session: unanswered jobs end with CancelledError and are cancelled at the broker. A second call does nothing."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._nudge()
            _release(self._pump_wake)
            for waiter in self._followers:
                _release(waiter)
        if threading.current_thread() is not self._pump:
            self._pump.join()
        while True:  # a caller that drives leaves at once
            self._lock.acquire()
            if not self._driving or threading.current_thread() is self._pump:
                break
            self._nudge()
            self._lock.release()
            time.sleep(0.0005)
        self._session.end(time.monotonic())
        self._closed = True
        self._leave()
        self._link.end()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def wait_ready(self, timeout: float = 10.0) -> None:
        """Waits until a broker has welcomed this session. UnavailableError after the timeout; the broker's reason when it refuses."""
        self._check_open()
        self._lock.acquire()
        try:
            self._drive_until(_Until(lambda: self._session.state != HELLO), time.monotonic() + timeout)
            ready = self._session.state == READY
        finally:
            self._leave()
        if not ready:
            raise self._not_ready(timeout)

    def _check_open(self) -> None:
        if self._closing:
            raise InvalidError("this client is closed.")

    # ---- jobs ----

    def _prepare(self, model: str, inputs: Inputs, copy: bool, options: Any) -> Job:
        self._check_open()
        if not inputs_are_plain(inputs):
            version = options.get("version", 0)
            known = self._known(model, version)
            inputs = named_inputs(known or self._learn(model, version, self.models()), inputs)
        return self._job(model, inputs, copy, options)

    def run(self, model: str, inputs: Inputs, **options: "Unpack[JobOptions]") -> Result:
        """Submits a job and waits for its answer; raises the error that it ends with.

        inputs: arrays by the names of the model's inputs; or, without names, one value or a tuple in the model's order. Lists become arrays of the model's element type,
        a Pillow image the pixels that it takes. outputs: names wanted, all without. version or label: which version of the model. parameters: of the model; part of the cache's key. tags: the worker must carry all.
        backend: which must run it. deadline: seconds from now. priority: 1 is the most urgent, 0 the model's default. precision: the class demanded ("f32", ...).
        top_k: so many best classes of each row. cache=False: neither read from nor stored in the result cache. explain: Result.explanation. trace=True: kept for trace();
        "layers": and the run's layers are measured. traceparent: W3C trace context. sequence: of models that keep state between jobs: jobs of one number, a first
        one (sequence_start) and a last one (sequence_end).
        """
        job = self._prepare(model, inputs, False, options)
        return self._run(job)

    def _run(self, job: Job) -> Result:
        self._lock.acquire()
        try:
            self._check_open()
            self._session.submit(job)
            if self._driving:
                self._nudge()
            try:
                self._drive_until(job, math.inf)
            except BaseException:  # the caller was interrupted
                self._session.cancel(job, time.monotonic())
                self._kick()
                raise
            if job.result is None:  # the client is being closed
                self._session.cancel(job, time.monotonic())
        finally:
            self._leave()
        result = job.result if job.result is not None else Result(job.id, "CANCELLED", "the client was closed before the answer came.")
        error = result.exception()
        if error:
            raise error
        return result

    def _submit(self, job: Job) -> Future:
        future = Future(self, job)
        self._lock.acquire()
        try:
            self._check_open()
            self._session.submit(job)
            self._futures += 1
            self._kick()
        finally:
            self._leave()
        return future

    def submit(self, model: str, inputs: Inputs, *, copy: bool = True, **options: "Unpack[JobOptions]") -> Future:
        """As run(), but returns at once. copy=False: the inputs' arrays are not copied and must not change until the job has ended."""
        return self._submit(self._prepare(model, inputs, copy, options))

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
        job = self._prepare(model, inputs, False, {**options, "detach": True, "keep_for": keep_for, "secret": secret})
        return self._run(job).job_id

    def fetch(self, job_id: str, deadline: Optional[float] = None) -> Result:
        """The result of a detached job, as soon as there is one."""
        self._check_open()
        return self._run(self._job("", {}, False, {"detached": job_id, "deadline": deadline}))

    def submit_fetch(self, job_id: str, deadline: Optional[float] = None) -> Future:
        """As fetch(), but returns at once."""
        self._check_open()
        return self._submit(self._job("", {}, False, {"detached": job_id, "deadline": deadline}))

    def detached_state(self, job_id: str, deadline: Optional[float] = None) -> DetachedState:
        """What becomes of a detached job, at once."""
        self._check_open()
        state = self._run(self._job("", {}, False, {"detached": job_id, "detached_state": True, "deadline": deadline})).detached
        assert state is not None
        return state

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
        return [record(outcome) for outcome in self._ask("load", model, timeout).outcomes]

    def unload(self, model: str, timeout: float = 60.0) -> List[Any]:
        """Lets all workers take a model, or one version of it, out of service."""
        return [record(outcome) for outcome in self._ask("unload", model, timeout).outcomes]

    def label(self, model: str, label: str, version: int, share: float = 0.0, timeout: float = 5.0) -> None:
        """Names a version; 0 takes the label back. share: of the jobs that name neither version nor label, 0 to 1."""
        if not 0 <= share <= 1:
            raise InvalidError("the share of a label lies between 0 and 1.")
        self._ask("label", f"{model} {label} {version} {int(share * 1e6 + 0.5)}", timeout)


