"""What a session knows of its broker, and what its time brings: hello and welcome, losing a connection, leaving for the next broker, jobs that no broker takes.

The rules are those of the C library (client-lib/session/README.md has the table of states). Threads: one at a time, who owns the session.
"""
from __future__ import annotations

import heapq
import math
import os
from collections import OrderedDict, deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import job as jobs
from . import wire
from .errors import STATUS_NAMES, InvalidError, PenstockError
from .job import Job
from .link import Link
from .results import Result
from .schema import ClientHello, ControlRequest, Welcome
from .transfers import Transfers

SOFTWARE = "penstock-python 0.1.0"
HELLO, READY, REFUSED = range(3)
_HELLO_RETRY, _HELLO_NEXT, _HELLO_DOUBLINGS = 1.0, 0.25, 1
_REOPEN_PAUSE, _LEAVE, _LEAVE_LINGER_MS = 0.02, 0.2, 100
_RETRYABLE = frozenset(("BUSY", "UNAVAILABLE", "WORKER_LOST", "DEVICE_LOST", "TIMEOUT"))
_KEY_REFUSED = "the handshake failed: the broker does not take this key, wants one, or is not the one whose public key was given"
NEVER = math.inf


class Settings(NamedTuple):
    """What Client and AsyncClient are told, checked."""
    endpoint: str
    name: str
    tenant: str
    unreachable: float
    grace: float
    jobs_max: int
    bytes_max: int
    frame_bytes_max: int
    tell_drain: bool


class Ask:
    """A question to the broker."""
    __slots__ = ("serial", "packed", "sent", "done", "status", "error", "reply", "waiter", "notify")

    def __init__(self, serial: int, verb: str, argument: str):
        if len(argument.encode()) > 4096:
            raise InvalidError(f'the argument of "{verb}" is longer than 4096 bytes.')
        self.serial = serial
        self.packed = ControlRequest(verb=verb, argument=argument, serial=serial).SerializeToString()
        self.sent = self.done = False
        self.status, self.error = "OK", ""
        self.reply: Any = None
        self.waiter: Any = None
        self.notify: Optional[Callable[[Ask], None]] = None


def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


class Connection:
    """State and time of a session. `ended` collects jobs and questions that have ended, for whoever tells their waiters. `due`: run_timers() has nothing to do before; 0: unknown."""

    def __init__(self, settings: Settings, link: Link, brokers: List[str], now: float):
        self.settings, self.link, self.brokers = settings, link, brokers
        self.state = HELLO
        self.uuid = int.from_bytes(os.urandom(8), "little") or 1
        self.broker = self.uuid % len(brokers)
        self.refusal = ("OK", "")
        self.trouble = ""
        self.welcomed = False
        self.unanswered = 0  # hellos in a row
        self.opened = self.heard = self.sent = self.lost = now
        self.due = 0.0
        self.reopen = now
        self.acknowledge = NEVER
        self.unacknowledged = self.unacknowledged_bytes = 0
        self.heartbeat, self.liveness = 0.5, 1.5
        self.broker_minor = wire.MINOR
        self.digest_kind = wire.XXH3
        self.frame_max = self.job_max = self.bulk_bytes = self.digest_first = self.bulk_port = self.broker_uuid = 0
        self.easy_bytes = 0  # payloads of no more bytes fit this broker's limits
        self.detached = self.needs = self.contracts = self.leaving = self.draining = self.drop_wanted = False
        self.leave = NEVER
        self.held_since: Optional[float] = None
        self.left = 0  # brokers left in a row, without an answer between
        self.bulk_due = NEVER
        self.bulk_never = 0  # the broker whose port for large payloads does not come up
        self.pending: "OrderedDict[int, Job]" = OrderedDict()
        self.pending_bytes = 0
        self.last_sequence = 0
        self.unsent: Deque[Job] = deque()
        self.deadlines: List[Tuple[float, int]] = []
        self.cancels: List[Job] = []
        self.ordered: Deque[Job] = deque()  # not told yet, by sequence
        self.predecessors: "OrderedDict[Tuple[int, int], int]" = OrderedDict()
        self.asks: Dict[int, Ask] = {}
        self.serial = 0
        self.transfers = Transfers()
        self.ended: List[Any] = []
        self.counters = {"jobs_submitted": 0, "jobs_ended": 0, "results_duplicate": 0, "messages_bad": 0, "connections": 0, "jobs_resent": 0}

    # ---- jobs and questions end ----

    @staticmethod
    def _local(job: Job, status: str, text: str) -> Result:
        return Result(job.client, job.sequence, status, text)

    def _finish(self, job: Job, result: Result, now: float) -> None:
        if self.transfers.uploads or self.transfers.downloads:
            self.transfers.forget(job.sequence, result.status == "OK")
        del self.pending[job.sequence]
        self.pending_bytes -= job.payload_bytes
        job.state = jobs.ENDED
        result.round_trip = now - job.submitted
        job.result = result
        job.frames, job.inputs = [], []
        self.counters["jobs_ended"] += 1
        told: Sequence[Job] = self._end_ordered() if job.ordered else (job,)
        for one in told:
            one.done = True
            if one.notify is not None or one.waiter is not None:
                self.ended.append(one)

    def _end_ordered(self) -> List[Job]:
        """As far as they have ended without a gap."""
        found: List[Job] = []
        while self.ordered and self.ordered[0].state == jobs.ENDED:
            found.append(self.ordered.popleft())
        return found

    def _finish_all(self, status: str, text: str, now: float) -> None:
        for job in list(self.pending.values()):
            self._finish(job, self._local(job, status, text), now)

    def _settle(self, ask: Ask, status: str, text: str) -> None:
        ask.status, ask.error, ask.done = status, text, True
        self.ended.append(ask)

    def _fail_asks(self, status: str, text: str) -> None:
        for ask in list(self.asks.values()):
            if not ask.done:
                self._settle(ask, status, text)

    # ---- the broker speaks ----

    def _welcome(self, env: wire.Envelope, meta: bytes, now: float) -> None:
        self.unanswered = 0
        try:
            welcome = Welcome.FromString(meta)
        except Exception:
            self.counters["messages_bad"] += 1
            return
        status, text = STATUS_NAMES[env.status], welcome.error or "the broker refuses this client."
        if status == "OK":
            self._welcomed(welcome, env.minor, now)
        elif status in _RETRYABLE or (status == "DENIED" and self.welcomed):
            self.trouble = text
        else:
            self._refuse(status, text, now)

    def _welcomed(self, welcome: Any, minor: int, now: float) -> None:
        self.broker_minor = minor
        self.heartbeat = _clamp(welcome.heartbeat_us * 1e-6 or 0.5, 0.01, 60)
        self.liveness = _clamp(welcome.liveness_us * 1e-6 or 1.5, 2 * self.heartbeat, 300)
        self.frame_max, self.job_max, self.detached, self.needs = welcome.max_frame_bytes, welcome.max_job_bytes, welcome.detached, welcome.needs
        self.contracts = welcome.contracts
        self.easy_bytes = min(self.job_max or 1 << 62, self.frame_max or 1 << 62)
        self.bulk_bytes, self.bulk_port, self.broker_uuid = welcome.bulk_bytes, welcome.bulk_port, welcome.broker_uuid
        self.digest_first = welcome.digest_first_bytes if welcome.bulk_bytes else 0
        self.digest_kind = wire.SHA256 if welcome.digest_kind == wire.SHA256 else wire.XXH3
        self.trouble = ""
        self.state, self.welcomed = READY, True
        self._acknowledge(now)  # what came before the loss need not be kept or answered again

    def _resume(self, now: float) -> None:
        """The broker asks who we are."""
        if self.state != READY:
            return  # our hello is on its way
        if self.link.bulk is not None:  # what is under way on it is lost
            self._drop(now)
        else:
            self._forget_welcome(now)
            self._hello(now)

    def _drain(self, now: float) -> None:
        """The broker is about to end: there is another one, or its jobs wait for the one that comes in its place."""
        if self.state != READY or self.leaving:
            return
        if self.left + 1 < len(self.brokers):
            self.leaving, self.leave = True, now + _LEAVE
        else:
            self.draining = not self.settings.tell_drain

    # ---- the connection ----

    def _plain(self, kind: int, now: float, sequence: int = 0) -> None:
        self.link.send(wire.encode(kind, self.uuid, sequence))
        self.sent = now

    def _acknowledge(self, now: float) -> None:
        answered = next(iter(self.pending)) - 1 if self.pending else self.last_sequence
        self.unacknowledged = self.unacknowledged_bytes = 0
        self.acknowledge = NEVER
        if answered:
            self._plain(wire.ACK, now, answered)

    def _hello(self, now: float) -> None:
        settings = self.settings
        hello = ClientHello(uuid=self.uuid, software=SOFTWARE, name=settings.name, tenant=settings.tenant, grace_us=int(settings.grace * 1e6), bulk=True)
        self.link.send(wire.encode(wire.CLIENT_HELLO, self.uuid, meta=hello.SerializeToString()))
        self.sent = self.opened = now

    def _forget_welcome(self, now: float) -> None:
        """No longer welcomed: what was sent is unanswered and will be sent again."""
        if self.state == READY:
            self.lost = now
        self.state = HELLO
        self.leaving = self.draining = False
        self.leave, self.held_since = NEVER, None
        self.transfers.reset()
        for job in self.pending.values():
            if job.state == jobs.SENT:
                job.state = jobs.WAITS
        self.unsent = deque(self.pending.values())
        for ask in self.asks.values():
            ask.sent = False

    def _drop(self, now: float) -> None:
        if self.state == REFUSED:
            return
        self._forget_welcome(now)
        self.link.close(0)
        self.bulk_due = NEVER
        self.reopen = self.opened + _REOPEN_PAUSE

    def _next_broker(self) -> None:
        self.broker = (self.broker + 1) % len(self.brokers)

    def connection_lost(self, now: float) -> None:
        """The connection is gone: the next broker is tried."""
        self.due = 0.0
        if self.state != REFUSED:
            self._drop(now)
            self._next_broker()

    def _refuse(self, status: str, text: str, now: float) -> None:
        self.state, self.refusal = REFUSED, (status, text)
        self.link.close(0)
        self.bulk_due = NEVER
        self._finish_all(status, text, now)
        self._fail_asks(status, text)

    def _hello_wait(self) -> float:
        first = _HELLO_NEXT if len(self.brokers) > 1 else _HELLO_RETRY
        return first * (1 << min(self.unanswered // len(self.brokers), _HELLO_DOUBLINGS))

    def _open(self, now: float) -> None:
        self.link.close(0)
        self.bulk_due = self.reopen = NEVER
        try:
            self.link.open(self.brokers[self.broker])
        except PenstockError as error:
            self.trouble = error.text
            self.opened, self.reopen = now, now + self._hello_wait()
            self._next_broker()
            return
        self.counters["connections"] += 1
        self.heard = now
        self._hello(now)

    def _leave_broker(self, now: float) -> None:
        """For another one: the rest of the jobs goes there."""
        self._acknowledge(now)
        self._plain(wire.GOODBYE, now)
        self._forget_welcome(now)
        self.link.close(_LEAVE_LINGER_MS)
        self.bulk_due = NEVER
        self._next_broker()
        self.left += 1
        self.reopen = self.opened + _REOPEN_PAUSE

    def why_not(self) -> str:
        """What went wrong on the way to a welcome; "" when nothing is known."""
        return _KEY_REFUSED if self.link.refused or self.link.refused_before else self.trouble

    def end(self, now: float) -> None:
        """The session is over: unanswered jobs end CANCELLED here and are cancelled at the broker."""
        self.due = 0.0
        ready = self.state == READY
        if ready:
            self._acknowledge(now)
            self._plain(wire.GOODBYE, now)
        self.link.close(_LEAVE_LINGER_MS if ready else 0)
        self.state, self.refusal = REFUSED, ("CANCELLED", "the client was closed.")
        self._finish_all("CANCELLED", "the client was closed before the answer came.", now)
        self._fail_asks("CANCELLED", "the client was closed before the answer came.")

    # ---- time ----

    def _stranded(self) -> Optional[Job]:
        """The oldest job that no broker has."""
        if self.state == HELLO:
            return next(iter(self.pending.values()), None)
        if self.held_since is None:
            return None
        held = (job for job in self.pending.values() if job.state in (jobs.HELD, jobs.WAITS))
        return next(held, None)

    def _give_up_at(self) -> float:
        """A job that no broker has ends when both it and the loss are old enough."""
        limit = self.settings.unreachable
        job = self._stranded() if limit and self.pending and (self.state == HELLO or self.held_since is not None) else None
        if not job:
            return NEVER
        since = self.lost if self.held_since is None else self.held_since
        return max(since, job.submitted) + limit

    def _give_up(self, now: float) -> None:
        if self.held_since is not None:
            text = f"the broker at {self.settings.endpoint} is draining and no other took its place for {now - self.held_since:.1f} s."
        else:
            why = self.why_not()
            text = f"no broker at {self.settings.endpoint} for {now - self.lost:.1f} s{': ' + why if why else ''}; is penstock-broker running there?"
        while self._give_up_at() <= now:
            job = self._stranded()
            assert job is not None
            self._finish(job, self._local(job, "UNAVAILABLE", text), now)

    def _expire(self, now: float) -> None:
        while self.deadlines and self.deadlines[0][0] <= now:
            job = self.pending.get(heapq.heappop(self.deadlines)[1])
            if job:
                why = "" if job.sends else "; it had not been sent yet" if self.state == READY else "; no broker was reached"
                text = f"the deadline passed after {int((now - job.submitted) * 1e6)} us without an answer{why}."
                self._finish(job, self._local(job, "DEADLINE", text), now)

    def _nothing_sent(self) -> bool:
        return not any(job.state == jobs.SENT for job in self.pending.values())

    def _stall_at(self) -> float:
        return self.transfers.moved_at + self.liveness if self.transfers.downloads else NEVER

    def _ready_run(self, now: float) -> None:
        if self.bulk_due < NEVER and self.link.bulk_up:
            self.bulk_due = NEVER
        if now >= self.heard + self.liveness or now >= self._stall_at():
            self.connection_lost(now)
        elif now >= self.bulk_due:  # large payloads go to the endpoint itself next time
            self.bulk_never = self.broker_uuid
            self._drop(now)
        elif self.leaving and (now >= self.leave or self._nothing_sent()):
            self._leave_broker(now)
        elif now >= self.acknowledge:
            self._acknowledge(now)
        elif now >= self.sent + self.heartbeat:
            self._plain(wire.PING, now)

    def run_timers(self, now: float) -> None:
        """What is due now; needs no call before `due`."""
        self.due = 0.0
        if self.deadlines:
            self._expire(now)
        if self.state == REFUSED:
            return
        if self.state != READY or self.held_since is not None:
            if self._give_up_at() <= now:
                self._give_up(now)
        if self.drop_wanted:
            self.drop_wanted = False
            self._drop(now)
        if self.state == READY:
            self._ready_run(now)
        elif self.reopen == NEVER and now >= self.opened + self._hello_wait():
            self.unanswered += 1
            self._next_broker()
            self.reopen = now
        if now >= self.reopen:
            self._open(now)

    def next_due(self) -> float:
        """When run_timers() has something to do, or somewhat earlier."""
        if not self.due:
            self.due = self._find_due()
        return self.due

    def _find_due(self) -> float:
        due = self.deadlines[0][0] if self.deadlines else NEVER
        if self.state == READY:
            due = min(due, self.acknowledge, self.heard + self.liveness, self.sent + self.heartbeat, self.leave, self.bulk_due)
            if self.transfers.downloads:
                due = min(due, self._stall_at())
            return due if self.held_since is None else min(due, self._give_up_at())
        if self.state == HELLO:
            due = min(due, self._give_up_at(), self.opened + self._hello_wait() if self.reopen == NEVER else self.reopen)
        return due
