"""What a job or a call can end with: one exception class for each status of the protocol.

>>> error_class("BUSY")
<class 'penstock.errors.BusyError'>
>>> issubclass(BusyError, RetryableError) and not issubclass(ShapeError, RetryableError)
True
"""
from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING, Dict, List, Optional, Type

if TYPE_CHECKING:
    from .results import Result

STATUS_NAMES: List[str] = [
    "OK", "INVALID", "NOT_FOUND", "SHAPE", "DTYPE", "TOO_LARGE", "BUSY", "DEADLINE", "CANCELLED", "UNSUPPORTED", "NO_MEMORY", "IO", "CORRUPT", "VERSION",
    "UNAVAILABLE", "WORKER_LOST", "DEVICE_LOST", "DENIED", "TIMEOUT", "INTERNAL"]


class PenstockError(Exception):
    """A job or a call that did not end well. `status` is the protocol's name of the reason, `text` one sentence.

    `retry_after` says in seconds when to try again, where the broker hints at it; `result` is the job's answer, with its timings, where there is one.
    """
    status = "INTERNAL"

    def __init__(self, text: str = "", retry_after: Optional[float] = None, result: "Optional[Result]" = None):
        super().__init__(text)
        self.text = text
        self.retry_after = retry_after
        self.result = result

    @property
    def job_id(self) -> str:
        """The id that logs, `penstock explain` and `penstock trace` use; "" where no job was sent."""
        return self.result.job_id if self.result is not None else ""


class RetryableError(PenstockError):
    """The same request may succeed later without a change."""


class InvalidError(PenstockError):
    """An argument, option or message is malformed."""
    status = "INVALID"


class NotFoundError(PenstockError):
    """No such model, version, job or worker."""
    status = "NOT_FOUND"


class ShapeError(PenstockError):
    """A tensor's shape does not fit the model."""
    status = "SHAPE"


class DtypeError(PenstockError):
    """A tensor's element type does not fit the model."""
    status = "DTYPE"


class TooLargeError(PenstockError):
    """A cap was exceeded."""
    status = "TOO_LARGE"


class BusyError(RetryableError):
    """A queue is full: the broker's, or this client's own (jobs_max, bytes_max)."""
    status = "BUSY"


class DeadlineError(PenstockError):
    """The job's deadline passed before its answer came."""
    status = "DEADLINE"


class CancelledError(PenstockError, concurrent.futures.CancelledError):
    """The job was cancelled, or its client was closed."""
    status = "CANCELLED"


class UnsupportedError(PenstockError):
    """An operator, element type, backend, precision or feature that is not available there."""
    status = "UNSUPPORTED"


class NoMemoryError(PenstockError):
    """A memory budget is spent."""
    status = "NO_MEMORY"


class IoError(PenstockError):
    """A file or socket operation failed."""
    status = "IO"


class CorruptError(PenstockError):
    """A model file, message or cache entry is broken."""
    status = "CORRUPT"


class VersionError(PenstockError):
    """Broker and client do not speak the same version of the protocol."""
    status = "VERSION"


class UnavailableError(RetryableError):
    """No broker, no capable worker, or the broker is about to end."""
    status = "UNAVAILABLE"


class WorkerLostError(RetryableError):
    """Workers died with the job until its attempts were spent."""
    status = "WORKER_LOST"


class DeviceLostError(RetryableError):
    """The device failed under the job."""
    status = "DEVICE_LOST"


class DeniedError(PenstockError):
    """The caller may not do this."""
    status = "DENIED"


class PoolTimeoutError(RetryableError):
    """The pool waited too long for something: the time of a sequence ran out, a worker did not answer an order."""
    status = "TIMEOUT"


class InternalError(PenstockError):
    """A defect in Penstock: please report it with the text."""
    status = "INTERNAL"


_CLASSES: Dict[str, Type[PenstockError]] = {
    cls.status: cls for cls in (
        InvalidError, NotFoundError, ShapeError, DtypeError, TooLargeError, BusyError, DeadlineError, CancelledError, UnsupportedError, NoMemoryError, IoError,
        CorruptError, VersionError, UnavailableError, WorkerLostError, DeviceLostError, DeniedError, PoolTimeoutError, InternalError)}


def error_class(status: str) -> Type[PenstockError]:
    """The class of a status by its name; InternalError for one that this version does not know."""
    return _CLASSES.get(status, InternalError)


def status_name(number: int) -> str:
    """The name of a status number; unknown ones read as INTERNAL.

    >>> status_name(6), status_name(200)
    ('BUSY', 'INTERNAL')
    """
    return STATUS_NAMES[number] if 0 <= number < len(STATUS_NAMES) else "INTERNAL"
