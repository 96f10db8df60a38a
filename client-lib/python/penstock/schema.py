"""The messages of proto/*.proto. `schema.binpb`, their descriptors, is made by protoc when the wheel is built (setup.py): one file for every version of protobuf."""
from __future__ import annotations

from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _message_class(descriptor: Any) -> Any:
    factory: Any = message_factory
    if hasattr(factory, "GetMessageClass"):  # protobuf >= 4.22; Debian 12 has 3.21
        return factory.GetMessageClass(descriptor)
    return factory.MessageFactory().GetPrototype(descriptor)


def _load() -> Any:
    pool = descriptor_pool.DescriptorPool()  # of our own: other packages may have messages of the same names
    try:
        data = (resources.files(__package__) / "schema.binpb").read_bytes()
    except FileNotFoundError:
        raise ImportError("penstock/schema.binpb is missing: install the package with pip (pip install client-lib/python), which makes it from proto/*.proto") from None
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    return pool


_pool = _load()


def _message(name: str) -> Any:
    return _message_class(_pool.FindMessageTypeByName("penstock." + name))


TensorDesc: Any = _message("TensorDesc")
Parameter: Any = _message("Parameter")
JobMeta: Any = _message("JobMeta")
ResultMeta: Any = _message("ResultMeta")
ClientHello: Any = _message("ClientHello")
Welcome: Any = _message("Welcome")
ControlRequest: Any = _message("ControlRequest")
ControlReply: Any = _message("ControlReply")
