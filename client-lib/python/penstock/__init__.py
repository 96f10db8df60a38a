"""Penstock for Python: submit inference jobs to a Penstock broker and get NumPy arrays back.

>>> from penstock import Client
>>> with Client("tcp://127.0.0.1:5550") as client:              # doctest: +SKIP
...     result = client.run("digits", {"image": image}, top_k=3)
...     print(result.classes, result["scores"], result.timings.compute)
"""
from .aio import AsyncClient
from .client import Client, Future
from .errors import (BusyError, CancelledError, CorruptError, DeadlineError, DeniedError, DeviceLostError, DtypeError, InternalError, InvalidError, IoError,
                     NoMemoryError, NotFoundError, PenstockError, PoolTimeoutError, RetryableError, ShapeError, TooLargeError, UnavailableError,
                     UnsupportedError, VersionError, WorkerLostError)
from .pool import Model, Signature
from .results import Annotation, Class, DetachedState, Measured, Result, Timings
from .tensors import Tensor

__version__ = "0.1.0"
__all__ = ["Annotation", "AsyncClient", "BusyError", "CancelledError", "Class", "Client", "CorruptError", "DeadlineError", "DeniedError", "DetachedState",
           "DeviceLostError", "DtypeError", "Future", "InternalError", "InvalidError", "IoError", "Model", "Measured", "NoMemoryError", "NotFoundError", "PenstockError",
           "PoolTimeoutError", "Result", "RetryableError", "ShapeError", "Signature", "Tensor", "Timings", "TooLargeError", "UnavailableError",
           "UnsupportedError", "VersionError", "WorkerLostError"]
