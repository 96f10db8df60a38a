#!/usr/bin/env python3
"""client-lib/node/penstock.mjs before real pools: in Node, the example of its README, and in headless Chromium on a page of another origin.

    node_test.py BIN_DIR SOURCE_DIR

Skips with a message what needs a Node or a Chromium that is not here. The last line is `N passed, N failed, N skipped`.
"""
import http.server
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path

import models
from pool import SLOW, Pool, wait_for

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/e2e"))
import browser

HERE, NODE = Path(__file__).resolve().parent, SOURCE / "client-lib/node"
TOKEN = "a-token-of-the-test-1"
passed = failed = skipped = 0


def check(condition, what, seen=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what, seen if not condition else "", flush=True)


def skip(what):
    global skipped
    skipped += 1
    print(f"[SKIP] {what}", flush=True)


def keyed(folder):
    """A pool with keys, behind a gateway with a token."""
    for name, roles in (("broker", "admin"), ("asks", "submit"), ("works", "worker")):
        subprocess.run([BIN / "penstock", "keygen", folder / f"{name}.key", "--name", name, "--roles", roles, "--list", folder / "keys"], check=True, capture_output=True)
    public = next(line.split("=")[1].strip() for line in (folder / "broker.key").read_text().splitlines() if line.startswith("public"))
    models.save(folder / "keyed", "batched", models.model([("x", "FP32", ["n", 4])], [("Identity", ["x"], ["y"])], [("y", "FP32", ["n", 4])]), {"max_batch_size": 8})
    pool = Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", folder / "keyed", "--slots", "1", "--threads", "1", "--key",
                              folder / "works.key", "--broker-key", public], ["--key", folder / "broker.key", "--keys", folder / "keys"])
    (folder / "tokens").write_text(f"ann {folder}/asks.key {TOKEN}\n")
    (folder / "tokens").chmod(0o600)
    return pool.gateway("--tokens", folder / "tokens", "--key", folder / "asks.key", "--broker-key", public)


def types_fit():
    """Each public name of the file is in its types, and the other way round."""
    code, types = (NODE / "penstock.mjs").read_text(), (NODE / "penstock.d.ts").read_text()
    calls = set(re.findall(r"^  (?:async )?(\w+)\(.*\{$", code.split("export class Client")[1], re.M))
    told = set(re.findall(r"^  (\w+)\(", types.split("export class Client")[1], re.M))
    check(calls == told and "infer" in calls, "penstock.d.ts has the methods of the client", calls ^ told)
    check(set(re.findall(r"^export class (\w+)", code, re.M)) == set(re.findall(r"^export class (\w+)", types, re.M)), "and its classes")
    known = set(re.findall(r"\b([A-Z]+\d*): \w+Array", code)) | {"BYTES"}
    check(known == set(re.findall(r"'(\w+)'", types.split("export type Datatype")[1].split(";")[0])), "and its datatypes", known)
    version = re.search(r"project\(penstock VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text()).group(1)
    check(f'"version": "{version}"' in (NODE / "package.json").read_text(), "package.json has the project's version")
    check((NODE / "README.md").read_text().count("\n") <= 40, "its page has 40 lines at most")


def in_node(node, folder, gateway, slow, tokens):
    words = [node, HERE / "node_uses.mjs", NODE / "penstock.mjs", *(f"http://{one.address}" for one in (gateway, slow, tokens)), TOKEN]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=100 * SLOW)
    check(done.returncode == 0, "in Node: " + (done.stdout.splitlines() or [""])[-1], done.stdout + done.stderr)
    check(wait_for(lambda: re.search(rb"penstock_gateway_hung_up_total [1-9]", slow.ask("metrics").body)), "a call that was aborted has given its job up")
    page = (NODE / "README.md").read_text()
    code = re.search(r"```js\n(.*?)```", page, re.S).group(1)
    wanted = re.findall(r"console\.log\(.*\); // (.*)", code)
    (folder / "penstock.mjs").symlink_to(NODE / "penstock.mjs")
    (folder / "example.mjs").write_text(code.replace("127.0.0.1:8000", gateway.address))
    done = subprocess.run([node, folder / "example.mjs"], capture_output=True, text=True, timeout=60 * SLOW)
    check(wanted and done.stdout.splitlines() == wanted, "the example of the README", done.stdout + done.stderr)


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script type="module">
import { Client, PenstockError } from './penstock.mjs';
const float32 = (...numbers) => ({ data: new Float32Array(numbers), shape: [1, numbers.length] });
window.infer = async (url) => {
  const { y } = (await new Client(url).infer('same_fp32', { x: float32(1, 2.5, -3) })).outputs;
  return [y.data.constructor.name, ...y.data];
};
window.failure = (url, model) => new Client(url).infer(model, { x: float32(1) }).then(() => 'none', (e) => [e instanceof PenstockError, e.status, e.message]);
window.zipped = async (url) => (await new Client(url, { gzip: true }).infer('same_bytes', { x: { data: ['ä', 'b'], shape: [1, 2] } })).outputs.y.data;
window.token = (url, token) => new Client(url, { token }).server().then((server) => server.name, (e) => e.status);
window.there = true;
</script>"""


def in_browser(folder, pool, closed):
    site = folder / "site"
    site.mkdir()
    (site / "penstock.mjs").symlink_to(NODE / "penstock.mjs")
    (site / "index.html").write_text(PAGE)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{server.server_address[1]}"
    opened, other = (f"http://{pool.gateway('--cors', allowed).address}" for allowed in (origin, "http://shop.example"))
    with browser.Browser() as page:
        page.open(origin + "/")
        check(page.await_true("window.there === true"), "the page loads the module", page.complaints)
        seen = page.run(f"infer('{opened}')")
        check(seen == ["Float32Array", 1, 2.5, -3], "in Chromium: an inference of another origin's page", seen)
        seen = page.run(f"zipped('{opened}')")
        check(seen == ["ä", "b"], "in Chromium: gzip and texts", seen)
        seen = page.run(f"failure('{opened}', 'nobody')")
        check(seen[:2] == [True, 404] and "nobody" in seen[2], "in Chromium: an error has its status and sentence", seen)
        check(page.run(f"token('{opened}', 'some-token-00000')") == "penstock", "in Chromium: a bearer token passes the preflight")
        seen = page.run(f"failure('http://{closed.address}', 'same_fp32')")
        check(seen[:2] == [True, 0] and "cannot be reached" in seen[2], "in Chromium: without --cors it is refused", seen)
        seen = page.run(f"failure('{other}', 'same_fp32')")
        check(seen[:2] == [True, 0], "in Chromium: a page of another origin than --cors allows is refused", seen)
    server.shutdown()


def main():
    types_fit()
    node = shutil.which("node")
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip() if node else ""
    if node and int(re.match(r"v(\d+)", version).group(1)) < 18:
        node = None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models.save_all(folder / "models")
        (folder / "models/digits").symlink_to(SOURCE / "deploy/models/digits")
        pool = Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", folder / "models", "--slots", "1", "--threads", "1", "--allow-debug"])
        slow = Pool(BIN, folder, [BIN.parent / "tests/bench_echo_worker", "broker", "{workers}", "0", "3000000"], ["--cache", "none"])
        gateway, echo, tokens = pool.gateway(), slow.gateway(), keyed(folder)
        ready = ((gateway, "chain"), (gateway, "digits"), (echo, "null"))
        check(wait_for(lambda: all(one.ask(f"v2/models/{model}/ready").status == 200 for one, model in ready)), "the models are ready")
        check(wait_for(lambda: tokens.ask("v2/models/batched/ready", Authorization=f"Bearer {TOKEN}").status == 200), "behind the token, too")
        if node:
            in_node(node, folder, gateway, echo, tokens)
        else:
            skip("no Node 18 or later here: penstock.mjs was not run in it")
        if browser.program():
            in_browser(folder, pool, gateway)
        else:
            skip("no Chromium here: penstock.mjs was not run in it")
        slow.stop()
        pool.stop()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
