"""Who moves a session that threads share. A caller that waits for its job does so itself, so that a job costs no change of threads; a housekeeping thread does so for
futures, and keeps heartbeats and deadlines when nobody waits. One at a time: with the lock it changes the session, without it it waits for the sockets."""
from __future__ import annotations

import math
import os
import select
import threading
import time
from collections import deque
from typing import Any, Deque, Dict, List

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


class Driver(Base):
    """The session of a Client, and its threads."""

    def __init__(self, endpoint: str = "tcp://127.0.0.1:5550", **settings: Any):
        super().__init__(endpoint, **settings)
        self._lock = threading.Lock()
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
        self._pump = threading.Thread(target=self._pump_run, name="penstock", daemon=True)
        self._pump.start()

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

    def _take_ended(self) -> List[Any]:
        ended, self._session.ended = self._session.ended, []
        for one in ended:
            self._futures -= one.notify is not None and isinstance(one, Job)
        return ended

    @staticmethod
    def _tell(ended: List[Any]) -> None:
        """Without the lock."""
        for one in ended:
            if one.notify is not None:
                one.notify(one)
            if one.waiter is not None:
                _release(one.waiter)

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
        ended = self._take_ended() if session.ended else ()
        stop = item.done
        timeout = 0 if stop else min(session.due or session.next_due(), limit) - now
        self._lock.release()
        messages, lost = (), False
        try:
            if ended:
                self._tell(ended)
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

    def _lead(self, item: Any, limit: float) -> None:
        self._driving = True
        try:
            while not item.done and not self._closing and (limit == math.inf or time.monotonic() < limit):
                self._turn(item, limit)
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
        waiter = item.waiter
        if waiter is None:
            waiter = item.waiter = threading.Lock()
        waiter.acquire(blocking=False)
        self._followers.append(waiter)
        ended = self._take_ended() if self._session.ended else ()
        self._lock.release()
        try:
            self._tell(ended)  # type: ignore[arg-type]
            wait = limit - time.monotonic()
            waiter.acquire(timeout=-1 if wait == math.inf else max(0.0, min(wait, 1e6)))
        finally:
            self._lock.acquire()
            self._followers.remove(waiter)

    def _drive_until(self, item: Any, limit: float) -> None:
        """With the lock: until item.done, the limit, or the client is closed."""
        while not item.done and not self._closing and (limit == math.inf or time.monotonic() < limit):
            if self._driving:
                self._follow(item, limit)
            else:
                self._lead(item, limit)
        if not self._driving:
            self._pass_on()  # we may have been chosen and found that we are done

    def _pump_run(self) -> None:
        never = Until(lambda: not self._futures)
        self._lock.acquire()
        while not self._closing:
            if not self._driving and self._futures:
                self._lead(never, math.inf)
            elif not self._driving:
                self._lead_once()
            self._pump_sleep()
        self._leave()

    def _lead_once(self) -> None:
        self._driving = True
        try:
            self._turn(Until(lambda: False), 0)
        finally:
            self._driving = False
            self._pass_on()

    def _pump_sleep(self) -> None:
        if self._closing or (self._futures and not self._driving):
            return
        session = self._session
        wait = session.next_due() - time.monotonic()
        wait = min(wait, _BUSY_TURN) if session.busy() else wait
        self._pump_asleep = True
        self._leave()
        self._pump_wake.acquire(timeout=min(max(wait, 0.001), 60))
        self._lock.acquire()
        self._pump_asleep = False

    def _check_open(self) -> None:
        if self._closing:
            raise InvalidError("this client is closed.")

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
            if not self._driving or threading.current_thread() is self._pump:
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
