"""Large payloads of a session: announced, sent and taken in chunks as far as credit goes (proto/PROTOCOL.md, "Large payloads"). Threads: the session's."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from . import wire
from .errors import STATUS_NAMES, CorruptError, TooLargeError
from .job import Job
from .schema import ResultMeta
from .transfers import Download, Upload, announced_sizes

if TYPE_CHECKING:
    from .session import Session

NEVER = math.inf


class Payloads:
    """What a session does with payloads that do not travel behind their header; its counters and connections are the session's."""

    def __init__(self, session: Session):
        self.session = session

    def attach(self, now: float) -> None:
        if self.session.link.bulk is None:
            self.session.due = 0.0
            port = 0 if self.session.bulk_never and self.session.bulk_never == self.session.broker_uuid else self.session.bulk_port
            self.session.bulk_due = now + self.session.liveness / 2 if self.session.link.attach(self.session.uuid, port) else NEVER

    def announce(self, job: Job, now: float) -> Optional[Upload]:
        total = sum(map(len, job.frames))
        large = bool(self.session.bulk_bytes) and total > self.session.bulk_bytes
        no = wire.FLAG_NO_CACHE | wire.FLAG_DETACHED | wire.FLAG_FETCH
        early = (not large and bool(self.session.digest_first) and total > self.session.digest_first and bool(job.flags & wire.FLAG_DIGEST) and not job.flags & no
                 and not job.sequence_key and self.session.transfers.early_worthwhile())
        if not large and not early:
            return None
        self.attach(now)
        upload = self.session.transfers.uploads[job.sequence] = Upload(job, job.sequence & 0xFFFFFFFF or 1, early)
        return upload

    def credit(self, env: wire.Envelope) -> None:
        upload = self.session.transfers.uploads.get(env.sequence)
        if not upload or upload.number != env.transfer or env.client != self.session.uuid:
            return
        if upload.early and not upload.granted:
            self.session.transfers.missed()
        if env.status or not upload.credited(env.sequence_id):
            return  # a rest that is not wanted stays unsent until the job's answer comes
        piece = upload.next_piece()
        while piece:
            header = wire.encode(wire.CHUNK, self.session.uuid, env.sequence, sequence_id=piece[0], frames=1, transfer=upload.number)
            self.session.link.send_chunk(header, piece[1])
            piece = upload.next_piece()
        if upload.done:
            del self.session.transfers.uploads[env.sequence]

    def tell_credit(self, env: wire.Envelope, granted: int, status: int = 0) -> None:
        self.session.link.send(wire.encode(wire.CREDIT, env.client, env.sequence, sequence_id=granted, status=status, transfer=env.transfer))

    def announced(self, env: wire.Envelope, meta: bytes, now: float) -> None:
        """A large result begins."""
        job = self.session.pending.get(env.sequence) if env.client == self.session.uuid else None
        if not job:
            self.session.counters["results_duplicate"] += 1
            self.tell_credit(env, 0, STATUS_NAMES.index("CANCELLED"))
            return
        try:
            sizes = announced_sizes(ResultMeta.FromString(meta).outputs, env.frames, self.session.link.frame_bytes_max)
            download = Download(env, meta, sizes)
        except Exception as error:
            status, text = self.why_declined(error)
            self.tell_credit(env, 0, STATUS_NAMES.index("CANCELLED"))
            self.session._finish(job, self.session._local(job, status, text), now)
            return
        self.attach(now)
        if not self.session.transfers.downloads:
            self.session.transfers.moved_at = now
        self.session.transfers.downloads[env.sequence] = download
        download.grant()
        self.tell_credit(env, download.granted)

    @staticmethod
    def why_declined(error: Exception) -> Tuple[str, str]:
        if isinstance(error, (CorruptError, TooLargeError)):
            return error.status, error.text
        if isinstance(error, MemoryError):
            return "NO_MEMORY", "no memory for a large answer."
        return "CORRUPT", "the answer's description is malformed."

    def chunk(self, env: wire.Envelope, frames: List[Any], now: float) -> None:
        download = self.session.transfers.downloads.get(env.sequence)
        self.session.transfers.moved_at = now
        if not download or download.env.transfer != env.transfer:
            return  # its job has ended
        if len(frames) != 1 or not download.accept(env.sequence_id, frames[0]):
            self.session.counters["messages_bad"] += 1
            self.session.drop_wanted = True
        elif download.done:
            del self.session.transfers.downloads[env.sequence]
            self.session._result(download.env, download.meta, [memoryview(frame).toreadonly() for frame in download.frames], now)
        elif download.grant():
            self.tell_credit(download.env, download.granted)
