"""A program on a pseudo-terminal and what its screen shows: enough of a vt100 for what ncurses sends. Standard library only."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z@])|\x1b[()]([A-Z0-9])|\x1b([=>78MDE])")


class Terminal:
    def __init__(self, argv, rows=24, columns=100):
        self.rows, self.columns = rows, columns
        self.clear()
        master, slave = pty.openpty()
        self.fd = master
        self.set_size()
        self.process = subprocess.Popen([str(a) for a in argv], stdin=slave, stdout=slave, stderr=subprocess.DEVNULL, start_new_session=True,
                                        env={**os.environ, "TERM": "vt100", "LC_ALL": "C.UTF-8", "ESCDELAY": "50"},
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.rest = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.fd)

    def set_size(self):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns, 0, 0))

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.rows)]
        self.row = self.column = 0
        self.top, self.bottom = 0, self.rows - 1  # what scrolls

    def scroll(self, down):
        """The lines of the region move by one; an empty one comes in."""
        if down:
            self.cells.insert(self.top, self.cells.pop(self.bottom))
            self.cells[self.top] = [" "] * self.columns
        else:
            self.cells.insert(self.bottom, self.cells.pop(self.top))
            self.cells[self.bottom] = [" "] * self.columns

    def resize(self, rows, columns):
        """What a window does: the screen is empty until the program draws it again."""
        self.rows, self.columns = rows, columns
        self.clear()
        self.set_size()
        os.killpg(self.process.pid, signal.SIGWINCH)

    def type(self, text):
        os.write(self.fd, text.encode())

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    # -- the vt100

    def put(self, char):
        if char == "\r":
            self.column = 0
        elif char == "\n":
            if self.row == self.bottom:
                self.scroll(False)
            else:
                self.row = min(self.row + 1, self.rows - 1)
        elif char == "\b":
            self.column = max(self.column - 1, 0)
        elif char == "\t":
            self.column = min((self.column // 8 + 1) * 8, self.columns - 1)
        elif char >= " ":
            self.cells[min(self.row, self.rows - 1)][min(self.column, self.columns - 1)] = char
            self.column += 1

    def sequence(self, numbers, final):
        n = [int(x) if x.isdigit() else 0 for x in numbers.lstrip("?").split(";")]
        one = max(n[0], 1)
        if final in "Hf":
            self.row, self.column = min(one, self.rows) - 1, min(max(n[1] if len(n) > 1 else 1, 1), self.columns) - 1
        elif final in "ABCD":
            self.row = max(0, min(self.rows - 1, self.row + {"A": -one, "B": one}.get(final, 0)))
            self.column = max(0, min(self.columns - 1, self.column + {"C": one, "D": -one}.get(final, 0)))
        elif final == "r":
            self.top, self.bottom = one - 1, min(n[1] if len(n) > 1 and n[1] else self.rows, self.rows) - 1
            self.row = self.column = 0
        elif final == "K":
            first, last = {0: (self.column, self.columns), 1: (0, self.column + 1), 2: (0, self.columns)}[n[0]]
            self.cells[self.row][first:last] = [" "] * (last - first)
        elif final == "J":
            if n[0] == 0:
                self.cells[self.row][self.column:] = [" "] * (self.columns - self.column)
            for row in range(self.row + 1 if n[0] == 0 else 0, self.rows):
                self.cells[row] = [" "] * self.columns

    def feed(self, data):
        self.rest += data
        while self.rest:
            if self.rest[0] != "\x1b":
                self.put(self.rest[0])
                self.rest = self.rest[1:]
                continue
            match = SEQUENCE.match(self.rest)
            if not match:
                if len(self.rest) < 16:
                    return  # the rest of it is on its way
                self.rest = self.rest[1:]
                continue
            if match.group(4) == "M":
                if self.row == self.top:
                    self.scroll(True)
                else:
                    self.row = max(self.row - 1, 0)
            elif match.group(4) == "D":
                self.put("\n")
            if match.group(2):
                self.sequence(match.group(1), match.group(2))
            self.rest = self.rest[match.end():]

    def wait(self, question, seconds=20):
        """True when question(text of the screen) becomes true in time."""
        end = time.monotonic() + seconds * float(os.environ.get("PENSTOCK_SLOW", "1"))
        while time.monotonic() < end:
            if question(self.text()):
                return True
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.feed(os.read(self.fd, 65536).decode("utf-8", "replace"))
                except OSError:
                    return question(self.text())
        return False
