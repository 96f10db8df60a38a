#!/usr/bin/env python3
"""The unmodified tritonclient (PyPI: tritonclient[http]) before a gateway and a real pool.

    triton_test.py BIN_DIR

Skips with a message where the package is not installed: for this Python, or in the environment that tests/run.sh makes (tests/support/venv.sh: clients).
The last line is `N passed, N failed, N skipped`.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import models
from pool import Pool, wait_for

try:
    import numpy as np
    import tritonclient.http as triton
    import tritonclient.utils.shared_memory as shm
    from tritonclient.utils import InferenceServerException
    try:
        from ml_dtypes import bfloat16
    except ImportError:  # clients before 26.06 take single precision and cut it
        bfloat16 = np.float32
except ImportError as missing:
    other = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock/clients/bin/python"
    if other.exists() and not os.environ.get("PENSTOCK_TRITON_SECOND"):
        os.environ["PENSTOCK_TRITON_SECOND"] = "1"
        os.execv(other, [str(other), *sys.argv])
    print(f"skipped: {missing}; pip install 'tritonclient[http]' numpy")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

BIN = Path(sys.argv[1]).resolve()
SOURCE = Path(__file__).resolve().parents[2]
passed = failed = 0


def check(condition, what, seen=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    if not condition:
        print(f"FAILED: {what} {seen}", flush=True)


def refused(call, words, what):
    try:
        call()
        check(False, what, "nothing was refused")
    except InferenceServerException as error:
        check(words in str(error), what, error)


NUMPY = {"FP32": "float32", "UINT8": "uint8", "INT8": "int8", "UINT16": "uint16", "INT16": "int16", "INT32": "int32", "INT64": "int64", "BOOL": "bool",
         "FP16": "float16", "FP64": "float64", "UINT32": "uint32", "UINT64": "uint64"}


def tensor(name, array, datatype, binary=True):
    found = triton.InferInput(name, list(array.shape), datatype)
    found.set_data_from_numpy(array, binary_data=binary)
    return found


def calls(client):
    check(client.is_server_live() and client.is_server_ready(), "alive and ready")
    check(client.is_model_ready("batched") and client.is_model_ready("batched", "1") and not client.is_model_ready("none"), "a model is ready")
    check("binary_tensor_data" in client.get_server_metadata()["extensions"], "server metadata")
    check(client.get_model_metadata("batched")["inputs"][0]["shape"] == [-1, 4], "model metadata")
    check(client.get_model_config("batched")["max_batch_size"] == 8, "model config")
    check({row["name"] for row in client.get_model_repository_index()} >= {"batched", "sums", "chain"}, "the index")
    client.unload_model("sums")
    check(not client.is_model_ready("sums"), "unloaded")
    client.load_model("sums")
    check(client.is_model_ready("sums"), "loaded")
    check(client.get_inference_statistics("batched")["model_stats"][0]["name"] == "batched" and client.get_inference_statistics()["model_stats"], "statistics")
    check(client.update_trace_settings("sums", {"trace_level": ["TIMESTAMPS"], "trace_rate": "2"})["trace_rate"] == "2", "trace settings")
    check(client.get_trace_settings()["trace_level"] == ["OFF"], "trace settings of all")
    check(client.update_trace_settings("sums", {"trace_level": None})["trace_level"] == ["OFF"], "trace settings cleared")
    check(client.update_log_settings({"log_verbose_level": 0})["log_verbose_level"] == 0 and client.get_log_settings()["log_error"], "log settings")


def types(client):
    for datatype, name in NUMPY.items():
        array = (np.arange(6).reshape(2, 3) % 2 if name == "bool" else np.arange(6).reshape(2, 3)).astype(name)
        for binary in (True,) if datatype == "FP16" else (True, False):
            outputs = None if binary else [triton.InferRequestedOutput("y", binary_data=False)]
            answer = client.infer("same_" + datatype.lower(), [tensor("x", array, datatype, binary)], outputs=outputs)
            back = answer.as_numpy("y")
            check(back is not None and back.dtype == array.dtype and (back == array).all(), f"{datatype}, binary: {binary}", back)
    halves = np.array([[1.5, -2.0]], dtype=bfloat16)
    check((client.infer("same_bf16", [tensor("x", halves, "BF16")]).as_numpy("y") == halves).all(), "BF16")
    words = np.array([["one", "zwölf"], ["", "x" * 300]], dtype=object)
    for binary in (True, False):
        outputs = None if binary else [triton.InferRequestedOutput("y", binary_data=False)]
        back = client.infer("same_bytes", [tensor("x", words, "BYTES", binary)], outputs=outputs).as_numpy("y")
        check([w if isinstance(w, str) else w.decode() for w in back.flatten()] == list(words.flatten()), f"BYTES, binary: {binary}", back)


def jobs(client):
    two = [tensor("a", np.array([[5, 7]], np.int32), "INT32"), tensor("b", np.array([[1, 2]], np.int32), "INT32", False)]
    answer = client.infer("sums", two, model_version="1", request_id="mine", outputs=[triton.InferRequestedOutput("sum"), triton.InferRequestedOutput("difference", binary_data=False)],
                          priority=1, timeout=30000000, parameters={"mine": "text", "count": 3})
    check(answer.get_response()["id"] == "mine" and answer.as_numpy("sum").tolist() == [[6, 9]] and answer.as_numpy("difference").tolist() == [[4, 5]], "two inputs, two outputs")
    for coding in ("gzip", "deflate"):
        answer = client.infer("sums", two, request_compression_algorithm=coding, response_compression_algorithm=coding)
        check(answer.as_numpy("sum").tolist() == [[6, 9]], coding)
    waiting = [client.async_infer("sums", two) for _ in range(20)]
    check(all(item.get_result().as_numpy("sum").tolist() == [[6, 9]] for item in waiting), "twenty at once")
    scores = tensor("x", np.array([[1, 9, 5, 7]], np.float32), "FP32")
    classes = client.infer("batched", [scores], outputs=[triton.InferRequestedOutput("y", class_count=2)]).as_numpy("y")
    check([c.decode() for c in classes.flatten()] == ["9.000000:1", "7.000000:3"], "classes", classes)
    x, seen = np.array([[1, 2]], np.float32), []
    for step in range(3):
        answer = client.infer("adder", [tensor("x", x, "FP32")], sequence_id=77, sequence_start=step == 0, sequence_end=step == 2)
        seen.append(answer.as_numpy("y").tolist())
    check(seen == [[[1, 2]], [[2, 4]], [[3, 6]]], "a sequence", seen)
    refused(lambda: client.infer("none", [scores]), "none", "an unknown model")
    refused(lambda: client.infer("batched", [tensor("x", np.zeros((1, 5), np.float32), "FP32")]), "", "a wrong shape")
    refused(lambda: client.infer("batched", [tensor("x", np.zeros((1, 4), np.float64), "FP64")]), "", "a wrong datatype")
    refused(lambda: client.infer("batched", [scores], sequence_id=5, model_version="9"), "", "a wrong version")


def shared(client):
    data = np.array([[1, 2, 3, 4]], np.float32)
    handle = shm.create_shared_memory_region("in", f"/penstock_triton_{os.getpid()}", 32)
    try:
        shm.set_shared_memory_region(handle, [data])
        client.unregister_system_shared_memory()
        client.unregister_cuda_shared_memory()
        client.register_system_shared_memory("all", f"/penstock_triton_{os.getpid()}", 32)
        check(client.get_system_shared_memory_status()[0]["byte_size"] == 32, "registered")
        given, wanted = triton.InferInput("x", [1, 4], "FP32"), triton.InferRequestedOutput("y")
        given.set_shared_memory("all", 16)
        wanted.set_shared_memory("all", 16, offset=16)
        answer = client.infer("batched", [given], outputs=[wanted])
        back = shm.get_contents_as_numpy(handle, np.float32, [2, 4])
        check("parameters" not in answer.get_output("y") and back[1].tolist() == [1, 2, 3, 4], "in and out by shared memory", back)
        refused(lambda: client.register_system_shared_memory("all", f"/penstock_triton_{os.getpid()}", 32), "already", "registered twice")
        client.unregister_system_shared_memory("all")
        check(client.get_system_shared_memory_status() == [] and client.get_cuda_shared_memory_status() == [], "nothing is left")
    finally:
        shm.destroy_shared_memory_region(handle)


def tutorial(gateway):
    """The lines of Python in the tutorial, as they stand there."""
    digits = SOURCE / "deploy/models/digits"
    code = re.search(r"```python\n(.*?)```", (SOURCE / "deploy/TUTORIAL.md").read_text(), re.S).group(1).replace("127.0.0.1:8000", gateway.address)
    done = subprocess.run([sys.executable, "-c", code], cwd=digits / "samples", capture_output=True, text=True)
    check(done.stdout == "0\n", "the tutorial's Python sees a zero", done.stdout + done.stderr)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models.save_all(folder / "models")
        shutil.copytree(SOURCE / "deploy/models/digits", folder / "models/first", ignore=shutil.ignore_patterns("testset", "samples"))
        pool = Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", folder / "models", "--slots", "1", "--threads", "1"])
        gateway = pool.gateway()
        check(wait_for(lambda: gateway.ask("v2/models/chain/ready").status == 200 and gateway.ask("v2/health/ready").status == 200), "the pool is ready")
        with triton.InferenceServerClient(gateway.address, concurrency=4) as client:
            for part in (calls, types, jobs, shared):
                part(client)
        check(wait_for(lambda: gateway.ask("v2/models/first/ready").status == 200), "the digits are ready")
        tutorial(gateway)
        pool.stop()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
