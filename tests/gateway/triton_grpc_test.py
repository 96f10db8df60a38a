#!/usr/bin/env python3
"""The unmodified tritonclient over gRPC (PyPI: tritonclient[grpc]), and grpcio over reflection as a second client, before a gateway and a real pool.

    triton_grpc_test.py BIN_DIR

Skips with a message where the packages are not installed: for this Python, or in the environment that tests/run.sh makes (tests/support/venv.sh: clients).
The last line is `N passed, N failed, N skipped`.
"""
import os
import queue
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import models
from pool import Pool, wait_for

try:
    import grpc
    import numpy as np
    import tritonclient.grpc as triton
    import tritonclient.utils.shared_memory as shm
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from tritonclient.grpc import model_config_pb2, service_pb2
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
    print(f"skipped: {missing}; pip install 'tritonclient[grpc]' numpy")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

BIN = Path(sys.argv[1]).resolve()
REFLECTION = "/grpc.reflection.{}.ServerReflection/ServerReflectionInfo"
passed = failed = 0


def check(condition, what, seen=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    if not condition:
        print(f"FAILED: {what} {seen}", flush=True)


def refused(call, code, words, what):
    """code: of gRPC."""
    try:
        call()
        check(False, what, "nothing was refused")
    except InferenceServerException as error:
        check(words in str(error) and code in str(error.status()), what, f"{error.status()} {error}")
    except grpc.RpcError as error:
        check(words in error.details() and code in str(error.code()), what, f"{error.code()} {error.details()}")


NUMPY = {"FP32": "float32", "UINT8": "uint8", "INT8": "int8", "UINT16": "uint16", "INT16": "int16", "INT32": "int32", "INT64": "int64", "BOOL": "bool",
         "FP16": "float16", "FP64": "float64", "UINT32": "uint32", "UINT64": "uint64"}
CONTENTS = {"FP32": "fp32", "UINT8": "uint", "INT8": "int", "UINT16": "uint", "INT16": "int", "INT32": "int", "INT64": "int64", "BOOL": "bool", "FP64": "fp64",
            "UINT32": "uint", "UINT64": "uint64", "BYTES": "bytes"}


def tensor(name, array, datatype):
    found = triton.InferInput(name, list(array.shape), datatype)
    found.set_data_from_numpy(array)
    return found


def calls(client):
    check(client.is_server_live() and client.is_server_ready(), "alive and ready")
    check(client.is_model_ready("batched") and client.is_model_ready("batched", "1") and not client.is_model_ready("none"), "a model is ready")
    meta = client.get_server_metadata()
    check(meta.name == "penstock" and "statistics" in meta.extensions, "server metadata", meta)
    meta = client.get_model_metadata("batched")
    check(list(meta.inputs[0].shape) == [-1, 4] and meta.inputs[0].datatype == "FP32" and list(meta.versions) == ["1"], "model metadata", meta)
    check(client.get_model_config("adder").config.sequence_batching.max_sequence_idle_microseconds > 0, "a model that keeps state says so")
    steps = client.get_model_config("chain").config.ensemble_scheduling.step
    check([(step.model_name, step.model_version, dict(step.input_map), dict(step.output_map)) for step in steps] ==
          [("same_fp32", -1, {"x": "in"}, {"y": "between"}), ("same_fp32", -1, {"x": "between"}, {"y": "out"})], "the steps of an ensemble", steps)
    config = client.get_model_config("batched").config
    check(config.max_batch_size == 8 and config.input[0].data_type == model_config_pb2.TYPE_FP32 and list(config.input[0].dims) == [4]
          and config.HasField("dynamic_batching") and not config.model_transaction_policy.decoupled, "model config", config)
    rows = {row.name: row.state for row in client.get_model_repository_index().models}
    check(rows.keys() >= {"batched", "sums", "chain"} and rows["batched"] == "READY", "the index", rows)
    client.unload_model("sums")
    check(not client.is_model_ready("sums"), "unloaded")
    client.load_model("sums")
    check(client.is_model_ready("sums"), "loaded")
    refused(lambda: client.load_model("sums", config="{}"), "INVALID_ARGUMENT", "own folders", "a configuration that comes with the order")
    found = client.get_inference_statistics("batched").model_stats
    check(len(found) == 1 and found[0].name == "batched" and len(client.get_inference_statistics().model_stats) > 5, "statistics")
    check(list(client.update_trace_settings("sums", {"trace_level": ["TIMESTAMPS"], "trace_rate": "2"}).settings["trace_rate"].value) == ["2"], "trace settings")
    check(list(client.get_trace_settings().settings["trace_level"].value) == ["OFF"], "trace settings of all")
    check(list(client.update_trace_settings("sums", {"trace_level": None}).settings["trace_level"].value) == ["OFF"], "trace settings cleared")
    settings = client.update_log_settings({"log_verbose_level": 0, "log_info": True}).settings
    check(settings["log_verbose_level"].uint32_param == 0 and client.get_log_settings().settings["log_error"].bool_param, "log settings", settings)
    refused(lambda: client.update_log_settings({"log_file": "/tmp/x"}), "INVALID_ARGUMENT", "stderr", "a log file")
    refused(lambda: client.get_model_metadata("none"), "NOT_FOUND", "none", "metadata of an unknown model")
    refused(lambda: client.get_model_config("batched", "9"), "NOT_FOUND", "batched", "config of an unknown version")
    refused(lambda: client.register_cuda_shared_memory("x", b"AAAA", 0, 4), "UNIMPLEMENTED", "CUDA", "CUDA memory")


def types(client):
    for datatype, name in NUMPY.items():
        array = (np.arange(6).reshape(2, 3) % 2 if name == "bool" else np.arange(6).reshape(2, 3)).astype(name)
        back = client.infer("same_" + datatype.lower(), [tensor("x", array, datatype)]).as_numpy("y")
        check(back is not None and back.dtype == array.dtype and (back == array).all(), datatype, back)
    halves = np.array([[1.5, -2.0]], dtype=bfloat16)
    check((client.infer("same_bf16", [tensor("x", halves, "BF16")]).as_numpy("y") == halves).all(), "BF16")
    words = np.array([["one", "zwölf"], ["", "x" * 300]], dtype=object)
    back = client.infer("same_bytes", [tensor("x", words, "BYTES")]).as_numpy("y")
    check([w.decode() for w in back.flatten()] == list(words.flatten()), "BYTES", back)
    large = np.arange(3 << 20, dtype=np.float32).reshape(1, -1)
    check((client.infer("same_fp32", [tensor("x", large, "FP32")]).as_numpy("y") == large).all(), "12 MiB each way")


def contents(stub):
    """Typed contents, which tritonclient does not send."""
    low = {"INT8": -128, "INT16": -32768, "INT32": -2**31, "INT64": -2**63, "FP32": -1.5, "FP64": -1.25}
    high = {"UINT8": 255, "UINT16": 65535, "UINT32": 2**32 - 1, "UINT64": 2**64 - 1, "BOOL": True, "INT8": 127, "BYTES": b"\0\xff"}
    for datatype, field in CONTENTS.items():
        values = [low.get(datatype, b"" if datatype == "BYTES" else 0), high.get(datatype, b"" if datatype == "BYTES" else 1)]
        request = service_pb2.ModelInferRequest(model_name="same_" + datatype.lower())
        given = request.inputs.add(name="x", datatype=datatype, shape=[1, 2])
        getattr(given.contents, field + "_contents").extend(values)
        raw = stub("ModelInfer", request, service_pb2.ModelInferResponse).raw_output_contents[0]
        wanted = b"".join(len(v).to_bytes(4, "little") + v for v in values) if datatype == "BYTES" else np.array(values, NUMPY[datatype]).tobytes()
        check(raw == wanted, f"contents of {datatype}", raw)

    def ask(datatype="INT8", shape=(1, 2), raw=None, model="same_int8", **fields):
        request = service_pb2.ModelInferRequest(model_name=model)
        given = request.inputs.add(name="x", datatype=datatype, shape=shape)
        for field, values in fields.items():
            getattr(given.contents, field).extend(values)
        request.raw_input_contents.extend(raw or [])
        return lambda: stub("ModelInfer", request, service_pb2.ModelInferResponse)
    refused(ask(int_contents=[1, 128]), "INVALID_ARGUMENT", "element 1", "a number beyond its type")
    refused(ask(int_contents=[1]), "INVALID_ARGUMENT", "unexpected size", "fewer elements than the shape")
    refused(ask(uint_contents=[1, 2]), "INVALID_ARGUMENT", "unexpected size", "elements of another type")
    refused(ask(int_contents=[1, 2], raw=[b"ab"]), "INVALID_ARGUMENT", "raw_input_contents", "contents twice")
    refused(ask(raw=[b"abc"]), "INVALID_ARGUMENT", "unexpected size", "raw contents of another size")
    refused(ask(raw=[b"ab", b"cd"]), "INVALID_ARGUMENT", "additional", "more raw contents than inputs")
    refused(ask("FP16", model="same_fp16"), "INVALID_ARGUMENT", "raw_input_contents only", "FP16 in contents")
    refused(ask("FP8"), "INVALID_ARGUMENT", "datatype", "an unknown type")
    refused(ask(shape=(1, -2), int_contents=[1, 2]), "INVALID_ARGUMENT", "negative", "a negative shape")
    refused(ask(shape=[1] * 9, int_contents=[1]), "INVALID_ARGUMENT", "8 dimensions", "nine dimensions")


def contracts(client, x):
    """What numbers must keep, and what they rest on; and a log of the operators."""
    def told(model, **parameters):
        found = client.infer(model, [x], parameters=parameters).get_response().parameters
        return {name: value.string_param for name, value in found.items()}
    rests = told("share", penstock_precision="max_relative_error=1e-3")
    check(0 <= float(rests["penstock_max_relative_error"]) <= 1e-3 and rests["penstock_precision"] == "f32" and rests["penstock_engine_build"], "a bound is kept, and the answer says so", rests)
    check(told("batched", penstock_provenance=True).get("penstock_backend") and not told("batched"), "provenance is told where it is asked for")
    refused(lambda: told("share", penstock_precision="max_relative_error=1e-15"), "UNIMPLEMENTED", "no worker keeps", "a bound that nobody keeps")
    refused(lambda: told("share", penstock_precision="f33"), "INVALID_ARGUMENT", "is no precision", "a precision that there is not")
    refused(lambda: told("share", penstock_precision=1), "INVALID_ARGUMENT", "string_param", "a precision that is a number")
    log = told("share", penstock_debug=True)["penstock_debug_log"]
    check("Softmax" in log and "no NaN and no infinity\n" in log, "a log of the operators", log)
    refused(lambda: told("share", penstock_debug="yes"), "INVALID_ARGUMENT", "penstock_debug", "debug mode is a flag")


def jobs(client):
    two = [tensor("a", np.array([[5, 7]], np.int32), "INT32"), tensor("b", np.array([[1, 2]], np.int32), "INT32")]
    outputs = [triton.InferRequestedOutput("difference"), triton.InferRequestedOutput("sum")]
    answer = client.infer("sums", two, model_version="1", request_id="mine", outputs=outputs, priority=1, timeout=30000000, parameters={"mine": "text", "count": 3})
    check(answer.get_response().id == "mine" and answer.as_numpy("sum").tolist() == [[6, 9]] and answer.as_numpy("difference").tolist() == [[4, 5]], "two inputs, two outputs")
    done = queue.Queue()
    for _ in range(40):
        client.async_infer("sums", two, callback=lambda result, error: done.put(error or result))
    check(all(done.get(timeout=30).as_numpy("sum").tolist() == [[6, 9]] for _ in range(40)), "forty at once")
    scores = tensor("x", np.array([[1, 9, 5, 7]], np.float32), "FP32")
    classes = client.infer("batched", [scores], outputs=[triton.InferRequestedOutput("y", class_count=2)]).as_numpy("y")
    check([c.decode() for c in classes.flatten()] == ["9.000000:1", "7.000000:3"], "classes", classes)
    file = np.array([models.png(bytes(range(18)))], np.object_)
    check(client.infer("look", [tensor("x", file, "BYTES")]).as_numpy("y").flatten().tolist() == list(range(18)), "a file of a picture")
    x = np.array([[1, 2]], np.float32)
    for name in (77, "a text"):
        seen = [client.infer("adder", [tensor("x", x, "FP32")], sequence_id=name, sequence_start=step == 0, sequence_end=step == 2).as_numpy("y").tolist() for step in range(3)]
        check(seen == [[[1, 2]], [[2, 4]], [[3, 6]]], "a sequence", seen)
    check((client.infer("chain", [tensor("in", x, "FP32")]).as_numpy("out") == x).all(), "an ensemble")
    refused(lambda: client.infer("none", [scores]), "NOT_FOUND", "none", "an unknown model")
    refused(lambda: client.infer("batched", [tensor("x", np.zeros((1, 5), np.float32), "FP32")]), "INVALID_ARGUMENT", "", "a wrong shape")
    refused(lambda: client.infer("batched", [tensor("x", np.zeros((1, 4), np.float64), "FP64")]), "INVALID_ARGUMENT", "", "a wrong datatype")
    refused(lambda: client.infer("batched", [scores], model_version="9"), "NOT_FOUND", "", "a wrong version")
    refused(lambda: client.infer("batched", [scores], priority=256), "INVALID_ARGUMENT", "priority", "a priority beyond 255")
    check((client.infer("batched", [scores], parameters={"penstock_require": "cpu_isa"}).as_numpy("y") == [[1, 9, 5, 7]]).all(), "a flag that the worker has")
    refused(lambda: client.infer("batched", [scores], parameters={"penstock_require": "wings"}), "UNIMPLEMENTED", "tags and flags", "one that no worker has")
    refused(lambda: client.infer("batched", [scores], parameters={"penstock_require": 1}), "INVALID_ARGUMENT", "string_param", "a flag that is a number")
    contracts(client, scores)
    check(client.get_inference_statistics("sums").model_stats[0].inference_stats.success.count == 41, "statistics count what went through")


def streams(client):
    got = queue.Queue()
    client.start_stream(callback=lambda result, error: got.put((result, error)))
    for number in range(10):
        if number == 5:
            client.async_stream_infer("none", [tensor("x", np.zeros((1, 4), np.float32), "FP32")], request_id="5")
        else:
            x = np.full((1, 4), number, np.float32)
            client.async_stream_infer("batched", [tensor("x", x, "FP32")], request_id=str(number), enable_empty_final_response=number == 7)
    seen = [got.get(timeout=30) for _ in range(10)]
    check(all(result.get_response().id == str(n) and (result.as_numpy("y") == n).all() for n, (result, error) in enumerate(seen) if n != 5), "a stream, in order")
    check(seen[5][0] is None and "none" in str(seen[5][1]), "one that fails, and the stream goes on", seen[5])
    check([n for n, (r, _) in enumerate(seen) if r and r.get_response().parameters["triton_final_response"].bool_param] == [7], "its last answer")
    for step in range(12):
        client.async_stream_infer("adder", [tensor("x", np.array([[1, 2]], np.float32), "FP32")], sequence_id=99, sequence_start=step == 0, sequence_end=step == 11)
    seen = [got.get(timeout=30) for _ in range(12)]
    check([r and r.as_numpy("y").tolist() for r, _ in seen] == [[[n, 2 * n]] for n in range(1, 13)], "a sequence whose requests are under way together", seen[0][1])
    client.stop_stream()
    check(got.empty(), "nothing else came")


def packed(client, channel):
    """Messages that are compressed, in and out; what they unpack to has the same limits."""
    x = np.arange(40000, dtype=np.float32).reshape(1, -1) % 7
    for coding in ("gzip", "deflate"):
        answer = client.infer("same_fp32", [tensor("x", x, "FP32")], compression_algorithm=coding)
        check((answer.as_numpy("y") == x).all(), f"a message in {coding}")
        check(client.get_model_metadata("batched", headers={}).name == "batched", "and one that is not, beside it")
    got = queue.Queue()
    client.start_stream(callback=lambda result, error: got.put((result, error)), compression_algorithm="gzip")
    for number in range(20):
        client.async_stream_infer("same_fp32", [tensor("x", x + number, "FP32")], request_id=str(number))
    seen = [got.get(timeout=30) for _ in range(20)]
    check(all(result.get_response().id == str(n) and (result.as_numpy("y") == x + n).all() for n, (result, error) in enumerate(seen)), "a stream in gzip, in order", seen[0][1])
    client.stop_stream()
    request = service_pb2.ModelInferRequest(model_name="same_fp32", raw_input_contents=[x.tobytes()])
    request.inputs.add(name="x", datatype="FP32", shape=[1, 40000])
    infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", service_pb2.ModelInferRequest.SerializeToString, None)
    before = metric_of(channel.gateway, "penstock_gateway_grpc_bytes_out_total")
    infer(request, timeout=30, compression=grpc.Compression.Gzip)
    check(metric_of(channel.gateway, "penstock_gateway_grpc_bytes_out_total") - before < 20000, "the answer is packed, too")
    names = channel.unary_unary("/inference.GRPCInferenceService/RepositoryIndex", service_pb2.RepositoryIndexRequest.SerializeToString,
                                service_pb2.RepositoryIndexResponse.FromString)
    check(len(names(service_pb2.RepositoryIndexRequest(), timeout=30, compression=grpc.Compression.Gzip).models) > 3, "a short call in gzip")


def metric_of(gateway, name):
    return int([line.split()[1] for line in gateway.ask("metrics").body.decode().splitlines() if line.startswith(name + " ")][0])


def shared(client):
    data, key = np.array([[1, 2, 3, 4]], np.float32), f"/penstock_grpc_{os.getpid()}"
    handle = shm.create_shared_memory_region("in", key, 32)
    try:
        shm.set_shared_memory_region(handle, [data])
        client.unregister_system_shared_memory()
        client.unregister_cuda_shared_memory()
        client.register_system_shared_memory("all", key, 32)
        region = client.get_system_shared_memory_status().regions["all"]
        check(region.byte_size == 32 and region.key == key and region.name == "all", "registered", region)
        given, wanted = triton.InferInput("x", [1, 4], "FP32"), triton.InferRequestedOutput("y")
        given.set_shared_memory("all", 16)
        wanted.set_shared_memory("all", 16, offset=16)
        answer = client.infer("batched", [given], outputs=[wanted])
        back = shm.get_contents_as_numpy(handle, np.float32, [2, 4])
        check(answer.get_output("y").parameters["shared_memory_byte_size"].int64_param == 16 and back[1].tolist() == [1, 2, 3, 4], "in and out by shared memory", back)
        refused(lambda: client.register_system_shared_memory("all", key, 32), "INVALID_ARGUMENT", "already", "registered twice")
        client.unregister_system_shared_memory("all")
        check(not client.get_system_shared_memory_status().regions and not client.get_cuda_shared_memory_status().regions, "nothing is left")
    finally:
        shm.destroy_shared_memory_region(handle)


# ---- grpcio over reflection: nothing of the protocol is compiled in ----

def field(number, text):
    return models.field(number, text)


def reflect(channel, version, message):
    ask = channel.stream_stream(REFLECTION.format(version), request_serializer=None, response_deserializer=None)
    return list(ask(iter([message]), timeout=30))


def parts(data):
    """[(field, number or bytes)]"""
    found, at = [], 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
            if data[at - 1] < 128:
                return value
    while at < len(data):
        tag = varint()
        value = varint()
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        found.append((tag >> 3, value))
    return found


def file_of(answers):
    return dict(parts(dict(parts(answers[0]))[4]))[1]


def reflection(channel):
    for version in ("v1", "v1alpha"):
        listed = [dict(parts(row))[1].decode() for _, row in parts(dict(parts(reflect(channel, version, field(7, "*"))[0]))[6])]
        check({"inference.GRPCInferenceService", "grpc.health.v1.Health", f"grpc.reflection.{version}.ServerReflection"} <= set(listed), "services", listed)
        check(file_of(reflect(channel, version, field(3, "model_config.proto"))) == file_of(reflect(channel, version, field(4, "inference.ModelConfig"))), "a file by name and by symbol")
    for symbol in ("inference.GRPCInferenceService.ModelInfer", "inference.ModelInferRequest.InferInputTensor", "inference.ModelInput.Format", "grpc.health.v1.Health"):
        check(file_of(reflect(channel, "v1", field(4, symbol))), f"the file of {symbol}")
    for message in (field(4, "inference.None"), field(4, "inference"), field(3, "none.proto"), field(6, "inference.ModelConfig"), b""):
        check(7 in dict(parts(reflect(channel, "v1", message)[0])), "an error of reflection", message)
    pool, files = descriptor_pool.DescriptorPool(), {}
    for name in ("model_config.proto", "grpc_service.proto"):
        files[name] = descriptor_pb2.FileDescriptorProto.FromString(file_of(reflect(channel, "v1", field(3, name))))
        pool.Add(files[name])
    kind = {name: message_factory.GetMessageClass(pool.FindMessageTypeByName("inference." + name)) for name in ("ModelInferRequest", "ModelInferResponse")}
    request = kind["ModelInferRequest"](model_name="batched", raw_input_contents=[bytes(16)])
    request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", kind["ModelInferRequest"].SerializeToString, kind["ModelInferResponse"].FromString)
    check(call(request, timeout=30).raw_output_contents[0] == bytes(16), "an inference by reflection alone")
    return files


def plain(message):
    """A descriptor without what only tells of its source: names, numbers, types, labels."""
    fields = sorted((f.name, f.number, f.type, f.label, f.type_name, message.oneof_decl[f.oneof_index].name if f.HasField("oneof_index") else "") for f in message.field)
    enums = sorted((e.name, tuple(sorted((v.name, v.number) for v in e.value))) for e in message.enum_type)
    return message.name, message.options.map_entry, fields, enums, sorted((plain(n) for n in message.nested_type), key=str)


def descriptors(files):
    """Ours and the wheel's, field by field. What a later wheel has in addition is not missed."""
    for name, module in (("grpc_service.proto", service_pb2), ("model_config.proto", model_config_pb2)):
        theirs, ours = descriptor_pb2.FileDescriptorProto(), files[name]
        module.DESCRIPTOR.CopyToProto(theirs)
        mine = {m.name: plain(m) for m in ours.message_type}
        for message in theirs.message_type:
            check(mine.get(message.name) == plain(message), f"message {message.name} is the wheel's", mine.get(message.name))
        check({e.name: [(v.name, v.number) for v in e.value] for e in ours.enum_type} == {e.name: [(v.name, v.number) for v in e.value] for e in theirs.enum_type}, f"enums of {name}")
        for service in theirs.service:
            rows = [{(m.name, m.input_type, m.output_type, m.client_streaming, m.server_streaming) for m in s.method} for s in ours.service if s.name == service.name]
            check(rows == [{(m.name, m.input_type, m.output_type, m.client_streaming, m.server_streaming) for m in service.method}], f"methods of {service.name}")


def edges(gateway, channel, stub):
    health = channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=None, response_deserializer=None)
    for service in ("", "inference.GRPCInferenceService", "grpc.health.v1.Health"):
        check(health(field(1, service) if service else b"", timeout=30) == b"\x08\x01", f"health of '{service}'")
    refused(lambda: health(field(1, "none"), timeout=30), "NOT_FOUND", "service", "health of an unknown service")
    refused(lambda: channel.unary_unary("/inference.GRPCInferenceService/None")(b"", timeout=30), "UNIMPLEMENTED", "reflection", "an unknown method")
    infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    refused(lambda: infer(b"\x0a\xff", timeout=30), "INVALID_ARGUMENT", "ModelInferRequest", "a message that is none")
    refused(lambda: infer(models.field(1, b"\xff\xfe"), timeout=30), "INVALID_ARGUMENT", "UTF-8", "a name that is no text")
    refused(lambda: infer(b"", timeout=30), "INVALID_ARGUMENT", "model", "an empty message")
    refused(lambda: infer(bytes(2 << 20), timeout=30), "RESOURCE_EXHAUSTED", "--max-body", "a message that is too large")
    refused(lambda: infer(bytes(4 << 20), timeout=30, compression=grpc.Compression.Gzip), "RESOURCE_EXHAUSTED", "unpacks to more", "one that is too large unpacked")
    live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
    refused(lambda: live(bytes(3 << 20), timeout=30, compression=grpc.Compression.Gzip), "RESOURCE_EXHAUSTED", "unpacks to more", "the same of a short call")
    refused(lambda: channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", metadata=[("x", "y" * 20000)], timeout=30), "RESOURCE_EXHAUSTED", "", "large headers")
    with socket.create_connection((gateway.host, gateway.grpc_port), timeout=10) as plain_http:
        plain_http.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        check(b"HTTP/2" in plain_http.recv(1000), "HTTP/1.1 is told where it is")
    with socket.create_connection((gateway.host, gateway.grpc_port), timeout=10) as pinging:
        pinging.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]) + bytes([0, 0, 8, 6, 0, 0, 0, 0, 0]) + bytes(8))
        pinging.sendall((bytes([0, 0, 8, 6, 0, 0, 0, 0, 0]) + bytes(8)) * 100)
        got = b""
        try:
            while piece := pinging.recv(65536):
                got += piece
        except ConnectionResetError:
            pass
        check(b"too_many_pings" in got, "who pings without end is let go", got[-60:])
    page = gateway.ask("metrics").body.decode()
    check('penstock_gateway_grpc_requests_total{call="infer",status="OK"}' in page and "penstock_gateway_grpc_connections 1" in page, "metrics", page)


def late(gateway, pool, channel):
    """Deadlines and calls that are given up; the pool's only worker sleeps meanwhile."""
    request = service_pb2.ModelInferRequest(model_name="same_uint8", raw_input_contents=[b"12"])
    request.inputs.add(name="x", datatype="UINT8", shape=[1, 2])
    call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", service_pb2.ModelInferRequest.SerializeToString, None)

    def metric(name):
        return metric_of(gateway, name)
    pool.worker.send_signal(19)
    try:
        refused(lambda: call(request, timeout=0.4), "DEADLINE_EXCEEDED", "", "a deadline that passes")
        before = metric("penstock_gateway_hung_up_total")
        given_up = call.future(request, timeout=30)
        check(wait_for(lambda: metric("penstock_gateway_inferences") == 1), "it waits")
        given_up.cancel()
        check(wait_for(lambda: metric("penstock_gateway_hung_up_total") == before + 1 and metric("penstock_gateway_inferences") == 0), "a call that is given up gives up its job")
        many = [call.future(request, timeout=60) for _ in range(8)]
        check(wait_for(lambda: metric("penstock_gateway_inferences") == 4), "calls on one connection")
        time.sleep(0.3)
        check(metric("penstock_gateway_inferences") == 4, "no more than --grpc-streams", metric("penstock_gateway_inferences"))
    finally:
        pool.worker.send_signal(18)
    check(all(future.result() for future in many), "the others come after them")
    large, taken = service_pb2.ModelInferRequest(model_name="same_uint8", raw_input_contents=[bytes(100000)]), []
    large.inputs.add(name="x", datatype="UINT8", shape=[1, 100000])

    def requests():
        for number in range(60):
            taken.append(number)
            yield large
    stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer", service_pb2.ModelInferRequest.SerializeToString,
                                   service_pb2.ModelStreamInferResponse.FromString)
    pool.worker.send_signal(19)
    try:
        answers = stream(requests(), timeout=60)
        check(wait_for(lambda: len(taken) > 2), "a stream begins")
        time.sleep(0.5)
        held = len(taken)
        check(held < 40 and metric("penstock_gateway_body_bytes") < 3 << 20, "flow control holds back who sends faster than he is answered", held)
    finally:
        pool.worker.send_signal(18)
    check(len([answer for answer in answers if answer.infer_response.raw_output_contents[0] == bytes(100000)]) == 60, "and all is answered")


def ending(gateway, pool):
    """A gateway that is told to end answers what is under way, and takes no more."""
    request = service_pb2.ModelInferRequest(model_name="same_uint8", raw_input_contents=[b"34"])  # not in the cache
    request.inputs.add(name="x", datatype="UINT8", shape=[1, 2])
    with grpc.insecure_channel(gateway.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", service_pb2.ModelInferRequest.SerializeToString, None)
        pool.worker.send_signal(19)
        try:
            under_way = call.future(request, timeout=60)
            check(wait_for(lambda: b"penstock_gateway_inferences 1" in gateway.ask("metrics").body), "a call is under way")
            gateway.program.terminate()
            refused(lambda: [call(request, timeout=0.2) for _ in range(20)], "", "", "no call is begun any more")
        finally:
            pool.worker.send_signal(18)
        check(under_way.result() and gateway.program.wait(30) == 0, "what was under way is answered")


def tokens(folder):
    """A bearer token as over HTTP: whose it is decides what it may do."""
    for name, roles in (("broker", "admin"), ("asks", "submit"), ("works", "worker")):
        subprocess.run([BIN / "penstock", "keygen", folder / f"{name}.key", "--name", name, "--roles", roles, "--list", folder / "keys"], check=True, capture_output=True)
    public = next(line.split("=")[1].strip() for line in (folder / "broker.key").read_text().splitlines() if line.startswith("public"))
    root = folder / "keyed"
    models.save(root, "batched", models.model([("x", "FP32", ["n", 4])], [("Identity", ["x"], ["y"])], [("y", "FP32", ["n", 4])]), {"max_batch_size": 8})
    worker = [BIN / "penstock-worker", "--broker", "{workers}", "--models", root, "--slots", "1", "--threads", "1", "--key", folder / "works.key", "--broker-key", public]
    pool = Pool(BIN, folder, worker, ["--key", folder / "broker.key", "--keys", folder / "keys"])
    file = folder / "tokens"
    file.write_text(f"ann {folder}/asks.key first-token-1111111\n")
    file.chmod(0o600)
    gateway = pool.gateway("--grpc", "127.0.0.1:*", "--tokens", file, "--key", folder / "asks.key", "--broker-key", public)
    scores, ann = tensor("x", np.array([[1, 9, 5, 7]], np.float32), "FP32"), {"authorization": "Bearer first-token-1111111"}
    with triton.InferenceServerClient(gateway.grpc) as client:
        check(wait_for(client.is_server_ready), "health needs no token")
        refused(client.get_server_metadata, "UNAUTHENTICATED", "Bearer", "all else does")
        refused(lambda: client.infer("batched", [scores], headers={"authorization": "Bearer wrong-token-00000"}), "UNAUTHENTICATED", "nobody", "a wrong one")
        check(client.infer("batched", [scores], headers=ann).as_numpy("y") is not None, "a job with a token")
        refused(lambda: client.load_model("batched", headers=ann), "PERMISSION_DENIED", "admin", "its key lacks the role")
        refused(lambda: client.update_log_settings({"log_info": True}, headers=ann), "PERMISSION_DENIED", "settings", "the gateway's settings are not everybody's")
        check(client.get_log_settings(headers=ann), "but they may be looked at")
    with grpc.insecure_channel(gateway.grpc) as channel:
        watching = [channel.unary_stream("/grpc.health.v1.Health/Watch")(field(1, service) if service else b"", timeout=60)
                    for service in ("", "inference.GRPCInferenceService", "none")]
        check([next(watch) for watch in watching] == [b"\x08\x01", b"\x08\x01", b"\x08\x03"], "health is watched without a token")
        pool.worker.terminate()
        check([next(watch) for watch in watching[:2]] == [b"\x08\x02"] * 2, "without a worker it is NOT_SERVING")
        watching[1].cancel()
        gateway.program.terminate()
        for watch in (watching[0], watching[2]):
            refused(lambda watch=watch: next(watch), "UNAVAILABLE", "ending", "a watch ends with the gateway")
    check(gateway.program.wait(20) == 0, "and does not hold it up")
    check(pool.stop() == [0, 0, 0], "all end in good order")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models.save_all(folder / "models")
        pool = Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", folder / "models", "--slots", "1", "--threads", "1", "--allow-debug"],
                    ["--liveness", "120s"])  # a worker that is stopped below is not lost, however busy the machine is
        gateway = pool.gateway("--grpc", "127.0.0.1:*", "--grpc-streams", "4")
        small = pool.gateway("--grpc", "127.0.0.1:*", "--max-body", "1MiB", "--max-head", "16KiB")
        check(wait_for(lambda: gateway.ask("v2/models/chain/ready").status == 200 and gateway.ask("v2/health/ready").status == 200
                       and small.ask("v2/health/ready").status == 200), "the pool is ready")
        with triton.InferenceServerClient(gateway.grpc) as client, grpc.insecure_channel(gateway.grpc) as channel:
            def stub(method, request, answer):
                return channel.unary_unary("/inference.GRPCInferenceService/" + method, type(request).SerializeToString, answer.FromString)(request, timeout=60)
            for part in (calls, types, jobs, streams, shared):
                part(client)
            contents(stub)
            channel.gateway = gateway
            packed(client, channel)
            descriptors(reflection(channel))
            late(gateway, pool, channel)
        with grpc.insecure_channel(small.grpc) as channel:
            request = service_pb2.ModelInferRequest(model_name="same_uint8", raw_input_contents=[b"12"])
            request.inputs.add(name="x", datatype="UINT8", shape=[1, 2])
            stub = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", service_pb2.ModelInferRequest.SerializeToString, None)
            check(wait_for(lambda: stub(request, timeout=30)), "the other gateway answers")
            edges(small, channel, stub)
        ending(gateway, pool)
        check(all(code == 0 for code in pool.stop()), "all end in good order")
        tokens(folder)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
