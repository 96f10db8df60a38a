"""The connection: a DEALER socket, its monitor, and a second socket for large payloads. Knows no jobs. Threads: whoever owns the session."""
from __future__ import annotations

import struct
from typing import Any, Callable, List, Optional, Tuple

import zmq
import zmq.backend

from . import wire
from .errors import InvalidError
from .keys import Keys

_LOST = int(zmq.EVENT_DISCONNECTED)
_REFUSED = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
_UP = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
# plain numbers: their enums cost more than the calls that take them
_NOBLOCK, _NOBLOCK_MORE, _POLLIN = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE), int(zmq.POLLIN)
_EVENTS = int(zmq.EVENTS)
_send: Any = zmq.backend.Socket.send  # without the choices of zmq.Socket.send, which cost as much as the sending


Message = Tuple[bytes, List[Any]]  # a header frame, and buffers of its raw frames


class Link:
    """`sockets()` are those to wait for; they change with `generation`."""

    def __init__(self, frame_bytes_max: int, messages_max: int, keys: Optional[Keys]):
        self.context: Any = zmq.Context()
        self.frame_bytes_max = frame_bytes_max
        self.messages_max = messages_max
        self.keys = keys
        self.endpoint = ""
        self.socket: Any = None
        self.monitor: Any = None
        self.bulk: Any = None
        self.bulk_monitor: Any = None
        self.bulk_up = False
        self.refused = self.refused_before = False
        self.generation = 0
        self.before_close: Optional[Callable[[Any], None]] = None  # whoever watches descriptors

    def _dealer(self) -> Any:
        socket = self.context.socket(zmq.DEALER)
        for option, value in ((zmq.MAXMSGSIZE, self.frame_bytes_max), (zmq.LINGER, 0), (zmq.SNDHWM, 0), (zmq.RCVHWM, self.messages_max + 64),
                              (zmq.RECONNECT_IVL, 10), (zmq.RECONNECT_IVL_MAX, 320), (zmq.TCP_KEEPALIVE, 1), (zmq.TCP_KEEPALIVE_IDLE, 30),
                              (zmq.TCP_KEEPALIVE_INTVL, 5), (zmq.TCP_KEEPALIVE_CNT, 3)):
            socket.setsockopt(option, value)
        if self.keys:
            socket.setsockopt(zmq.CURVE_SERVERKEY, self.keys.broker)
            socket.setsockopt(zmq.CURVE_PUBLICKEY, self.keys.public)
            socket.setsockopt(zmq.CURVE_SECRETKEY, self.keys.secret)
        return socket

    def open(self, endpoint: str) -> None:
        """InvalidError for an endpoint that is none."""
        self.endpoint = endpoint
        self.generation += 1
        self.refused_before, self.refused = self.refused, False
        self.socket = self._dealer()
        self.monitor = _monitor_of(self.socket, _LOST | _REFUSED)
        try:
            self.socket.connect(endpoint)
        except zmq.ZMQError as error:
            self.close(0)
            raise InvalidError(f'broker endpoint "{endpoint}": {error}; it must look like tcp://127.0.0.1:5550 or ipc:///run/penstock.') from None

    def _close(self, socket: Any, monitor: Any, linger_ms: int) -> None:
        for one in (socket, monitor):
            if one is not None and self.before_close:
                self.before_close(one)
        if socket is not None:
            socket.disable_monitor()
            socket.close(linger_ms)
        if monitor is not None:
            monitor.close(0)

    def close_bulk(self) -> None:
        self._close(self.bulk, self.bulk_monitor, 0)
        self.bulk = self.bulk_monitor = None
        self.generation += 1

    def close(self, linger_ms: int) -> None:
        self.close_bulk()
        self._close(self.socket, self.monitor, linger_ms)
        self.socket = self.monitor = None

    def end(self) -> None:
        self.context.term()

    def send(self, header: bytes, frames: List[Any] = []) -> None:  # noqa: B006 - never changed
        """A header and its raw frames. Never blocks: what is under way is bounded by the client's limits."""
        if not frames:
            _send(self.socket, header, _NOBLOCK)
            return
        _send(self.socket, header, _NOBLOCK_MORE)
        for frame in frames[:-1]:
            _send(self.socket, frame, _NOBLOCK_MORE, False)
        _send(self.socket, frames[-1], _NOBLOCK, False)

    def attach(self, client: int, port: int) -> bool:
        """Opens the bulk connection, to that port of the same host where it is not 0. True: it goes to that port, and whether it comes up is to be seen."""
        endpoint, apart = self.endpoint, False
        if port and endpoint.startswith("tcp://"):
            endpoint, apart = f"{endpoint.rpartition(':')[0]}:{port}", True
        self.bulk = self._dealer()
        self.bulk_up = False
        if apart:
            self.bulk_monitor = _monitor_of(self.bulk, _UP)
        self.bulk.connect(endpoint)
        self.bulk.send(wire.encode(wire.ATTACH, client), _NOBLOCK)
        self.generation += 1
        return apart

    def send_chunk(self, header: bytes, piece: Any) -> None:
        self.bulk.send(header, _NOBLOCK_MORE)
        self.bulk.send(piece, _NOBLOCK, copy=False)

    def sockets(self) -> List[Any]:
        return [socket for socket in (self.socket, self.monitor, self.bulk, self.bulk_monitor) if socket is not None]

    def lost(self) -> bool:
        """Reads the monitors empty. True: the connection is gone."""
        lost = False
        if self.monitor is not None:
            for event in _events(self.monitor):
                lost |= event == _LOST
                self.refused |= bool(event & _REFUSED)
        if self.bulk_monitor is not None:
            for _ in _events(self.bulk_monitor):
                self.bulk_up = True
        return lost

    def readable(self) -> bool:
        """There is a message. To be asked before the descriptors are waited for: they tell of changes, and sending may have taken one in."""
        if self.socket is not None and self.socket.getsockopt(_EVENTS) & _POLLIN:
            return True
        return self.bulk is not None and bool(self.bulk.getsockopt(_EVENTS) & _POLLIN)

    def receive(self, most: int, awaited: Any = None) -> List[Message]:
        """Messages as they came, at most so many. awaited: the socket whose descriptor has just told of something, so that it need not be asked."""
        found: List[Message] = []
        for socket in (self.socket, self.bulk):
            if socket is not None and (socket is awaited or socket.getsockopt(_EVENTS) & _POLLIN):
                _receive_from(socket, most, found)
        return found


def _receive_from(socket: Any, most: int, found: List[Message]) -> None:
    try:
        while len(found) < most:
            frame = socket.recv(_NOBLOCK, False)
            header, frames = frame.bytes, []
            while frame.more:
                frame = socket.recv(_NOBLOCK, False)
                frames.append(frame.buffer.toreadonly())
            found.append((header, frames))
            if len(found) == 1 and most > 1 and not socket.getsockopt(_EVENTS) & _POLLIN:  # a lone one: this is cheaper than the exception that ends many
                return
    except zmq.Again:
        pass


def _monitor_of(socket: Any, events: int) -> Any:
    """Its descriptor tells of events only after it was read empty, so this is done at once."""
    monitor = socket.get_monitor_socket(events)
    _events(monitor)
    return monitor


def _events(monitor: Any) -> List[int]:
    events = []
    try:
        while True:
            events.append(struct.unpack_from("=H", monitor.recv_multipart(_NOBLOCK)[0])[0])
    except zmq.Again:
        return events
