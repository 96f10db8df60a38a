"""A headless Chromium driven through its own protocol over two pipes; standard library only."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe"]


def program():
    """The browser's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. Exceptions and complaints of the console are kept in `complaints`."""

    def __init__(self, width=1400, height=900):
        self.folder = tempfile.mkdtemp()
        to_browser, self.write_fd = os.pipe()
        self.read_fd, from_browser = os.pipe()

        def give_pipes():
            # The browser reads commands from descriptor 3 and writes answers to 4; both ends first leave those numbers.
            a, b = os.dup(to_browser), os.dup(from_browser)
            high = max(a, b, 5) + 1
            os.dup2(a, high)
            os.dup2(b, high + 1)
            os.dup2(high, 3)
            os.dup2(high + 1, 4)

        self.process = subprocess.Popen([program(), *FLAGS, f"--window-size={width},{height}", f"--user-data-dir={self.folder}", "about:blank"],
                                        preexec_fn=give_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.serial, self.session, self.complaints, self.sizes = b"", 0, None, [], {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.write_fd)
        os.close(self.read_fd)
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, timeout_s):
        """The next message, or None when none comes in time."""
        end = time.monotonic() + timeout_s
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                return None
            data = os.read(self.read_fd, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.dataReceived":
            self.sizes[params["requestId"]] = self.sizes.get(params["requestId"], 0) + params["dataLength"]

    def call(self, method, **params):
        self.serial += 1
        request = {"id": self.serial, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write_fd, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message(30)
            if message is None:
                raise RuntimeError(f"no answer to {method}")
            if message.get("id") == self.serial:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def idle(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            message = self.message(left)
            if message:
                self.note(message)

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def run(self, script):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def await_true(self, script, timeout_s=30):
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if self.run(script):
                return True
            self.idle(0.05)
        return False

    def key(self, name, code):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def shot(self, path):
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=False)["data"]))
