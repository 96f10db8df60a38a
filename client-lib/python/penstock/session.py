"""The client's side of the protocol: jobs and questions that are sent, and what a message changes. Nothing here waits.

The rules are those of the C library (client-lib/session/README.md). Threads: one at a time, who owns the session.
"""
from __future__ import annotations

import heapq
from typing import Any, List, Optional, Tuple

from . import job as jobs
from . import wire
from .connection import HELLO, NEVER, READY, REFUSED, Ask, Connection, Settings
from .errors import STATUS_NAMES, BusyError, error_class
from .job import Job
from .link import Link
from .payloads import Payloads
from .results import read_result
from .schema import ControlReply

_ACK_COUNT, _ACK_BYTES, _ACK_AFTER = 64, 1 << 20, 0.05
_SENDS_MAX = 16
_PREDECESSORS_MAX = 8192
_UNAVAILABLE = STATUS_NAMES.index("UNAVAILABLE")
_RARE = wire.FLAG_DETACHED | wire.FLAG_FETCH | wire.FLAG_SEQUENCE_START | wire.FLAG_SEQUENCE_END


class Session(Connection):
    """Jobs and questions of one client."""

    def __init__(self, settings: Settings, link: Link, brokers: List[str], now: float):
        super().__init__(settings, link, brokers, now)
        self.payloads = Payloads(self)

    # ---- what callers do ----

    def check_room(self, count: int, payload_bytes: int) -> None:
        """For so many more jobs: BusyError at the client's own limits; the refusal of a session that is refused."""
        if self.state == REFUSED:
            raise error_class(self.refusal[0])(self.refusal[1])
        if len(self.pending) + count > self.settings.jobs_max:
            raise BusyError(f"{len(self.pending)} jobs of this client await answers and {count} more exceed its limit jobs_max of {self.settings.jobs_max}; wait for "
                            "some or raise it.")
        if self.pending_bytes + payload_bytes > self.settings.bytes_max:
            raise BusyError(f"{self.pending_bytes} bytes of this client's jobs await answers, {payload_bytes} more exceed its limit bytes_max of "
                            f"{self.settings.bytes_max}.")

    def submit(self, job: Job) -> None:
        """The job gets its number and will end once. Raises what check_room() does."""
        if self.state == REFUSED or len(self.pending) >= self.settings.jobs_max or self.pending_bytes + job.payload_bytes > self.settings.bytes_max:
            self.check_room(1, job.payload_bytes)
        self.last_sequence += 1
        job.client, job.sequence = self.uuid, self.last_sequence
        if job.sequence_key:
            self._follow(job)
        if job.ordered:
            self.ordered.append(job)
        self.pending[job.sequence] = job
        self.pending_bytes += job.payload_bytes
        self.unsent.append(job)
        self.counters["jobs_submitted"] += 1
        if self.state != READY:
            self.due = 0.0
        if job.deadline < NEVER:
            self.due = min(self.due, job.deadline)
            heapq.heappush(self.deadlines, (job.deadline, job.sequence))
            if len(self.deadlines) > 2 * len(self.pending) + 1024:  # most are of jobs that have ended
                self.deadlines = [entry for entry in self.deadlines if entry[1] in self.pending]
                heapq.heapify(self.deadlines)

    def _follow(self, job: Job) -> None:
        """Which job came before under this sequence id. One that goes on with what is not known to have begun names itself, which no open sequence can follow."""
        key = (job.model_hash, job.sequence_key)
        before = self.predecessors.pop(key, 0)
        self.predecessors[key] = job.sequence
        if len(self.predecessors) > _PREDECESSORS_MAX:
            self.predecessors.popitem(last=False)
        job.follow(before if before or job.flags & wire.FLAG_SEQUENCE_START else job.sequence)

    def cancel(self, job: Job, now: float) -> None:
        if job.state == jobs.ENDED or job.cancelled or not job.sequence:
            return
        job.cancelled = True
        self.due = 0.0
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

    # ---- sending ----

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
                rare = job.sends or job.labelled or job.needs or job.contract or job.flags & _RARE or job.payload_bytes > self.easy_bytes
                refused = self._misfit(job) if rare else None
                if refused:
                    self._finish(job, self._local(job, *refused), now)
                else:
                    self._send_job(job, now)
            unsent.popleft()

    def _send_job(self, job: Job, now: float) -> None:
        if job.hashes:
            job.hash_with(self.digest_kind)
        left = 0 if job.deadline == NEVER else max(1, int((job.deadline - now) * 1e6))
        flags, number, frames = job.flags, 0, job.frames
        if frames:
            upload = self.payloads.announce(job, now)
            if upload:
                number, frames = upload.number, []
                flags |= wire.FLAG_DIGEST_FIRST if upload.early else 0
        if job.sends:
            flags |= wire.FLAG_RESENT
            self.counters["jobs_resent"] += 1
        self.link.send(wire.encode_submit(job, flags, left, number), frames)
        self.sent = now
        job.state = jobs.SENT
        job.sends += 1
        if job.cancelled:
            job.cancel_unsent = True
            self.cancels.append(job)

    def _misfit(self, job: Job) -> Optional[Tuple[str, str]]:
        """Why this job is not sent: what the broker would hang up on, or would pass over without a word."""
        largest = max(map(len, job.frames), default=0)
        if self.job_max and job.payload_bytes > self.job_max:
            return "TOO_LARGE", f"the job has {job.payload_bytes} bytes of inputs; the broker takes {self.job_max} (its --max-job-bytes)."
        if self.frame_max and largest > self.frame_max:
            return "TOO_LARGE", f"an input has {largest} bytes; the broker takes {self.frame_max} (its --max-frame-bytes)."
        if job.flags & (wire.FLAG_DETACHED | wire.FLAG_FETCH) and not self.detached:
            return "UNSUPPORTED", "this broker takes no detached jobs: it was started without --journal and without Redis."
        if job.needs and not self.needs:
            return "UNSUPPORTED", "this broker is too old to know the flags of workers: it would run the job anywhere. Name tags of workers instead."
        if job.contract and not self.contracts:
            return "UNSUPPORTED", ("this broker is too old to know max_relative_error and f32-exact: it would run the job in any precision. Name a class, such as "
                                   "f32, instead.")
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
        if kind == wire.RESULT and (frames or not env.transfer):
            self._result(env, header[env.meta_at:], frames, now)
            return
        self.due = 0.0  # what follows may change any time that was waited for
        if kind == wire.RESULT:
            self.payloads.announced(env, header[env.meta_at:], now)
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
        if env.status == _UNAVAILABLE and (self.leaving or self._hold(job, now)):
            return  # another broker gets it
        if self.leaving:
            self.due = 0.0  # it may have been the last one
        self.left = 0
        self.unacknowledged += 1
        self.unacknowledged_bytes += sum(map(len, frames)) + len(meta) if frames else len(meta)
        if self.acknowledge == NEVER:
            self.acknowledge = now + _ACK_AFTER
            self.due = min(self.due, self.acknowledge)
        self._finish(job, read_result(env, meta, frames), now)

    def _hold(self, job: Job, now: float) -> bool:
        """The only broker is about to end and did not take the job: the one that comes in its place gets it, and all that are newer. Of a sequence the next one
        knows nothing, so only its first job can wait."""
        within = job.sequence_key and not job.flags & wire.FLAG_SEQUENCE_START
        if not self.draining or job.cancelled or within:
            return False
        job.state = jobs.HELD
        self.due = 0.0
        if self.held_since is None:
            self.held_since = now
        return True

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

