"""AsyncClient: the calls of Client for asyncio. It moves the session on the event loop: no threads. It reads the sockets' descriptors itself rather than through zmq.asyncio, so
that both clients share one session and its rules."""
from __future__ import annotations

import asyncio
import math
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterable, List, Mapping, Optional, Tuple, Type

import zmq

from .connection import HELLO, READY, Ask
from .errors import InvalidError
from .job import Job, make_fetch, make_job
from .pool import (Base, Inputs, Model, answer_of, detached_options, inputs_are_plain, label_argument, models_of, named_inputs, outcomes_of, quarantine_of,
                   record)
from .results import DetachedState, Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .pool import JobOptions

_TURN_MESSAGES = 256  # handled before other tasks have their turn


class AsyncFuture(asyncio.Future):  # type: ignore[type-arg]
    """A job under way: await it. Cancelling it, or the task that awaits it, asks the pool to stop the job."""

    def __init__(self, client: "AsyncClient", job: Job):
        super().__init__()
        self._client = client
        self._job = job
        job.notify = self._end

    @property
    def job_id(self) -> str:
        """The id that logs, `penstock cancel` and the broker use."""
        return self._job.id

    def cancel(self, msg: Any = None) -> bool:
        if self.done():
            return False
        self._client._cancel(self._job)
        return super().cancel()

    def _end(self, job: Job) -> None:
        assert job.result is not None
        if self.done():  # nobody wants it any more
            return
        error = job.result.exception()
        if error:
            self.set_exception(error)
        else:
            self.set_result(job.result)


class AsyncClient(Base):
    """As Client, for one event loop: make it and use it there. `async with AsyncClient() as client:` closes it."""

    def __init__(self, endpoint: str = "tcp://127.0.0.1:5550", **settings: Any):
        super().__init__(endpoint, **settings)
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._timer: Any = None
        self._readers_of = -1
        self._readers: List[int] = []
        self._welcomes: List[asyncio.Future[None]] = []
        self._closed = self._turning = self._again = False
        self._link.before_close = self._forget_reader

    # ---- the event loop ----

    def _start(self) -> None:
        if self._closed:
            raise InvalidError("this client is closed.")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._turn()
        elif self._loop is not loop:
            raise InvalidError("an AsyncClient belongs to the event loop that used it first.")

    def _forget_reader(self, socket: Any) -> None:
        """Before its descriptor is closed."""
        descriptor = socket.getsockopt(zmq.FD)
        if descriptor in self._readers and self._loop is not None:
            self._readers.remove(descriptor)
            self._loop.remove_reader(descriptor)

    def _watch(self) -> None:
        assert self._loop is not None
        for socket in self._link.sockets():
            descriptor = socket.getsockopt(zmq.FD)
            if descriptor not in self._readers:
                self._readers.append(descriptor)
                self._loop.add_reader(descriptor, self._turn)
        self._readers_of = self._link.generation

    def _step(self) -> bool:
        """Timers and queues, then messages. True: there may be more."""
        session, link = self._session, self._link
        now = time.monotonic()
        try:
            if now >= session.due:
                session.run_timers(now)
            session.flush(now)
            lost = link.lost()
            messages = link.receive(1 << 20 if lost else _TURN_MESSAGES)
            for header, frames in messages:
                session.receive(header, frames, now)
            session.flush(now)
        except zmq.ZMQError as error:
            session.trouble, lost, messages = f"the connection failed: {error}", True, []
        if lost:
            session.connection_lost(now)
        return bool(messages) or lost

    def _turn(self) -> None:
        """The descriptors tell only of changes: a turn ends when there is nothing left to read."""
        if self._turning or self._closed:
            self._again = True
            return
        assert self._loop is not None
        self._turning = True
        try:
            more = self._step()
        finally:
            self._turning = False
        if self._readers_of != self._link.generation:
            self._watch()
            more = True
        self._tell()
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._closed:
            return
        if more or self._again:
            self._again = False
            self._timer = self._loop.call_soon(self._turn)
            return
        due = self._session.next_due()
        if due < math.inf:
            self._timer = self._loop.call_later(max(0.0, due - time.monotonic()), self._turn)

    def _tell(self) -> None:
        ended, self._session.ended = self._session.ended, []
        for one in ended:
            if one.notify is not None:
                one.notify(one)
        if self._session.state != HELLO and self._welcomes:
            welcomes, self._welcomes = self._welcomes, []
            for future in welcomes:
                if not future.done():
                    future.set_result(None)

    # ---- a session's life ----

    async def __aenter__(self) -> "AsyncClient":
        self._start()
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the session: unanswered jobs end with CancelledError and are cancelled at the broker."""
        if self._closed:
            return
        if self._timer:
            self._timer.cancel()
        self._session.end(time.monotonic())
        self._tell()
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._link.end)  # it may take as long as the farewell lingers

    async def wait_ready(self, timeout: float = 10.0) -> None:
        """Waits until a broker has welcomed this session."""
        self._start()
        if self._session.state == HELLO:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._welcomes.append(future)
            await asyncio.wait([future], timeout=timeout)
            future.cancel()
        if self._session.state != READY:
            raise self._not_ready(timeout)

    # ---- jobs ----

    async def _prepare(self, model: str, inputs: Inputs, copy: bool, options: Any) -> Job:
        self._start()
        if not inputs_are_plain(inputs):
            version = options.get("version", 0)
            known = self._known(model, version)
            inputs = named_inputs(known or self._learn(model, version, await self.models()), inputs)
        return make_job(model, inputs, copy=copy, tenant=self._tenant, digest_kind=self._session.digest_kind, **options)

    def _submit(self, job: Job) -> AsyncFuture:
        future = AsyncFuture(self, job)
        self._session.submit(job)
        self._soon()
        return future

    def _soon(self) -> None:
        """Jobs that are submitted one after the other leave together."""
        assert self._loop is not None
        if not self._again:
            self._again = True
            self._loop.call_soon(self._turn_again)

    def _turn_again(self) -> None:
        self._again = False
        self._turn()

    def _cancel(self, job: Job) -> None:
        if not self._closed:
            self._session.cancel(job, time.monotonic())
            self._soon()

    async def run(self, model: str, inputs: Inputs, **options: "Unpack[JobOptions]") -> Result:
        """As Client.run."""
        result: Result = await self._submit(await self._prepare(model, inputs, False, options))
        return result

    async def submit(self, model: str, inputs: Inputs, *, copy: bool = True, **options: "Unpack[JobOptions]") -> AsyncFuture:
        """As run(), but returns a future at once."""
        return self._submit(await self._prepare(model, inputs, copy, options))

    async def submit_many(self, jobs: Iterable[Tuple[str, Inputs, Mapping[str, Any]]], *, copy: bool = True) -> List[AsyncFuture]:
        """As Client.submit_many."""
        prepared = [await self._prepare(model, inputs, copy, options) for model, inputs, options in jobs]
        self._session.check_room(len(prepared), sum(job.payload_bytes for job in prepared))
        return [self._submit(job) for job in prepared]

    async def detach(self, model: str, inputs: Inputs, *, keep_for: Optional[float] = None, secret: Optional[str] = None, **options: "Unpack[JobOptions]") -> str:
        """As Client.detach."""
        job = await self._prepare(model, inputs, False, detached_options(options, keep_for, secret))
        result: Result = await self._submit(job)
        return result.job_id

    async def _fetch(self, job_id: str, state: bool, deadline: Optional[float]) -> Result:
        self._start()
        result: Result = await self._submit(make_fetch(job_id, self._tenant, state, deadline))
        return result

    async def fetch(self, job_id: str, deadline: Optional[float] = None) -> Result:
        """As Client.fetch."""
        return await self._fetch(job_id, False, deadline)

    async def submit_fetch(self, job_id: str, deadline: Optional[float] = None) -> AsyncFuture:
        """As Client.submit_fetch."""
        self._start()
        return self._submit(make_fetch(job_id, self._tenant, False, deadline))

    async def detached_state(self, job_id: str, deadline: Optional[float] = None) -> DetachedState:
        """As Client.detached_state."""
        return (await self._fetch(job_id, True, deadline)).detached_state()

    # ---- questions ----

    async def _ask(self, verb: str, argument: str, timeout: float) -> Any:
        self._start()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ask: Ask = self._session.ask(verb, argument)
        ask.notify = lambda _: None if future.done() else future.set_result(None)
        self._soon()
        try:
            await asyncio.wait([future], timeout=timeout)
        finally:
            future.cancel()
            self._session.forget(ask)
        if not ask.done:
            raise self._no_answer(verb)
        return answer_of(ask)

    async def models(self, timeout: float = 5.0) -> List[Model]:
        """As Client.models."""
        return models_of(await self._ask("models", "", timeout))

    async def workers(self, timeout: float = 5.0) -> List[Any]:
        """As Client.workers."""
        return [record(worker) for worker in (await self._ask("workers", "", timeout)).workers]

    async def stats(self, timeout: float = 5.0) -> Any:
        """As Client.stats."""
        return record((await self._ask("stats", "", timeout)).stats)

    async def explain(self, job_id: str, timeout: float = 5.0) -> Any:
        """As Client.explain."""
        return record((await self._ask("explain", job_id, timeout)).explanation)

    async def trace(self, what: str = "recent", timeout: float = 5.0) -> str:
        """As Client.trace."""
        return str((await self._ask("trace", what, timeout)).text)

    async def cancel(self, job_id: str, secret: str = "", timeout: float = 5.0) -> None:
        """As Client.cancel."""
        await self._ask("cancel", f"{job_id} {secret}" if secret else job_id, timeout)

    async def drain(self, worker: str = "", timeout: float = 5.0) -> None:
        """As Client.drain."""
        await self._ask("drain", worker, timeout)

    async def load(self, model: str, timeout: float = 60.0) -> List[Any]:
        """As Client.load."""
        return outcomes_of(await self._ask("load", model, timeout))

    async def unload(self, model: str, timeout: float = 60.0) -> List[Any]:
        """As Client.unload."""
        return outcomes_of(await self._ask("unload", model, timeout))

    async def label(self, model: str, label: str, version: int, share: float = 0.0, timeout: float = 5.0) -> None:
        """As Client.label."""
        await self._ask("label", label_argument(model, label, version, share), timeout)

    async def quarantine(self, job_id: str = "", timeout: float = 5.0) -> List[Any]:
        """As Client.quarantine."""
        return quarantine_of(await self._ask("quarantine", job_id, timeout))

    async def kick(self, job_id: str, timeout: float = 5.0) -> None:
        """As Client.kick."""
        await self._ask("kick", job_id, timeout)

    async def log_level(self, level: str = "", whom: str = "", timeout: float = 5.0) -> str:
        """As Client.log_level."""
        return str((await self._ask("log-level", f"{level} {whom}".strip(), timeout)).text)
