"""Large payloads in chunks, both ways (proto/PROTOCOL.md, "Large payloads"). What is under way; session.py sends and receives."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from . import wire
from .errors import CorruptError, TooLargeError
from .job import Job

_EARLY_MISSES, _EARLY_RETRY = 4, 32


class Upload:
    """A payload that was announced, and how far it has gone."""

    def __init__(self, job: Job, number: int, early: bool):
        self.job, self.number, self.early = job, number, early
        self.views = [memoryview(frame).cast("B") for frame in job.frames]
        self.total = sum(len(view) for view in self.views)
        self.moved = self.granted = self._frame = self._at = 0

    def credited(self, until: int) -> bool:
        if not self.granted <= until <= self.total:
            return False
        self.granted = until
        return True

    def next_piece(self) -> Optional[Tuple[int, Any]]:
        """Offset and bytes of the next chunk that the credit allows."""
        if self.moved >= self.granted:
            return None
        view = self.views[self._frame]
        size = min(len(view) - self._at, wire.CHUNK_BYTES, self.granted - self.moved)
        piece = (self.moved, view[self._at:self._at + size])
        self.moved += size
        self._at += size
        if self._at == len(view):
            self._frame, self._at = self._frame + 1, 0
        return piece

    @property
    def done(self) -> bool:
        return self.moved == self.total


def announced_sizes(descs: Any, frames: int, frame_bytes_max: int) -> List[int]:
    """Bytes of each raw frame that a result announces."""
    sizes = [0] * frames
    for desc in descs:
        if not desc.frame:
            continue
        if desc.frame > frames or sizes[desc.frame - 1] or not desc.bytes:
            raise CorruptError(f"an announced tensor names frame {desc.frame} of {frames}, which is empty, absent or taken.")
        if desc.bytes > frame_bytes_max:
            raise TooLargeError(f"an announced tensor has {desc.bytes} bytes, at most {frame_bytes_max} are taken.")
        sizes[desc.frame - 1] = desc.bytes
    if not frames or 0 in sizes:
        raise CorruptError(f"a payload of {frames} frames is announced, and not each has a tensor.")
    return sizes


class Download:
    """An announced result, and what has come of it."""

    def __init__(self, env: wire.Envelope, meta: bytes, sizes: List[int]):
        self.env, self.meta = env, meta
        self.frames = [bytearray(size) for size in sizes]
        self.total = sum(sizes)
        self.moved = self.granted = self._frame = self._at = 0

    def grant(self) -> bool:
        """More credit, when half of it is used up."""
        if self.granted == self.total or self.granted - self.moved > wire.WINDOW_BYTES // 2:
            return False
        self.granted = self.moved + min(self.total - self.moved, wire.WINDOW_BYTES)
        return True

    def accept(self, offset: int, data: Any) -> bool:
        """False: the chunk is out of its place."""
        size = len(data)
        if not size or offset != self.moved or size > self.granted - self.moved or size > len(self.frames[self._frame]) - self._at:
            return False
        self.frames[self._frame][self._at:self._at + size] = data
        self.moved += size
        self._at += size
        if self._at == len(self.frames[self._frame]):
            self._frame, self._at = self._frame + 1, 0
        return True

    @property
    def done(self) -> bool:
        return self.moved == self.total


class Transfers:
    """All that are under way on the present connections."""

    def __init__(self) -> None:
        self.uploads: Dict[int, Upload] = {}      # by the job's sequence
        self.downloads: Dict[int, Download] = {}
        self.moved_at = 0.0                       # last chunk that came, or when the first download began
        self._misses = self._skipped = 0

    def early_worthwhile(self) -> bool:
        """A digest alone costs a round trip when the broker does not know it: after some in vain only now and then one is tried."""
        self._skipped += 1
        if self._misses < _EARLY_MISSES or self._skipped >= _EARLY_RETRY:
            self._skipped = 0
            return True
        return False

    def missed(self) -> None:
        self._misses += 1

    def forget(self, sequence: int, answered: bool) -> None:
        """The job has ended; answered: well, by the broker."""
        upload = self.uploads.pop(sequence, None)
        if upload and answered and upload.early and not upload.granted:
            self._misses = 0
        self.downloads.pop(sequence, None)

    def reset(self) -> None:
        self.uploads.clear()
        self.downloads.clear()
