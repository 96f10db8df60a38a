"""The client's side of the protocol: what a message changes, what is sent, and what happens because its time has come. Nothing here waits.

The rules are those of the C library (client-lib/session/README.md has the table of states). Threads: one at a time, who owns the session.
"""
from __future__ import annotations

import heapq
import math
import os
from collections import OrderedDict, deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

from . import job as jobs
from . import wire
from .errors import STATUS_NAMES, BusyError, InvalidError, PenstockError, error_class
from .job import Job
from .link import Link
from .payloads import Payloads
from .results import Result, read_result
from .schema import ClientHello, ControlReply, ControlRequest, Welcome
from .transfers import Transfers

SOFTWARE = "penstock-python 0.1.0"
HELLO, READY, REFUSED = range(3)
_HELLO_RETRY, _HELLO_NEXT, _HELLO_DOUBLINGS = 1.0, 0.25, 1
_REOPEN_PAUSE, _LEAVE, _LEAVE_LINGER_MS = 0.02, 0.2, 100
_ACK_AFTER, _ACK_COUNT, _ACK_BYTES = 0.05, 64, 1 << 20
_SENDS_MAX = 16
_PREDECESSORS_MAX = 8192
_RETRYABLE = frozenset(("BUSY", "UNAVAILABLE", "WORKER_LOST", "DEVICE_LOST", "TIMEOUT"))
_KEY_REFUSED = "the handshake failed: the broker does not take this key, wants one, or is not the one whose public key was given"
_NEVER = math.inf


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


class Session:
    """`ended` collects jobs and questions that have ended, for whoever tells their waiters."""

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
        self.reopen = now
        self.acknowledge = _NEVER
        self.unacknowledged = self.unacknowledged_bytes = 0
        self.heartbeat, self.liveness = 0.5, 1.5
        self.broker_minor = wire.MINOR
        self.digest_kind = wire.XXH3
        self.frame_max = self.job_max = self.bulk_bytes = self.digest_first = self.bulk_port = self.broker_uuid = 0
        self.detached = self.leaving = self.draining = self.drop_wanted = False
        self.leave = _NEVER
        self.held_since: Optional[float] = None
        self.left = 0  # brokers left in a row, without an answer between
        self.bulk_due = _NEVER
        self.bulk_never = 0  # the broker whose port for large payloads does not come up
        self.pending: "OrderedDict[int, Job]" = OrderedDict()
        self.pending_bytes = 0
        self.last_sequence = 0
        self.unsent: Deque[Job] = deque()
        self.deadlines: List[Tuple[float, int]] = []
        self.cancels: List[Job] = []
        self.predecessors: "OrderedDict[Tuple[int, int], int]" = OrderedDict()
        self.asks: Dict[int, Ask] = {}
        self.serial = 0
        self.transfers = Transfers()
        self.payloads = Payloads(self)
        self.ended: List[Any] = []
        self.counters = {"jobs_submitted": 0, "jobs_ended": 0, "results_duplicate": 0, "messages_bad": 0, "connections": 0, "jobs_resent": 0}

    # ---- what callers do ----

    def submit(self, job: Job) -> None:
        """The job gets its number and will end once. BusyError at the client's own limits; the refusal of a session that is refused."""
        if self.state == REFUSED:
            raise error_class(self.refusal[0])(self.refusal[1])
        if len(self.pending) >= self.settings.jobs_max:
            raise BusyError(f"{len(self.pending)} jobs of this client await answers, its limit; wait for some or raise jobs_max.")
        if self.pending_bytes + job.payload_bytes > self.settings.bytes_max:
            raise BusyError(f"{self.pending_bytes} bytes of this client's jobs await answers, {job.payload_bytes} more exceed its limit bytes_max of "
                            f"{self.settings.bytes_max}.")
        self.last_sequence += 1
        job.client, job.sequence = self.uuid, self.last_sequence
        if job.sequence_id:
            self._follow(job)
        self.pending[job.sequence] = job
        self.pending_bytes += job.payload_bytes
        self.unsent.append(job)
        self.counters["jobs_submitted"] += 1
        if job.deadline < _NEVER:
            heapq.heappush(self.deadlines, (job.deadline, job.sequence))
            if len(self.deadlines) > 2 * len(self.pending) + 1024:  # most are of jobs that have ended
                self.deadlines = [entry for entry in self.deadlines if entry[1] in self.pending]
                heapq.heapify(self.deadlines)

    def _follow(self, job: Job) -> None:
        """Which job came before under this sequence id. One that goes on with what is not known to have begun names itself, which no open sequence can follow."""
        key = (job.model_hash, job.sequence_id)
        before = self.predecessors.pop(key, 0)
        self.predecessors[key] = job.sequence
        if len(self.predecessors) > _PREDECESSORS_MAX:
            self.predecessors.popitem(last=False)
        job.follow(before if before or job.flags & wire.FLAG_SEQUENCE_START else job.sequence)

    def cancel(self, job: Job, now: float) -> None:
        if job.state == jobs.ENDED or job.cancelled or not job.sequence:
            return
        job.cancelled = True
        if self.state != READY or not job.sends or job.state == jobs.HELD:
            self._finish(job, self._local(job, "CANCELLED", "the caller cancelled the job before it was sent."), now)
            return
        job.cancel_unsent = True
        self.cancels.append(job)

    def ask(self, verb: str, argument: str) -> Ask:
        if self.state == REFUSED:
            raise error_class(self.refusal[0])(self.refusal[1])
        self.serial += 1
        ask = self.asks[self.serial] = Ask(self.serial, verb, argument)
        return ask

    def forget(self, ask: Ask) -> None:
        self.asks.pop(ask.serial, None)

    def busy(self) -> bool:
        """Something is under way that wants a turn soon."""
        return bool(self.pending or self.asks or self.unacknowledged or self.state == HELLO)

    # ---- jobs end ----

    def _local(self, job: Job, status: str, text: str) -> Result:
        return Result(job.id, status, text)

    def _finish(self, job: Job, result: Result, now: float) -> None:
        self.transfers.forget(job.sequence, result.status == "OK")
        del self.pending[job.sequence]
        self.pending_bytes -= job.payload_bytes
        job.state = jobs.ENDED
        result.round_trip = now - job.submitted
        job.result = result
        job.frames, job.inputs = [], ()
        self.counters["jobs_ended"] += 1
        job.done = True
        self.ended.append(job)

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

    # ---- sending ----

    def _plain(self, kind: int, now: float, sequence: int = 0) -> None:
        self.link.send(wire.encode(kind, self.uuid, sequence))
        self.sent = now

    def flush(self, now: float) -> None:
        """Sends what waits, as the broker's welcome allows."""
        if self.state != READY:
            return
        if self.unacknowledged >= _ACK_COUNT or self.unacknowledged_bytes >= _ACK_BYTES:
            self._acknowledge(now)
        if self.unsent and not self.leaving and self.held_since is None:
            self._send_jobs(now)
        if self.cancels:
            self._send_cancels(now)
        if self.asks:
            self._send_asks()

    def _send_jobs(self, now: float) -> None:
        unsent = self.unsent
        while unsent:
            job = unsent[0]
            if job.state != jobs.ENDED:
                refused = self._misfit(job)
                if refused:
                    self._finish(job, self._local(job, *refused), now)
                else:
                    self._send_job(job, now)
            unsent.popleft()

    def _send_job(self, job: Job, now: float) -> None:
        job.hash_with(self.digest_kind)
        left = 0 if job.deadline == _NEVER else max(1, int((job.deadline - now) * 1e6))
        upload = self.payloads.announce(job, now) if job.frames else None
        flags = job.flags | (wire.FLAG_RESENT if job.sends else 0) | (wire.FLAG_DIGEST_FIRST if upload and upload.early else 0)
        header = wire.encode(wire.SUBMIT, job.client, job.sequence, flags=flags, digest=job.digest, model_hash=job.model_hash, sequence_id=job.sequence_id,
                             deadline_us=left, tenant_hash=job.tenant_hash, priority=job.priority, precision=job.precision, frames=len(job.frames),
                             meta=job.meta, transfer=upload.number if upload else 0)
        self.link.send(header, [] if upload else job.frames)
        self.counters["jobs_resent"] += job.sends > 0
        self.sent = now
        job.state = jobs.SENT
        job.sends += 1
        if job.cancelled:
            job.cancel_unsent = True
            self.cancels.append(job)

    def _misfit(self, job: Job) -> Optional[Tuple[str, str]]:
        """Why this job is not sent: what the broker would hang up on, or would pass over without a word."""
        largest = max(map(len, job.frames)) if job.frames else 0
        if self.job_max and job.payload_bytes > self.job_max:
            return "TOO_LARGE", f"the job has {job.payload_bytes} bytes of inputs; the broker takes {self.job_max} (its --max-job-bytes)."
        if self.frame_max and largest > self.frame_max:
            return "TOO_LARGE", f"an input has {largest} bytes; the broker takes {self.frame_max} (its --max-frame-bytes)."
        if job.flags & (wire.FLAG_DETACHED | wire.FLAG_FETCH) and not self.detached:
            return "UNSUPPORTED", "this broker takes no detached jobs: it was started without --journal and without Redis."
        if self.broker_minor == 0 and job.labelled:
            return "UNSUPPORTED", ("this broker speaks version 1.0 of the protocol and may not know labels: it would run the highest version, whatever the label "
                                   "says. Name the version itself.")
        if self.broker_minor == 0 and job.flags & (wire.FLAG_SEQUENCE_START | wire.FLAG_SEQUENCE_END):
            return "UNSUPPORTED", ("this broker speaks version 1.0 of the protocol, which has no sequences: it would send their jobs to workers that lack their "
                                   "state. It takes a newer broker.")
        if job.sends >= _SENDS_MAX:
            return "UNAVAILABLE", f"the connection was lost {job.sends} times with this job on it."
        return None

    def _send_cancels(self, now: float) -> None:
        waiting, self.cancels = self.cancels, []
        for job in waiting:
            if job.cancel_unsent and job.state == jobs.SENT:
                job.cancel_unsent = False
                self._plain(wire.CANCEL, now, job.sequence)

    def _send_asks(self) -> None:
        for ask in self.asks.values():
            if not ask.sent and not ask.done:
                self.link.send(wire.encode(wire.CONTROL, self.uuid, meta=ask.packed))
                ask.sent = True

    def _acknowledge(self, now: float) -> None:
        answered = next(iter(self.pending)) - 1 if self.pending else self.last_sequence
        self.unacknowledged = self.unacknowledged_bytes = 0
        self.acknowledge = _NEVER
        if answered:
            self._plain(wire.ACK, now, answered)

    # ---- messages ----

    def receive(self, header: bytes, frames: List[Any], now: float) -> None:
        """A message as it came."""
        try:
            env = wire.decode(header)
            if env.frames != len(frames) and not (env.transfer and env.type == wire.RESULT and not frames):
                raise wire.WireError(12, f"a message announces {env.frames} raw frames and has {len(frames)}.")
        except wire.WireError as error:
            self._garbage(error, now)
            return
        self.heard = now
        kind = env.type
        if kind == wire.RESULT:
            if env.transfer and not frames:
                self.payloads.announced(env, header[env.meta_at:], now)
            else:
                self._result(env, header[env.meta_at:], frames, now)
        elif kind == wire.CHUNK:
            self.payloads.chunk(env, frames, now)
        elif kind == wire.CREDIT:
            self.payloads.credit(env)
        elif kind == wire.WELCOME:
            self._welcome(env, header[env.meta_at:], now)
        elif kind == wire.RESUME:
            self._resume(now)
        elif kind == wire.PING:
            self._plain(wire.PONG, now)
        elif kind == wire.DRAIN:
            self._drain(now)
        elif kind == wire.CONTROL_REPLY:
            self._reply(env, header[env.meta_at:])

    def _garbage(self, error: wire.WireError, now: float) -> None:
        self.counters["messages_bad"] += 1
        if self.state == HELLO:
            if STATUS_NAMES[error.status] == "VERSION":
                self._refuse("VERSION", str(error), now)
            else:
                self.trouble = str(error)

    def _result(self, env: wire.Envelope, meta: bytes, frames: List[Any], now: float) -> None:
        job = self.pending.get(env.sequence) if env.client == self.uuid else None
        if not job or env.flags & wire.FLAG_PARTIAL:
            self.counters["results_duplicate"] += not job
            return
        unavailable = STATUS_NAMES[env.status] == "UNAVAILABLE"
        if unavailable and (self.leaving or self._hold(job, now)):
            return  # another broker gets it
        self.left = 0
        self.unacknowledged += 1
        self.unacknowledged_bytes += sum(map(len, frames)) + len(meta)
        self.acknowledge = min(self.acknowledge, now + _ACK_AFTER)
        self._finish(job, read_result(env, meta, frames), now)

    def _hold(self, job: Job, now: float) -> bool:
        """The only broker is about to end and did not take the job: the one that comes in its place gets it, and all that are newer. Of a sequence the next one
        knows nothing, so only its first job can wait."""
        within = job.sequence_id and not job.flags & wire.FLAG_SEQUENCE_START
        if not self.draining or job.cancelled or within:
            return False
        job.state = jobs.HELD
        if self.held_since is None:
            self.held_since = now
        return True

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
        self.frame_max, self.job_max, self.detached = welcome.max_frame_bytes, welcome.max_job_bytes, welcome.detached
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

    def _reply(self, env: wire.Envelope, meta: bytes) -> None:
        try:
            reply = ControlReply.FromString(meta)
        except Exception:
            self.counters["messages_bad"] += 1
            return
        ask = self.asks.get(reply.serial)
        if ask and not ask.done:
            status = STATUS_NAMES[env.status] if env.status else "INVALID" if reply.error else "OK"
            ask.reply = reply
            self._settle(ask, status, reply.error or status)

    # ---- the connection ----

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
        self.leave, self.held_since = _NEVER, None
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
        self.bulk_due = _NEVER
        self.reopen = self.opened + _REOPEN_PAUSE

    def _next_broker(self) -> None:
        self.broker = (self.broker + 1) % len(self.brokers)

    def connection_lost(self, now: float) -> None:
        """The connection is gone: the next broker is tried."""
        if self.state != REFUSED:
            self._drop(now)
            self._next_broker()

    def _refuse(self, status: str, text: str, now: float) -> None:
        self.state, self.refusal = REFUSED, (status, text)
        self.link.close(0)
        self.bulk_due = _NEVER
        self._finish_all(status, text, now)
        self._fail_asks(status, text)

    def _hello_wait(self) -> float:
        first = _HELLO_NEXT if len(self.brokers) > 1 else _HELLO_RETRY
        return first * (1 << min(self.unanswered // len(self.brokers), _HELLO_DOUBLINGS))

    def _open(self, now: float) -> None:
        self.link.close(0)
        self.bulk_due = self.reopen = _NEVER
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
        self.bulk_due = _NEVER
        self._next_broker()
        self.left += 1
        self.reopen = self.opened + _REOPEN_PAUSE

    def why_not(self) -> str:
        """What went wrong on the way to a welcome; "" when nothing is known."""
        return _KEY_REFUSED if self.link.refused or self.link.refused_before else self.trouble

    def end(self, now: float) -> None:
        """The session is over: unanswered jobs end CANCELLED here and are cancelled at the broker."""
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
            return _NEVER
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
        return self.transfers.moved_at + self.liveness if self.transfers.downloads else _NEVER

    def _ready_run(self, now: float) -> None:
        if self.bulk_due < _NEVER and self.link.bulk_up:
            self.bulk_due = _NEVER
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
        """What is due now."""
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
        elif self.reopen == _NEVER and now >= self.opened + self._hello_wait():
            self.unanswered += 1
            self._next_broker()
            self.reopen = now
        if now >= self.reopen:
            self._open(now)

    def next_due(self) -> float:
        """When run_timers() has something to do."""
        due = self.deadlines[0][0] if self.deadlines else _NEVER
        if self.state == READY:
            due = min(due, self.acknowledge, self.heard + self.liveness, self.sent + self.heartbeat, self.leave, self.bulk_due)
            if self.transfers.downloads:
                due = min(due, self._stall_at())
            return due if self.held_since is None else min(due, self._give_up_at())
        if self.state == HELLO:
            due = min(due, self._give_up_at(), self.opened + self._hello_wait() if self.reopen == _NEVER else self.reopen)
        return due
