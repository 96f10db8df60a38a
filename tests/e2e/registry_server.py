"""A web server for tests of registries: it counts what leaves it, knows ranges or not, and can be slow, or break off, or lie."""
import http.server
import re
import threading
import time
from pathlib import Path


class Server:
    def __init__(self, folder, ranges=True):
        self.folder, self.ranges = Path(folder), ranges
        self.sent, self.requests = {}, []
        self.pause = 0.0  # before each 256 KiB
        self.break_after = None  # bytes of one answer, once per path
        self.broken = set()
        self.forged = {}  # path -> other content
        self.lock = threading.Lock()
        handler = type("Handler", (Handler,), {"owner": self})
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def sent_bytes(self):
        with self.lock:
            return sum(count for path, count in self.sent.items() if "/blobs/" in path)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, body):
        path = self.owner.folder / self.path.lstrip("/")
        with self.owner.lock:
            self.owner.requests.append((self.command, self.path, self.headers.get("Range")))
        if not path.is_file():
            self.send_error(404)
            return
        content = self.owner.forged.get(self.path, None) or path.read_bytes()
        first, last, code = 0, len(content) - 1, 200
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if found and self.owner.ranges:
            first, last, code = int(found[1]), min(int(found[2] or last), last), 206
        if first > last:
            self.send_error(416)
            return
        self.send_response(code)
        if code == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        if body:
            self.send(content[first:last + 1])

    def send(self, content):
        limit = None
        with self.owner.lock:
            if self.owner.break_after and len(content) > self.owner.break_after and self.path not in self.owner.broken:
                self.owner.broken.add(self.path)
                limit = self.owner.break_after
        step = 1 << 18
        for at in range(0, len(content), step):
            piece = content[at:at + step]
            if limit is not None and at + len(piece) > limit:
                piece = piece[:limit - at]
            if self.owner.pause:
                time.sleep(self.owner.pause)
            try:
                self.wfile.write(piece)
            except OSError:
                return
            with self.owner.lock:
                self.owner.sent[self.path] = self.owner.sent.get(self.path, 0) + len(piece)
            if limit is not None and at + len(piece) >= limit:
                self.close_connection = True
                self.connection.close()
                return
