"""Who moves a session that threads share. A caller that waits for its job does so itself, so that a job costs no change of threads; a housekeeping thread does so for
futures, and keeps heartbeats and deadlines when nobody waits. One at a time: with the lock it changes the session, without it it waits for the sockets."""
from __future__ import annotations

import logging
import math
import os
import select
import sys
import threading
import time
import weakref
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Set

import zmq

from .errors import InvalidError
from .job import Job
from .pool import Base

_TURN_MESSAGES = 256  # handled before the timers are looked at again
_BUSY_TURN = 0.02
_WAIT_MOST = 60.0
_POLLIN = select.POLLIN


class Until:
    """Something to wait for that is no job: what `question` says."""
    waiter: Any = None

    def __init__(self, question: Any):
        self._question = question

    @property
    def done(self) -> bool:
        return bool(self._question())


def _release(lock: Any) -> None:
    try:
        lock.release()
    except RuntimeError:
        pass  # it was woken already


def _pump_run(of: Any) -> None:
    """The housekeeping thread of the client that the weak reference is of. While nothing is under way it sleeps without holding the client."""
    wait = 0.0
    while wait >= 0:
        client: Any = of()
        if client is None:
            return
        wait = client._pump_step()
        wake, client = client._pump_wake, None  # the last one to hold it may have been this thread: it closes the client then
        if wait > 0:
            wake.acquire(timeout=wait)


_clients: Any = weakref.WeakSet()
_wanted: Set[Any] = set()  # those with futures under way: somebody waits for their callbacks, whoever holds the client


def _forked() -> None:
    """In the child: the threads and the sockets of its clients belong to the parent."""
    for client in list(_clients):
        client._lock = threading.Lock()
        client._closing = client._forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Driver(Base):
    """The session of a Client, and its threads."""
    _closing = True  # until it is made
    _forked = False

    def __init__(self, endpoint: str = "tcp://127.0.0.1:5550", **settings: Any):
        super().__init__(endpoint, **settings)
        self._lock = threading.Lock()
        self._driver = 0  # the thread that drives
        self._driving = self._closing = self._closed = self._nudged = self._pump_asleep = False
        self._followers: Deque[Any] = deque()
        self._futures = 0
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poller: Any = None
        self._poller_of = -1
        self._watched: Dict[int, Any] = {}  # sockets by their descriptors
        self._pump_wake = threading.Lock()
        self._pump_wake.acquire()
        with self._lock:
            self._session.run_timers(time.monotonic())
        self._pump = threading.Thread(target=_pump_run, args=(weakref.ref(self),), name="penstock", daemon=True)
        self._pump.start()
        _clients.add(self)

    def __del__(self) -> None:
        if not self._closing and not sys.is_finalizing():
            self.close()

    def _nudge(self) -> None:
        if not self._nudged:
            self._nudged = True
            os.write(self._wake_write, b"!")

    def _kick(self) -> None:
        """With the lock: there is something to send."""
        if self._driving:
            self._nudge()
            return
        self._session.flush(time.monotonic())
        if self._pump_asleep:
            self._pump_asleep = False
            _release(self._pump_wake)

    def _count_futures(self, more: int) -> None:
        """With the lock."""
        self._futures += more
        if self._futures:
            _wanted.add(self)

    def _take_ended(self) -> List[Any]:
        ended, self._session.ended = self._session.ended, []
        for one in ended:
            self._futures -= one.notify is not None and isinstance(one, Job)
        if not self._futures:
            _wanted.discard(self)
        return ended

    def _tell(self, ended: List[Any]) -> None:
        """Without the lock. All are told, even where a callback leaves with SystemExit, or a signal interrupts it."""
        trouble: Optional[BaseException] = None
        for one in ended:
            if one.notify is not None:
                try:
                    one.notify(one)
                except BaseException as error:
                    trouble = trouble or error
            if one.waiter is not None:
                _release(one.waiter)
        if trouble is None:
            return
        if threading.current_thread() is not self._pump:
            raise trouble
        if not isinstance(trouble, SystemExit):  # the housekeeper goes on: it ends no program, as no thread does
            logging.getLogger("penstock").error("a callback of a future failed", exc_info=trouble)

    def _leave(self) -> None:
        """Gives the lock back and tells who has ended."""
        if not self._session.ended:
            self._lock.release()
            return
        ended = self._take_ended()
        self._lock.release()
        self._tell(ended)

    def _watch(self) -> None:
        """The descriptors that tell of messages, of the connection's end, and of other threads."""
        self._poller, self._watched = select.poll(), {self._wake_read: None}
        for socket in self._link.sockets():
            self._watched[socket.getsockopt(zmq.FD)] = socket
        for descriptor in self._watched:
            self._poller.register(descriptor, _POLLIN)
        self._poller_of = self._link.generation

    def _wait_messages(self, timeout: float) -> Any:
        """Without the lock, owning the sockets: messages that came, and whether the connection is gone."""
        link, session = self._link, self._session
        most = 1 if len(session.pending) == 1 and not session.transfers.downloads else _TURN_MESSAGES
        if self._poller_of != link.generation:
            self._watch()
        if link.readable():
            return link.receive(most), False
        messages: Any = ()
        lost = False
        for descriptor, _ in self._poller.poll(min(timeout, _WAIT_MOST) * 1000 if timeout > 0 else 0):
            socket = self._watched[descriptor]
            if socket is None:
                os.read(self._wake_read, 4096)
            elif socket is link.socket or socket is link.bulk:
                messages = messages or link.receive(most, socket)
            else:
                lost = link.lost() or lost
        if lost:  # the last replies of a leaving broker
            messages = list(messages) + link.receive(1 << 20)
        return messages, lost

    def _tell_between(self) -> None:
        """With the lock, which callbacks do not find taken: they may submit jobs, and wait for them."""
        ended = self._take_ended()
        self._lock.release()
        try:
            self._tell(ended)
        finally:
            self._lock.acquire()

    def _turn(self, item: Any, limit: float) -> None:
        """Timers and queues, then messages. With the lock and the sockets; the lock is not kept throughout."""
        session = self._session
        now = time.monotonic()
        self._nudged = False
        try:
            if now >= session.due:
                session.run_timers(now)
            session.flush(now)
        except zmq.ZMQError as error:
            session.trouble = f"the connection failed: {error}"
            session.connection_lost(now)
        if session.ended:
            self._tell_between()
            now = time.monotonic()
        stop = item.done or self._closing
        timeout = 0 if stop else min(session.due or session.next_due(), limit) - now
        self._lock.release()
        messages, lost = (), False
        try:
            if not stop:
                messages, lost = self._wait_messages(timeout)
        finally:
            self._lock.acquire()
        if messages or lost:
            self._handle(messages, lost)

    def _handle(self, messages: Any, lost: bool) -> None:
        now = time.monotonic()
        session = self._session
        try:
            for header, frames in messages:
                session.receive(header, frames, now)
        except zmq.ZMQError as error:
            session.trouble, lost = f"the connection failed: {error}", True
        if lost:
            session.connection_lost(now)

    def _turns(self, item: Any, limit: float) -> None:
        while not item.done and not self._closing and (limit == math.inf or time.monotonic() < limit):
            self._turn(item, limit)

    def _lead(self, item: Any, limit: float) -> None:
        self._driving = True
        self._driver = threading.get_ident()
        try:
            self._turns(item, limit)
        finally:
            self._driving = False
            if self._followers or self._futures:
                self._pass_on()

    def _pass_on(self) -> None:
        """The sockets are free: the oldest who waits for them is woken, else the housekeeper, if it is wanted."""
        if self._followers:
            _release(self._followers[0])
        elif self._futures and self._pump_asleep:
            self._pump_asleep = False
            _release(self._pump_wake)

    def _follow(self, item: Any, limit: float) -> None:
        if self._session.ended:
            self._tell_between()
            return
        waiter = item.waiter
        if waiter is None:
            waiter = item.waiter = threading.Lock()
        waiter.acquire(blocking=False)
        self._followers.append(waiter)
        self._lock.release()
        try:
            wait = limit - time.monotonic()
            waiter.acquire(timeout=-1 if wait == math.inf else max(0.0, min(wait, 1e6)))
        finally:
            self._lock.acquire()
            self._followers.remove(waiter)

    def _drive_until(self, item: Any, limit: float) -> None:
        """With the lock: until item.done, the limit, or the client is closed."""
        while not item.done and not self._closing and (limit == math.inf or time.monotonic() < limit):
            if not self._driving:
                self._lead(item, limit)
            elif self._driver == threading.get_ident():
                self._turns(item, limit)  # a callback that this thread told waits in its turn
            else:
                self._follow(item, limit)
        if not self._driving:
            self._pass_on()  # we may have been chosen and found that we are done

    def _pump_step(self) -> float:
        """A turn of the housekeeper. How long it may sleep then; below 0: for ever."""
        self._lock.acquire()
        self._pump_asleep = False
        if not self._closing and not self._driving:
            if self._futures:
                self._lead(Until(lambda: not self._futures), math.inf)
            else:
                self._lead_once()
        if self._closing:
            wait = -1.0
        elif self._futures and not self._driving:
            wait = 0.0
        else:
            wait = self._pump_sleep()
        self._leave()
        return wait

    def _lead_once(self) -> None:
        self._driving = True
        self._driver = threading.get_ident()
        try:
            self._turn(Until(lambda: False), 0)
        finally:
            self._driving = False
            self._pass_on()

    def _pump_sleep(self) -> float:
        """With the lock: who wants the housekeeper before that wakes it."""
        session = self._session
        wait = session.next_due() - time.monotonic()
        wait = min(wait, _BUSY_TURN) if session.busy() else wait
        self._pump_asleep = True
        return min(max(wait, 0.001), 60)

    def _check_open(self) -> None:
        if self._closing:
            raise InvalidError("this client belongs to the process that forked this one: make another one here." if self._forked else "this client is closed.")

    def close(self) -> None:
        """Ends the session: unanswered jobs end with CancelledError and are cancelled at the broker. A second call does nothing."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._nudge()
            _release(self._pump_wake)
            for waiter in self._followers:
                _release(waiter)
        if threading.current_thread() is not self._pump:
            self._pump.join()
        while True:  # a caller that drives leaves at once
            self._lock.acquire()
            if not self._driving or self._driver == threading.get_ident():  # a callback closes
                break
            self._nudge()
            self._lock.release()
            time.sleep(0.0005)
        self._session.end(time.monotonic())
        self._closed = True
        self._leave()
        self._link.end()
        os.close(self._wake_read)
        os.close(self._wake_write)
