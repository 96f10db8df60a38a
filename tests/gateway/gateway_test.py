#!/usr/bin/env python3
"""The gateway before a real pool: each call of the Open Inference Protocol, each datatype, each kind of error, and peers that misbehave.

    gateway_test.py BIN_DIR

Speaks plain HTTP; triton_test.py does the same with the unmodified tritonclient. The last line is `N passed, N failed, N skipped`.
"""
import gzip
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import models
from pool import SLOW, Pool, receive, status_of, wait_for

BIN = Path(sys.argv[1]).resolve()
passed = failed = 0


def check(condition, what, seen=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    if not condition:
        print(f"FAILED: {what} {seen}", flush=True)


def tensor(name, datatype, shape, **more):
    return {"name": name, "datatype": datatype, "shape": shape, **more}


def refused(answer, status, words, what):
    check(answer.status == status and answer.error and words in answer.error, what, (answer.status, answer.body[:300]))


# ---- what is there ----


def metadata(gateway):
    check(gateway.ask("v2/health/live").status == 200, "it lives")
    server = gateway.ask("v2").json
    check(server["name"] == "penstock" and "binary_tensor_data" in server["extensions"] and isinstance(server["version"], str), "server metadata", server)
    batched = gateway.ask("v2/models/batched").json
    check(batched["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}] and batched["versions"] == ["1"], "the batch is in the metadata", batched)
    config = gateway.ask("v2/models/batched/versions/1/config").json
    check(config["max_batch_size"] == 8 and config["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [4], "optional": False}], "and not in the config", config)
    check(config["model_transaction_policy"] == {"decoupled": False} and "dynamic_batching" in config, "the config has what perf_analyzer reads", config)
    keeps = gateway.ask("v2/models/adder/config").json
    check(keeps["sequence_batching"]["max_sequence_idle_microseconds"] > 0 and "dynamic_batching" not in keeps, "a model that keeps state says so", keeps)
    steps = gateway.ask("v2/models/chain/config").json["ensemble_scheduling"]["step"]
    check(steps == [{"model_name": "same_fp32", "model_version": -1, "input_map": {"x": "in"}, "output_map": {"y": "between"}},
                    {"model_name": "same_fp32", "model_version": -1, "input_map": {"x": "between"}, "output_map": {"y": "out"}}], "the steps of an ensemble", steps)
    check(gateway.ask("v2/models/batched/ready").status == 200 and gateway.ask("v2/models/batched/versions/1/ready").status == 200, "a model is ready")
    refused(gateway.ask("v2/models/batched/versions/7/ready"), 404, "version 7", "a version that is not there")
    refused(gateway.ask("v2/models/none"), 404, "none", "a model that is not there")
    check(gateway.ask("v2/models/b%61tched").status == 200, "names are unquoted")
    refused(gateway.ask("v2/nothing"), 404, "/v2", "a path that is not there")
    answer = gateway.ask("v2/models/batched/infer")
    check(answer.status == 405 and answer.headers["Allow"] == "POST" and answer.error, "a wrong method says which is right")


def repository(gateway):
    index = {row["name"]: row for row in gateway.ask("v2/repository/index", b"").json}
    check(index["batched"]["state"] == "READY" and index["batched"]["version"] == "1" and "chain" in index, "the index", index)
    bare = gateway.say(b"POST /v2/repository/index HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    check(status_of(bare) == 200 and b"READY" in bare, "a POST without any length has no body")
    check(gateway.ask("v2/repository/models/sums/unload", {"parameters": {"unload_dependents": False}}).status == 200, "unloading")
    check(gateway.ask("v2/models/sums/ready").status != 200, "it is unloaded")
    names = [row["name"] for row in gateway.ask("v2/repository/index", {"ready": True}).json]
    check("sums" not in names and "batched" in names, "the index of what is ready", names)
    check(gateway.ask("v2/repository/models/sums/load", b"").status == 200 and gateway.ask("v2/models/sums/ready").status == 200, "loading")
    check(gateway.ask("v2/repository/models/none/load", b"").status in (400, 404), "loading what is not there")
    refused(gateway.ask("v2/repository/models/sums/load", {"parameters": {"config": "{}"}}), 400, "own folders", "a config that would be ignored is refused")


# ---- inference ----

JSON_VALUES = {"BOOL": [True, False], "UINT8": [0, 255], "UINT16": [1, 65535], "UINT32": [2, 4294967295], "UINT64": [3, 18446744073709551615],
               "INT8": [-128, 127], "INT16": [-32768, 5], "INT32": [-2147483648, 6], "INT64": [-9223372036854775808, 9223372036854775807],
               "FP32": [0.3, -1.5], "FP64": [0.1, 1e-300], "BYTES": ["wörld \"quoted\"", ""]}
SIZES = {"BOOL": 1, "UINT8": 1, "INT8": 1, "UINT16": 2, "INT16": 2, "FP16": 2, "BF16": 2, "UINT32": 4, "INT32": 4, "FP32": 4}


def texts(values):
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


def types(gateway):
    for datatype, values in JSON_VALUES.items():
        answer = gateway.infer("same_" + datatype.lower(), [tensor("x", datatype, [1, 2], data=values)])
        outputs = answer.json.get("outputs", [{}])
        check(answer.status == 200 and outputs[0].get("data") == values and outputs[0]["datatype"] == datatype and outputs[0]["shape"] == [1, 2], f"{datatype} as JSON", answer.body[:200])
    for datatype in models.TYPES:
        data = texts([b"\xff\x00raw", b"two"]) if datatype == "BYTES" else b"\x01\x00" if datatype == "BOOL" else bytes(range(1, 2 * SIZES.get(datatype, 8) + 1))
        answer = binary(gateway, "same_" + datatype.lower(), [tensor("x", datatype, [1, 2])], [data])
        head = int(answer.headers.get("Inference-Header-Content-Length") or 0)
        check(answer.status == 200 and head and answer.body[head:] == data, f"{datatype} as binary data", answer.body[:200])
        check(json.loads(answer.body[:head] or b"{}").get("outputs", [{}])[0].get("parameters") == {"binary_data_size": len(data)}, f"{datatype} says its size")
    for datatype in ("FP16", "BF16"):
        refused(gateway.infer("same_" + datatype.lower(), [tensor("x", datatype, [1, 1], data=[1.0])]), 400, "no form in JSON", f"{datatype} has no form in JSON")


def binary(gateway, model, inputs, data, outputs=None, more=b"", parameters=None, **headers):
    inputs = [dict(item, parameters={"binary_data_size": len(part)}) for item, part in zip(inputs, data)]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True, **(parameters or {})}, **({"outputs": outputs} if outputs else {})}).encode()
    return gateway.ask(f"v2/models/{model}/infer", head + b"".join(data) + more, Inference_Header_Content_Length=len(head), **headers)


def forms(gateway):
    two = [tensor("a", "INT32", [1, 2], data=[[5, 7]]), tensor("b", "INT32", [1, 2], data=[1, 2])]
    answer = gateway.ask("v2/models/sums/infer", {"id": "mine", "inputs": two, "outputs": [{"name": "difference"}]})
    check(answer.json["id"] == "mine" and answer.json["model_name"] == "sums" and answer.json["model_version"] == "1", "id, name and version come back", answer.body)
    check([(o["name"], o["data"]) for o in answer.json["outputs"]] == [("difference", [4, 5])], "only the output that was asked for, nested or flat", answer.body)
    data = struct.pack("<2i", 10, 20)
    mixed = json.dumps({"inputs": [dict(two[0]), tensor("b", "INT32", [1, 2], parameters={"binary_data_size": 8})],
                        "outputs": [{"name": "sum", "parameters": {"binary_data": True}}, {"name": "difference"}]}).encode()
    answer = gateway.ask("v2/models/sums/infer", mixed + data, Inference_Header_Content_Length=len(mixed))
    head = int(answer.headers["Inference-Header-Content-Length"])
    check(struct.unpack("<2i", answer.body[head:]) == (15, 27) and json.loads(answer.body[:head])["outputs"][1]["data"] == [-5, -13], "binary and JSON mixed, both ways")
    raw = gateway.ask("v2/models/batched/infer", struct.pack("<8f", *range(8)), Inference_Header_Content_Length=0)
    head = int(raw.headers["Inference-Header-Content-Length"])
    check(json.loads(raw.body[:head])["outputs"][0]["shape"] == [2, 4] and raw.body[head:] == struct.pack("<8f", *range(8)), "a raw request", raw.body[:200])
    text = gateway.ask("v2/models/same_bytes/infer", b"just text", Inference_Header_Content_Length=0)
    check(text.body.endswith(texts([b"just text"])), "a raw request of one text", text.body)
    refused(gateway.ask("v2/models/batched/infer", b"123", Inference_Header_Content_Length=0), 400, "unexpected size", "a raw request of a wrong size")
    refused(gateway.ask("v2/models/sums/infer", b"1234", Inference_Header_Content_Length=0), 400, "exactly one input", "a raw request needs one input")
    version = gateway.ask("v2/models/sums/versions/1/infer", {"inputs": two})
    check(version.status == 200, "by version")
    refused(gateway.ask("v2/models/sums/versions/3/infer", {"inputs": two}), 404, "", "by a version that is not there")


def codings(gateway):
    body = json.dumps({"inputs": [tensor("x", "FP32", [1, 4], data=[1, 2, 3, 4])]}).encode()
    raw_deflate = zlib.compressobj(wbits=-15)
    for name, packed in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body)), ("deflate", raw_deflate.compress(body) + raw_deflate.flush())):
        check(gateway.ask("v2/models/batched/infer", packed, Content_Encoding=name).json["outputs"][0]["data"] == [1, 2, 3, 4], f"{name} in")
    for name, unpack in (("gzip", gzip.decompress), ("deflate", zlib.decompress)):
        answer = gateway.ask("v2/models/batched/infer", body, Accept_Encoding=name)
        check(answer.headers["Content-Encoding"] == name and json.loads(unpack(answer.body))["outputs"][0]["data"] == [1, 2, 3, 4], f"{name} out")
    check(gateway.ask("v2/models/batched/infer", body, Accept_Encoding="gzip;q=0").headers["Content-Encoding"] is None, "a coding that is refused is not used")
    refused(gateway.ask("v2/models/batched/infer", body, Content_Encoding="gzip"), 400, "not of the Content-Encoding", "what is no gzip")
    refused(gateway.ask("v2/models/batched/infer", gzip.compress(body)[:-12], Content_Encoding="gzip"), 400, "", "gzip that is cut")
    refused(gateway.ask("v2/models/batched/infer", gzip.compress(bytes(9 << 20)), Content_Encoding="gzip"), 400, "--max-body", "a small body that unpacks to a large one")
    refused(gateway.ask("v2/models/batched/infer", body, Content_Encoding="br"), 400, "Content-Encoding", "an unknown coding")


def numbers(gateway):
    """Large JSON goes by way of another thread; every number comes back as it went."""
    import random
    draw = random.Random(7)
    values = [struct.unpack("<f", struct.pack("<I", draw.randrange(1 << 32)))[0] for _ in range(40000)]
    values = [value for value in values if value - value == 0][:39000]
    answer = gateway.infer("same_fp32", [tensor("x", "FP32", [1, len(values)], data=values)])
    back = [struct.pack("<f", value) for value in answer.json["outputs"][0]["data"]]
    check(back == [struct.pack("<f", value) for value in values], "39,000 single-precision numbers there and back")
    wide = [struct.unpack("<d", struct.pack("<Q", draw.randrange(1 << 64)))[0] for _ in range(3000)]
    wide = [value for value in wide if value - value == 0]
    check(gateway.infer("same_fp64", [tensor("x", "FP64", [1, len(wide)], data=wide)]).json["outputs"][0]["data"] == wide, "double-precision numbers there and back")
    odd = gateway.ask("v2/models/same_fp32/infer", b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,3],"data":[NaN,Infinity,-Infinity]}]}')
    check(b"[NaN,Infinity,-Infinity]" in odd.body, "NaN and infinities as Python writes them", odd.body)


def bad_requests(gateway):
    good = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    cases = [
        (b"", "object is expected", "nothing"), (b"{", "", "half"), (b'{"inputs":[]}', "no inputs", "no inputs"), (b"[1]", "object", "no object"),
        (b'{"inputs":[' + b"[" * 200 + b"]" * 200 + b"]}", "", "no input"), (b'{"a":' + b"[" * 101 + b"]" * 101 + b"}", "nested deeper", "nesting"),
        (b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":' + b"[" * 150 + b"1" + b"]" * 150 + b"}]}", "nested deeper", "nested data"),
        ({"inputs": [dict(good, datatype="FP33")]}, "no datatype", "datatype"), ({"inputs": [dict(good, shape=[1, 5])]}, "fewer elements", "too few"),
        ({"inputs": [dict(good, shape=[1, 3])]}, "more elements", "too many"), ({"inputs": [dict(good, shape=[1, -4])]}, "negative", "negative shape"),
        ({"inputs": [dict(good, shape=[1 << 40, 1 << 40])]}, "shape", "a shape beyond counting"), ({"inputs": [dict(good, shape=[1] * 9)]}, "8 dimensions", "rank"),
        ({"inputs": [dict(good, shape=[1, 1 << 40])]}, "fewer elements", "a shape that is only claimed"),
        ({"inputs": [dict(good, data=[1, 2, "3", 4])]}, "number is expected", "a text among numbers"), ({"inputs": [dict(good, data=[1, 2, None, 4])]}, "number", "null"),
        ({"inputs": [dict(good, data=[1, 2, 1e39, 4])]}, "too large", "beyond FP32"), ({"inputs": [dict(good, name="z")]}, "no input 'z'", "an unknown input"),
        ({"inputs": [good, good]}, "x", "the same input twice"), ({"inputs": [good], "outputs": [{"name": "z"}]}, "z", "an unknown output"),
        ({"inputs": [dict(good, parameters={"binary_data_size": 16})]}, "either", "two ways at once"),
        ({"inputs": [good], "parameters": {"priority": 256}}, "priority", "priority"), ({"inputs": [good], "parameters": {"timeout": -1}}, "whole number", "timeout"),
        ({"inputs": [good], "parameters": {"mine": {"a": 1}}}, "parameter", "a parameter that is an object"),
        (b'{"inputs":[{"name":"x\\u0000","shape":[1],"datatype":"FP32","data":[1]}]}', "U+0000", "a zero in a name"),
        (b'{"inputs":[],"x":01}', "", "a leading zero"), (b'{"inputs":[]} {}', "follows", "two objects"), (b'{"inputs":[,]}', "", "a comma"),
        (b'{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,,2]}]}', "comma", "two commas"),
        (b'{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1 2]}]}', "comma", "no comma"),
    ]
    for body, words, what in cases:
        answer = gateway.ask("v2/models/batched/infer", body)
        check(400 <= answer.status < 500 and answer.error and words in answer.error, f"refused: {what}", (answer.status, answer.body[:300]))
    refused(gateway.infer("same_uint8", [tensor("x", "UINT8", [1, 2], data=[1, 256])]), 400, "range", "beyond UINT8")
    refused(gateway.infer("same_uint8", [tensor("x", "UINT8", [1, 2], data=[1, -1])]), 400, "range", "below UINT8")
    refused(gateway.infer("same_int64", [tensor("x", "INT64", [1, 1], data=[1.5])]), 400, "whole", "a fraction for a whole number")
    refused(gateway.infer("none", [good]), 404, "none", "an unknown model")
    refused(binary(gateway, "batched", [tensor("x", "FP32", [1, 4])], [bytes(12)]), 400, "unexpected size", "too few bytes")
    refused(binary(gateway, "batched", [tensor("x", "FP32", [1, 4])], [bytes(16)], more=b"1"), 400, "unexpected additional input data", "too many bytes")
    refused(gateway.ask("v2/models/batched/infer", b"{}", Inference_Header_Content_Length=9), 400, "says 9", "a JSON length beyond the body")
    refused(gateway.ask("v2/models/batched/infer", b"{}", Inference_Header_Content_Length="x"), 400, "no number", "a JSON length that is none")
    refused(binary(gateway, "same_bytes", [tensor("x", "BYTES", [1, 2])], [b"\xff\xff\xff\x7fab"]), 400, "unexpected size", "texts that are longer than what is there")
    refused(gateway.ask("v2/models/batched/infer", bytes(9 << 20)), 400, "--max-body", "a body beyond the limit")


def debug_mode(gateway):
    ask = lambda model, inputs, **parameters: gateway.ask(f"v2/models/{model}/infer", {"inputs": inputs, "parameters": parameters})
    x = [tensor("x", "FP32", [1, 4], data=[1, 2, 3, 4])]
    answer = ask("batched", x, penstock_debug=True).json
    log = answer["parameters"]["penstock_debug_log"]
    check("Identity" in log and "no NaN and no infinity\n" in log and answer["outputs"][0]["data"] == [1, 2, 3, 4], "an answer and the log of its operators", answer)
    check("parameters" not in ask("batched", x, penstock_debug=False).json, "no log where nobody asks")
    refused(ask("batched", x, penstock_debug="yes"), 400, "", "debug mode is a flag")
    row = [tensor("x", "FP32", [4], data=[1, 2, 3, 4])]
    failed_run = ask("lookup", [*row, tensor("i", "INT64", [1], data=[9])], penstock_debug=True)
    told = json.loads(failed_run.body)
    check(failed_run.status == 400 and "Gather" in told["error"] and "no NaN and no infinity" in told.get("penstock_debug_log", ""), "the log of a run that failed", failed_run.body)


def pool_features(gateway, echo):
    stated = gateway.ask("v2/models/batched/infer", {"inputs": [tensor("x", "FP32", [1, 4], data=[1, 2, 3, 4])], "parameters": {"penstock_precision": "max_relative_error=1e-6"}})
    rests = json.loads(stated.body).get("parameters", {})
    check(stated.status == 200 and rests.get("penstock_backend") and float(rests["penstock_max_relative_error"]) <= 1e-6 and rests.get("penstock_engine_build"),
          "a stated precision, and what the answer rests on", stated.body)
    refused(gateway.ask("v2/models/batched/infer", {"inputs": [tensor("x", "FP32", [1, 4], data=[1, 2, 3, 4])], "parameters": {"penstock_precision": "f33"}}), 400, "is no precision",
            "a precision that there is not")
    answer = gateway.infer("batched", [tensor("x", "FP32", [2, 4], data=[1, 9, 5, 7, 4, 3, 2, 1])], [{"name": "y", "parameters": {"classification": 2}}])
    check(answer.json["outputs"][0]["data"] == ["9.000000:1", "7.000000:3", "4.000000:0", "3.000000:1"] and answer.json["outputs"][0]["shape"] == [2, 2]
          and answer.json["outputs"][0]["datatype"] == "BYTES", "classes", answer.body)
    chain = gateway.infer("chain", [tensor("in", "FP32", [1, 2], data=[3, 4])])
    check(chain.json["outputs"] == [{"name": "out", "datatype": "FP32", "shape": [1, 2], "data": [3.0, 4.0]}], "an ensemble", chain.body)
    for name in (42, "by name"):
        seen = []
        for step in range(3):
            parameters = {"sequence_id": name, "sequence_start": step == 0, "sequence_end": step == 2}
            answer = gateway.infer("adder", [tensor("x", "FP32", [1, 2], data=[1, step])], parameters=parameters)
            seen.append(answer.json.get("outputs", [{}])[0].get("data"))
        check(seen == [[1, 0], [2, 1], [3, 3]], f"a sequence {name!r}", (seen, answer.body))
    refused(gateway.infer("adder", [tensor("x", "FP32", [1, 2], data=[1, 1])]), 400, "sequence", "a model with state needs a sequence")
    more = gateway.infer("batched", [tensor("x", "FP32", [1, 4], data=[1, 2, 3, 4])], parameters={"priority": 2, "timeout": 60000000, "mine": "text", "number": 1.5, "on": True})
    check(more.status == 200, "priority, timeout and parameters of one's own", more.body)
    one = [tensor("x", "FP32", [1, 4], data=[1, 2, 3, 4])]
    has = gateway.infer("batched", one, parameters={"penstock_require": "cpu_isa;cpu_isa"})
    check(has.status == 200, "a flag that the worker has", has.body)
    refused(gateway.infer("batched", one, parameters={"penstock_require": "cpu_isa;wings=2", "timeout": 5000000}), 501, "tags and flags", "one that no worker has")
    refused(gateway.infer("batched", one, parameters={"penstock_require": ";"}), 400, "1 to 16 flags", "no flag at all")
    two = [bytes(range(18)), bytes(range(100, 118))]
    files = b"".join(struct.pack("<i", len(file)) + file for file in map(models.png, two))
    looked = binary(gateway, "look", [tensor("x", "BYTES", [2])], [files])
    check(looked.status == 200 and looked.body.endswith(struct.pack("<36f", *two[0], *two[1])), "two files of pictures", looked.body[:300])
    refused(gateway.infer("look", [tensor("x", "BYTES", [1], data=["no picture"])]), 400, "picture", "a file that is no picture")
    late = echo.infer("null", [tensor("bytes", "UINT8", [1, 4], data=[1, 2, 3, 4])], parameters={"timeout": 200000})
    check(late.status == 504 and late.error, "a time-out", (late.status, late.body))


def statistics(gateway):
    rows = [tensor("x", "FP32", [2, 4], data=[float(i) for i in range(8)])]
    before = gateway.ask("v2/models/batched/stats").json["model_stats"][0]
    for _ in range(3):
        check(gateway.infer("batched", rows, parameters={"salt": time.monotonic()}).status == 200, "a job for the statistics")
    gateway.infer("batched", [tensor("x", "FP32", [1, 5], data=[0] * 5)])
    after = gateway.ask("v2/models/batched/versions/1/stats").json["model_stats"][0]
    check(after["inference_count"] - before["inference_count"] == 6, "rows are counted", (before, after))
    check(after["execution_count"] - before["execution_count"] == 3, "batches are counted")
    stats = after["inference_stats"]
    check(set(stats) == {"success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"}, "all eight times", stats)
    check(stats["success"]["count"] - before["inference_stats"]["success"]["count"] == 3 and isinstance(after["version"], str), "successes")
    check(sum(row["inference_count"] for row in after["backend_stats"]) == after["inference_count"] and after["backend_stats"][0]["backend"], "split by backend", after)
    check(any(row["name"] == "sums" for row in gateway.ask("v2/models/stats").json["model_stats"]), "of all models")
    refused(gateway.ask("v2/models/none/stats"), 404, "none", "of a model that is not there")
    hit = [gateway.infer("batched", [tensor("x", "FP32", [1, 4], data=[8, 8, 8, 8])]) for _ in range(2)]
    check(hit[1].status == 200 and gateway.ask("v2/models/batched/stats").json["model_stats"][0]["inference_stats"]["cache_hit"]["count"] >= 1, "cache hits")
    page = gateway.ask("metrics").body.decode()
    for name in ("requests_total{call=\"infer\",status=\"2xx\"}", "connections ", "inference_rows_total{model=\"batched\"", "request_seconds_bucket{model=\"batched\"", "body_bytes"):
        check("penstock_gateway_" + name in page, f"the metric {name}")


def shared_memory(gateway):
    name = f"/penstock_test_{os.getpid()}"
    path = Path("/dev/shm") / name[1:]
    path.write_bytes(struct.pack("<4f", 1, 2, 3, 4) + bytes(64))
    try:
        check(gateway.ask("v2/systemsharedmemory/region/in/register", {"key": name, "offset": 0, "byte_size": 16}).status == 200, "registering")
        check(gateway.ask("v2/systemsharedmemory/region/out/register", {"key": name, "offset": 16, "byte_size": 64}).status == 200, "registering the output")
        refused(gateway.ask("v2/systemsharedmemory/region/in/register", {"key": name, "offset": 0, "byte_size": 16}), 400, "already", "registering twice")
        check(gateway.ask("v2/systemsharedmemory/region/in/status").json == [{"name": "in", "key": name, "offset": 0, "byte_size": 16}], "its status")
        check(len(gateway.ask("v2/systemsharedmemory/status").json) == 2, "the status of all")
        use = lambda region, size, offset=0: {"shared_memory_region": region, "shared_memory_byte_size": size, "shared_memory_offset": offset}
        answer = gateway.infer("batched", [tensor("x", "FP32", [1, 4], parameters=use("in", 16))], [{"name": "y", "parameters": use("out", 16, 8)}])
        check(answer.status == 200 and path.read_bytes()[24:40] == struct.pack("<4f", 1, 2, 3, 4) and "data" not in answer.json["outputs"][0], "in and out by shared memory", answer.body)
        x = [tensor("x", "FP32", [1, 4], data=[1, 2, 3, 4])]
        refused(gateway.infer("batched", x, [{"name": "y", "parameters": use("out", 8)}]), 400, "at least 16", "too small for the output")
        refused(gateway.infer("batched", x, [{"name": "y", "parameters": use("out", 32, 48)}]), 400, "offset", "an output beyond the region")
        refused(gateway.infer("batched", [tensor("x", "FP32", [1, 4], parameters=use("in", 16, 8))]), 400, "offset", "an input beyond the region")
        refused(gateway.infer("batched", [tensor("x", "FP32", [1, 4], parameters=use("else", 16))]), 400, "else", "a region that nobody registered")
        refused(gateway.ask("v2/systemsharedmemory/region/far/register", {"key": name, "offset": 64, "byte_size": 64}), 400, "not all in it", "beyond the object")
        for key in ("/../etc/passwd", "/nothing_of_that_name", "", "/"):
            check(gateway.ask("v2/systemsharedmemory/region/bad/register", {"key": key, "offset": 0, "byte_size": 1}).status == 400, f"the key {key!r}")
        os.truncate(path, 8)
        refused(gateway.infer("batched", [tensor("x", "FP32", [1, 4], parameters=use("in", 16))]), 400, "shorter", "an object that was cut short")
        check(gateway.ask("v2/systemsharedmemory/region/in/unregister", b"").status == 200, "unregistering")
        check(gateway.ask("v2/systemsharedmemory/region/in/status").status == 404, "it is forgotten")
        check(gateway.ask("v2/systemsharedmemory/unregister", b"").status == 200 and gateway.ask("v2/systemsharedmemory/status").json == [], "unregistering all")
        check(gateway.ask("v2/cudasharedmemory/unregister", b"").status == 200 and gateway.ask("v2/cudasharedmemory/status").json == [], "no CUDA is left")
        check(gateway.ask("v2/cudasharedmemory/region/a/register", {}).status == 501, "there is no CUDA")
    finally:
        path.unlink()


def settings(gateway):
    check(gateway.ask("v2/trace/setting").json["trace_level"] == ["OFF"], "nothing is traced at first")
    changed = gateway.ask("v2/models/sums/trace/setting", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": 1}).json
    check(changed["trace_level"] == ["TIMESTAMPS"] and changed["trace_count"] == "1", "tracing one model", changed)
    two = [tensor("a", "INT32", [1, 2], data=[5, 7]), tensor("b", "INT32", [1, 2], data=[1, 2])]
    gateway.infer("sums", two)
    check(gateway.ask("v2/models/sums/trace/setting").json["trace_count"] == "0" and gateway.ask("v2/trace/setting").json["trace_level"] == ["OFF"], "one was traced")
    cleared = gateway.ask("v2/models/sums/trace/setting", {"trace_level": None}).json
    check(cleared["trace_level"] == ["OFF"], "the model follows the others again", cleared)
    refused(gateway.ask("v2/trace/setting", {"trace_level": ["TENSORS"]}), 400, "not traced", "a level that we do not have")
    refused(gateway.ask("v2/trace/setting", {"trace_rate": "x"}), 400, "number", "a rate that is none")
    check(gateway.ask("v2/logging", {"log_verbose_level": 1}).json["log_verbose_level"] == 1, "a talkative log")
    quiet = gateway.ask("v2/logging", {"log_verbose_level": 0, "log_info": False}).json
    check(quiet["log_info"] is False and quiet["log_warning"] is True, "a quiet log", quiet)
    refused(gateway.ask("v2/logging", {"log_file": "/tmp/x"}), 400, "stderr", "a log file")


# ---- peers ----

HEAD = b"POST /v2/models/batched/infer HTTP/1.1\r\nHost: localhost\r\n"
BODY = json.dumps({"inputs": [tensor("x", "FP32", [1, 4], data=[1, 2, 3, 4])]}).encode()


def framing(gateway):
    last = b"Connection: close\r\n"
    chunks = b"".join(b"%x;a=b\r\n%s\r\n" % (len(BODY[i:i + 7]), BODY[i:i + 7]) for i in range(0, len(BODY), 7)) + b"0\r\nTrailer: x\r\n\r\n"
    answer = gateway.say(HEAD + last + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    check(status_of(answer) == 200 and b"[1.0,2.0,3.0,4.0]" in answer, "a body in chunks", answer)
    answer = gateway.say(HEAD + last + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
    check(answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"), "100-continue", answer[:100])
    answer = gateway.say(HEAD + last + b"Expect: \r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
    check(answer.startswith(b"HTTP/1.1 200"), "an empty Expect is none", answer[:100])
    one = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = gateway.say(one * 3 + HEAD + last + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
    check(answer.count(b"HTTP/1.1 200") == 4, "four requests at once are answered in order", answer)
    answer = gateway.say(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
    check(status_of(answer) == 200 and b"Connection: close" in answer, "HTTP/1.0")
    answer = gateway.say(b"HEAD /v2 HTTP/1.1\r\nHost: localhost\r\n" + last + b"\r\n")
    check(answer.endswith(b"\r\n\r\n") and b"Content-Length: 2" in answer, "HEAD has no content", answer)
    bad = {b"GET / HTTP/1.1\r\n\r\n": 400, b"GET / HTTP/2.0\r\nHost: a\r\n\r\n": 505, b"nonsense\r\n\r\n": 400, HEAD + b" folded\r\n\r\n": 400,
           HEAD + b"A : b\r\n\r\n": 400, HEAD + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n": 400, HEAD + b"Content-Length: -1\r\n\r\n": 400,
           HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n": 400, HEAD + b"Transfer-Encoding: gzip\r\n\r\n": 501,
           HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n": 400, HEAD + b"Host: b\r\n\r\n": 400, HEAD + b"X: " + b"y" * 20000: 431,
           HEAD + b"".join(b"X%d: y\r\n" % i for i in range(120)) + b"\r\n": 431, HEAD + b"Expect: more\r\n\r\n": 417, HEAD + b"X: \x00\r\n\r\n": 400,
           b"GET /%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n": 404, b"GET /v2/models/%00 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n": 404,
           b"\x16\x03\x01\x02\x00\x01": 400, b"\0": 400,  # TLS, and nothing of the kind: told at once
           b"GET /v2 HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n": 421}
    for text, status in bad.items():
        answer = gateway.say(text)
        check(status_of(answer) == status and b'{"error":"' in answer, f"{text[:60]!r} is {status}", answer[:200])


def slow_peers(pool):
    gateway = pool.gateway("--head-timeout", "300ms", "--connections", "4", "--idle", "100s")
    with gateway.connect() as slow:
        slow.sendall(b"GET /v2/health/li")
        begin = time.monotonic()
        answer = receive(slow)
        check(status_of(answer) == 408 and time.monotonic() - begin < 10 * SLOW, "a head that never ends", answer)
    idle = [gateway.connect() for _ in range(4)]
    check(wait_for(lambda: gateway.ask("v2/health/live").status == 200), "health answers when all places are taken")
    answer = gateway.ask("v2")
    check(answer.status == 503 and answer.error and answer.headers["Retry-After"], "the others are told to come back", answer.body)
    more = [gateway.connect() for _ in range(90)]
    check(gateway.ask("v2/health/live").status == 200, "and when the spare ones are taken, too")
    for connection in idle + more:
        connection.close()
    check(wait_for(lambda: gateway.ask("v2").status == 200), "there is room again")


def hang_up(echo, pool):
    """A job that nobody waits for any more is cancelled."""
    body = json.dumps({"inputs": [tensor("bytes", "UINT8", [1, 4], data=[9, 9, 9, 9])]}).encode()
    check(wait_for(lambda: echo.ask("v2/models/null/ready").status == 200), "the slow worker is there")
    with echo.connect() as connection:
        connection.sendall(b"POST /v2/models/null/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        check(wait_for(lambda: b"penstock_gateway_inferences 1\n" in echo.ask("metrics").body), "a job is under way")
    check(wait_for(lambda: b"penstock_gateway_inferences 0\n" in echo.ask("metrics").body), "it is given up with its peer")
    check(b"penstock_gateway_hung_up_total 1\n" in echo.ask("metrics").body, "and counted")

    def stats():
        return json.loads(subprocess.run([BIN / "penstock", "top", "--once", "--json", "--broker", pool.clients], capture_output=True, text=True).stdout or "{}")
    check(wait_for(lambda: "\"jobs_cancelled\":1" in json.dumps(stats()).replace(" ", "") or "\"cancelled\":1" in json.dumps(stats()).replace(" ", "")), "the broker cancelled it", str(stats())[:600])


def browsers(pool):
    plain, open_one = pool.gateway(), pool.gateway("--cors", "https://shop.example")
    check(plain.ask("v2/health/live", Origin="https://shop.example").headers["Access-Control-Allow-Origin"] is None, "no browser by default")
    check(open_one.ask("v2/health/live").headers["Access-Control-Allow-Origin"] == "https://shop.example", "the one that is allowed")
    before = open_one.ask("v2/models/batched/infer", method="OPTIONS", Origin="https://shop.example")
    check(before.status == 204 and {"Inference-Header-Content-Length", "traceparent"} <= set(before.headers["Access-Control-Allow-Headers"].split(", ")), "what it asks before")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    answer = open_one.infer("batched", [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}], traceparent=trace)
    check(answer.status == 200 and answer.headers["traceparent"] == trace, "the trace of an answer", answer.headers)
    check(set(answer.headers["Access-Control-Expose-Headers"].split(", ")) == {"Inference-Header-Content-Length", "Retry-After", "traceparent"}, "what a page may read")


def tokens(folder):
    """Two tokens with keys of other roles; a third comes while the gateway runs."""
    for name, roles in (("broker", "admin"), ("asks", "submit"), ("steers", "submit,admin"), ("works", "worker")):
        subprocess.run([BIN / "penstock", "keygen", folder / f"{name}.key", "--name", name, "--roles", roles, "--list", folder / "keys"], check=True, capture_output=True)
    public = next(line.split("=")[1].strip() for line in (folder / "broker.key").read_text().splitlines() if line.startswith("public"))
    root = folder / "keyed"
    models.save(root, "batched", models.model([("x", "FP32", ["n", 4])], [("Identity", ["x"], ["y"])], [("y", "FP32", ["n", 4])]), {"max_batch_size": 8})
    worker = [BIN / "penstock-worker", "--broker", "{workers}", "--models", root, "--slots", "1", "--threads", "1", "--key", folder / "works.key", "--broker-key", public]
    pool = Pool(BIN, folder, worker, ["--key", folder / "broker.key", "--keys", folder / "keys"])
    file = folder / "tokens"
    import hashlib
    hashed = hashlib.sha256(b"the second token 22").hexdigest()
    lines = f"# who\nann {folder}/asks.key first-token-1111111\nben {folder}/steers.key sha256:{hashed} settings\n"
    file.write_text(lines.replace("the second token 22", ""))
    file.chmod(0o644)
    bad = subprocess.run([BIN / "penstock-gateway", "--tokens", file], capture_output=True, text=True)
    check(bad.returncode == 2 and "chmod 600" in bad.stderr, "a file that others may read", bad.stderr)
    file.chmod(0o600)
    gateway = pool.gateway("--tokens", file, "--key", folder / "asks.key", "--broker-key", public)
    ann, ben = {"Authorization": "Bearer first-token-1111111"}, {"Authorization": "Bearer the second token 22"}
    check(wait_for(lambda: gateway.ask("v2/health/ready").status == 200), "health needs no token")
    refused(gateway.ask("v2"), 401, "Bearer", "all else does")
    refused(gateway.ask("v2", Authorization="Bearer wrong-token-00000"), 401, "nobody", "a wrong one")
    check(gateway.ask("v2/models/batched", **ann).status == 200, "a right one")
    check(gateway.infer("batched", [tensor("x", "FP32", [1, 4], data=[1, 2, 3, 4])], **ann).status == 200, "a job with a token")
    refused(gateway.ask("v2/repository/models/batched/load", b"", **ann), 403, "admin", "its key lacks the role")
    debug = {"inputs": [tensor("x", "FP32", [1, 4], data=[1, 2, 3, 4])], "parameters": {"penstock_debug": True}}
    refused(gateway.ask("v2/models/batched/infer", debug, **ann), 403, "admin", "debug mode is not everybody's")
    refused(gateway.ask("v2/models/batched/infer", debug, **ben), 501, "--allow-debug", "nor any worker's")
    check(gateway.ask("v2/repository/models/batched/load", b"", **ben).status == 200, "the other has it")
    refused(gateway.ask("v2/logging", {"log_info": True}, **ann), 403, "settings", "the gateway's settings are not everybody's")
    check(gateway.ask("v2/logging", {"log_info": True}, **ben).status == 200, "but ben's")
    name = f"/penstock_token_{os.getpid()}"
    (Path("/dev/shm") / name[1:]).write_bytes(bytes(16))
    check(gateway.ask("v2/systemsharedmemory/region/mine/register", {"key": name, "offset": 0, "byte_size": 16}, **ann).status == 200, "ann's memory")
    (Path("/dev/shm") / name[1:]).unlink()
    check(gateway.ask("v2/systemsharedmemory/status", **ben).json == [], "is not ben's")
    file.write_text(f"cid {folder}/asks.key third-token-3333333\n")
    check(wait_for(lambda: gateway.ask("v2", Authorization="Bearer third-token-3333333").status == 200), "a new token")
    check(gateway.ask("v2", **ann).status == 401, "the old one has gone")
    check(pool.stop() == [0, 0, 0], "all end in good order")


def start_up(folder):
    run = lambda *words: subprocess.run([BIN / "penstock-gateway", *words], capture_output=True, text=True, timeout=20 * SLOW)
    check(run("--version").returncode == 0 and run("--help").stdout.startswith("Usage"), "--version and --help", run("--help").stdout[:80])
    check(re.search(r"--grpc .*\n(.*\n){1,3}.*127\.0\.0\.1:8001", run("--help").stdout), "gRPC is on without a word", run("--help").stdout)
    check(run("--http", "0.0.0.0:*").returncode == 2, "strangers are not let in by mistake")
    for address in ("5797", "::1:5797", "localhost:5797", "127.0.0.1:99999"):
        check("is no address to listen at" in run("--http", address).stderr, f"an address that is none: {address}")
    check("is no address to listen at" in run("--http", "127.0.0.1:*", "--grpc", "8001").stderr, "nor one of gRPC")
    check(run("--http", "nowhere").returncode == 2 and run("--max-body", "3GiB").returncode == 2, "wrong settings")
    check(run("--key", str(folder / "none.key"), "--broker-key", "00").returncode == 2, "a key that is not there")


def ends(pool, gateway):
    """No broker: not ready, and a sentence; SIGTERM: what is under way is finished."""
    lone = pool.start("gateway", [BIN / "penstock-gateway", "--broker", "tcp://127.0.0.1:9", "--http", "127.0.0.1:*", "--grpc", "none", "--json"])
    from pool import Gateway
    alone = Gateway(pool, lone)
    refused(alone.ask("v2/health/ready"), 400, "broker", "without a broker it is not ready")
    check(alone.ask("v2/health/live").status == 200, "but alive")
    refused(alone.ask("v2/models/batched"), 503, "", "and says so")
    lone.send_signal(signal.SIGTERM)
    check(lone.wait(20 * SLOW) == 0, "it ends all the same")
    taken = subprocess.run([BIN / "penstock-gateway", "--http", gateway.address], capture_output=True, text=True)
    check(taken.returncode == 3 and "taken" in taken.stderr, "an address that is taken", taken.stderr)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models.save_all(folder / "models")
        pool = Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", folder / "models", "--slots", "1", "--threads", "1", "--allow-debug"])
        slow = Pool(BIN, folder, [BIN.parent / "tests/bench_echo_worker", "broker", "{workers}", "0", "3000000"], ["--cache", "none"])
        start_up(folder)
        gateway, echo = pool.gateway("--max-body", "8MiB", "--threads", "2"), slow.gateway()
        check(wait_for(lambda: gateway.ask("v2/models/chain/ready").status == 200), "the models are ready")
        check(wait_for(lambda: gateway.ask("v2/health/ready").status == 200), "the pool is ready")
        for part in (metadata, types, forms, codings, numbers, bad_requests, statistics, shared_memory, settings, framing, repository):
            part(gateway)
        pool_features(gateway, echo)
        debug_mode(gateway)
        hang_up(echo, slow)
        slow_peers(pool)
        browsers(pool)
        ends(pool, gateway)
        check(set(slow.stop()) <= {0, -15}, "the slow pool ends")
        codes = pool.stop()
        check(set(codes) == {0}, "all end in good order", codes)
        tokens(folder)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
