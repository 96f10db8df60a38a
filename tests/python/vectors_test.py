#!/usr/bin/env python3
"""The Python client's codec: the vectors of the protocol (tests/proto/vectors), its doctests, arrays to tensors and back, and what it refuses.

    vectors_test.py

The last line is `N passed, N failed, N skipped`.
"""
import doctest
import faulthandler
import importlib
import io
import os
import pkgutil
import sys
import tempfile
import time
from pathlib import Path

faulthandler.dump_traceback_later(100, exit=True)

import package  # noqa: E402
from package import SOURCE, check  # noqa: E402

sys.path.insert(0, str(SOURCE / "tests/proto/vectors"))
import check as second_reader  # noqa: E402
import numpy as np  # noqa: E402
import penstock  # noqa: E402
from penstock import job, keys, metas, results, schema, tensors, wire  # noqa: E402
from penstock.errors import STATUS_NAMES  # noqa: E402

METAS = {wire.SUBMIT: schema.JobMeta, wire.RESULT: schema.ResultMeta, wire.CLIENT_HELLO: schema.ClientHello, wire.WELCOME: schema.Welcome,
         wire.CONTROL: schema.ControlRequest, wire.CONTROL_REPLY: schema.ControlReply}


def expected_of(lines):
    return {line.split(" = ", 1)[0]: line.split(" = ", 1)[1] for line in lines if " = " in line}


def good_envelope(name, frame, expected):
    env = wire.decode(frame)
    seen = {"type": env.type, "flags": f"0x{env.flags:04x}", "job": wire.job_id_text(env.client, env.sequence), "digest": env.digest.hex(),
            "model_hash": f"0x{env.model_hash:016x}", "sequence_id": env.sequence_id, "deadline_us": env.deadline_us, "tenant_hash": f"0x{env.tenant_hash:08x}",
            "priority": env.priority, "precision": env.precision, "status": env.status, "frames": env.frames}
    wrong = {key: (value, expected[key]) for key, value in seen.items() if str(value) != expected[key].split()[0]}
    check(not wrong, f"{name}: the envelope", wrong)
    return env


def digests(name, env, frame, raw, expected):
    meta = schema.JobMeta.FromString(frame[env.meta_at:])
    inputs = [wire.DigestTensor(d.name, d.dtype, list(d.dims), raw[d.frame - 1] if d.frame else d.data) for d in meta.inputs]
    parameters = [(p.name, getattr(p, p.WhichOneof("value")) if p.WhichOneof("value") else None) for p in meta.parameters]
    for kind, text in ((wire.XXH3, "xxh3"), (wire.SHA256, "sha256")):
        found = wire.request_digest(kind, inputs, meta.outputs, parameters, meta.top_k).hex()
        check(found == expected[f"request_digest.{text}"], f"{name}: the request digest {text}", found)


def encodes_again(name, env, frame):
    meta = frame[env.meta_at:]
    again = wire.encode(env.type, env.client, env.sequence, flags=env.flags, digest=env.digest, model_hash=env.model_hash, sequence_id=env.sequence_id,
                        deadline_us=env.deadline_us, tenant_hash=env.tenant_hash, priority=env.priority, precision=env.precision, status=env.status,
                        frames=env.frames, meta=meta, transfer=env.transfer)
    check(again[4:] == frame[4:], f"{name}: the same bytes when it is encoded again")  # our own minor version is in byte 3
    if env.type in METAS and env.type != wire.CONTROL_REPLY:
        check(METAS[env.type].FromString(meta).SerializeToString(deterministic=True) == meta, f"{name}: the same meta")


def one_vector(path):
    frames, lines = second_reader.read_vector(path)
    expected = expected_of(lines)
    decode = expected.get("decode", "OK")
    try:
        env = wire.decode(frames[0])
    except wire.WireError as error:
        stage = [line for line in lines if line.startswith("decode")]
        check(stage and STATUS_NAMES[error.status] == decode.split()[0], f"{path.name}: refused as {decode}", STATUS_NAMES[error.status])
        return
    check(decode.split()[0] == "OK", f"{path.name}: {decode} was to be refused")
    if "type" not in expected or sum(line.startswith("group ") for line in lines) != 1:
        return
    good_envelope(path.name, frames[0], expected)
    if "canonical = yes" in path.read_text():
        encodes_again(path.name, env, frames[0])
    if env.type == wire.SUBMIT and "request_digest.xxh3" in expected and not env.transfer:
        digests(path.name, env, frames[0], frames[1:], expected)
    if env.type == wire.RESULT and not env.transfer and "meta" not in expected:
        result = results.read_result(env, frames[0][env.meta_at:], frames[1:])
        wish = STATUS_NAMES[env.status] if expected.get("tensors", "OK").split()[0] == "OK" else "CORRUPT"
        check(result.status == wish, f"{path.name}: a result that is {wish}", result)


def arrays():
    rng = np.random.default_rng(7)
    for name in ("float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float64", "uint32", "uint64", "complex64", "complex128"):
        array = rng.integers(0, 100, (3, 5)).astype(name)
        for given in (array, array[:, ::2], array.T, np.asfortranarray(array), array.astype(array.dtype.newbyteorder(">")), array[:0], array[0, 0:1].reshape(())):
            packed = tensors.pack("x", given, False)
            back = tensors.unpack(packed.dtype, packed.dims, bytes(packed.data))
            check(back.shape == given.shape and (back == given).all() and len(packed.data) == tensors.bytes_needed(packed.dtype, packed.dims), f"{name} {given.shape}")
    texts = np.array([["wörld", b"\xff\0raw"], ["", "two"]], object)
    packed = tensors.pack("x", texts, False)
    check(tensors.unpack(packed.dtype, packed.dims, packed.data).tolist() == [["wörld".encode(), b"\xff\0raw"], [b"", b"two"]], "texts")
    large = np.zeros((600, 600), np.float32)
    check(np.shares_memory(np.frombuffer(tensors.pack("x", large, False).data, np.float32), large), "a large array is not copied")
    check(not np.shares_memory(np.frombuffer(tensors.pack("x", large, True).data, np.float32), large), "unless that is asked for")
    nibbles = tensors._pack_low_bits(np.array([1, 2, 15], np.uint8), 4)
    check(nibbles == b"\x21\x0f" and tensors._unpack_low_bits(nibbles, 4, 3, False).tolist() == [1, 2, 15], "elements below a byte, first in the low bits")
    check(tensors._unpack_low_bits(b"\x78", 4, 2, True).view(np.int8).tolist() == [-8, 7], "signed ones")


def refused(kind, call, what):
    try:
        call()
        check(False, what, "nothing was refused")
    except kind as error:
        check(error.text.endswith("."), what, error.text)


def strange_answers():
    """What a worker may send: each ends its job CORRUPT, and nothing else happens."""
    def answer(data=b"\0" * 8, **desc):
        meta = schema.ResultMeta(model="m")
        meta.outputs.add(**{"name": "y", "dtype": 1, "dims": [2], "bytes": len(data), "data": data, **desc})
        packed = meta.SerializeToString()
        return results.read_result(wire.decode(wire.encode(wire.RESULT, 1, 1, meta=packed)), packed, [])
    check(answer().status == "OK" and answer()["y"].tolist() == [0, 0] and answer().tensors["y"].dims == (2,), "a good one, seen twice")
    for what, desc in {"other dims": {"dims": [3]}, "a negative dim": {"dims": [-2]}, "a shape that no array has": {"data": b"", "dims": [0, 1 << 62, 1 << 62]},
                       "nine dims": {"dims": [1] * 8 + [2]}, "other bytes": {"bytes": 9}, "a type that is none": {"dtype": 99}, "a frame that is absent": {"frame": 1},
                       "a name with a NUL": {"name": "y\0"}, "no name": {"name": ""}, "texts past their end": {"dtype": 8, "data": b"\xff" * 8}}.items():
        result = answer(**desc)
        check(result.status == "CORRUPT" and isinstance(result.exception(), penstock.CorruptError) and not result.outputs, f"an answer with {what}", result)
    nul = schema.ResultMeta(model="m", worker="a\0b")
    nul.outputs.add(name="y", dtype=1, dims=[2], bytes=8, data=b"\0" * 8)
    packed = nul.SerializeToString()
    check(results.read_result(wire.decode(wire.encode(wire.RESULT, 1, 1, meta=packed)), packed, []).status == "CORRUPT", "a text with a NUL beside a payload of zeros")


def descriptions():
    """What is put together from kept pieces is what protobuf reads and packs."""
    for i, inputs in enumerate(({"x": np.arange(6, dtype=np.float32).reshape(2, 3)}, {"x": np.zeros((0, 3), np.int64)}, {"b": np.ones((40, 40), np.float64), "a": np.zeros(3, bool)},
                                {"s": np.array(["one", ""], object), "h": np.ones(2, ">f4")}, {"f": np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3))})):
        for _ in range(2):  # the second time from what was kept
            made = job.make_job("m", inputs, copy=True, tenant="t", digest_kind=wire.XXH3, version=i, outputs=["y"] if i else None, parameters={"p": i} if i else None,
                                sequence="mary" if i == 2 else 0, explain=i == 3, trace="layers" if i == 4 else False, top_k=i)
            meta = schema.JobMeta.FromString(made.meta)
            seen = [(d.name, bytes(made.frames[d.frame - 1]) if d.frame else d.data, d.bytes, tuple(d.dims)) for d in meta.inputs]
            wish = [tensors.pack(name, value, True) for name, value in inputs.items()]
            check(seen == [(w.name, bytes(w.data), len(w.data), w.dims) for w in wish], f"inputs of description {i}", seen)
            said = (meta.model, meta.tenant, meta.version, list(meta.outputs), meta.top_k, meta.sequence, meta.explain, meta.trace)
            check(said == ("m", "t", i, ["y"] if i else [], i, "mary" if i == 2 else "", i == 3, 2 if i == 4 else 0), f"the rest of description {i}", said)
            check(abs(meta.submit_unix_us - time.time() * 1e6) < 1e7, "the time of submission", meta.submit_unix_us)
    for now in (0, 1, 127, 128, 16383, 16384, (1 << 50) + 5):
        check(schema.JobMeta.FromString(metas._SUBMIT_TIME + metas.varint(now)).submit_unix_us == now, f"a number of {now}")


def make(**options):
    return job.make_job("m", options.pop("inputs", {"x": np.zeros(2, np.float32)}), copy=True, tenant="", digest_kind=wire.XXH3, **options)


def contracts():
    for text, number, bound, exact in (("max_relative_error=1e-2", 0, 1e-2, False), ("f32-exact", 1, 0.0, True), ("f32", 1, 0.0, False)):
        made = make(precision=text)
        meta = schema.JobMeta.FromString(made.meta)
        check((made.precision, meta.max_relative_error, meta.f32_exact, made.contract) == (number, bound, exact, bool(bound or exact)), f"precision {text}", meta)
    for text in ("max_relative_error=", "max_relative_error=0", "max_relative_error=nan", "max_relative_error=inf", "f64-exact"):
        refused(penstock.InvalidError, lambda: make(precision=text), f"precision {text}")


def strange_options():
    """What cannot be packed is refused when the job is made, not when it is sent: there it would end the thread that moves the session."""
    for what, options in {"a fraction": {"priority": 1.5}, "no number": {"priority": "high"}, "a sequence": {"sequence": 1.5}, "classes": {"top_k": 2.5},
                          "a text for a time": {"deadline": "1"}, "no time": {"deadline": [1, 2]}, "NaN": {"deadline": float("nan")}, "no text": {"precision": 1},
                          "a negative version": {"version": -1}, "a label": {"label": 5}, "a backend": {"backend": ["x"]}, "a trace": {"traceparent": 5},
                          "half a pair": {"traceparent": "\udcff"}, "half of a name": {"outputs": ["\udcff"]}, "half of a value": {"parameters": {"a": "\udcff"}},
                          "half of a sequence": {"sequence": "\udcff"}, "half of a text": {"inputs": {"x": np.array(["\udcff"], object)}},
                          "masked numbers": {"inputs": {"x": np.ma.masked_array([1.0, 2.0], [0, 1])}}}.items():
        refused(penstock.InvalidError, lambda: make(**options), f"{what}: {options}")
    refused(penstock.InvalidError, lambda: job.make_job("\udcff", {}, copy=True, tenant="", digest_kind=wire.XXH3), "half of a model's name")
    refused(penstock.InvalidError, lambda: job.detached_wishes(-1, None), "a negative time to keep")
    for seconds in (1e30, float("inf"), np.float32(3), 2 ** 62):
        wire.encode_submit(make(deadline=seconds, priority=np.uint8(3), sequence=np.int64(5), top_k=np.int32(2), version=np.int64(1)), 0, 0, 0)
    check(make(deadline=1e30).deadline == float("inf") and make(deadline=np.float32(3)).deadline < float("inf"), "a deadline beyond all times is none")


def values():
    """Lists become arrays of the model's type; what that cannot hold is refused."""
    def given(name, value):
        return tensors.from_values("x", tensors.dtype_number(name), value)
    for name, value, wish in (("u8", [0, 255], [0, 255]), ("i64", [-2 ** 63, 2 ** 63 - 1], [-2 ** 63, 2 ** 63 - 1]), ("u64", [2 ** 64 - 1], [2 ** 64 - 1]), ("i32", [1.0, True], [1, 1]),
                              ("bool", [0, 1], [False, True]), ("f32", [1, 2.5], [1, 2.5]), ("f16", [float("inf")], [float("inf")]), ("f64", [2 ** 70], [2.0 ** 70]),
                              ("c64", [1 + 2j], [1 + 2j]), ("i8", [], []), ("f32", 3, 3)):
        found = given(name, value)
        check(found.dtype == tensors.numpy_dtype(tensors.dtype_number(name)) and found.tolist() == wish, f"{name} of {value}", found)
    for name, value, kind in (("u8", [256], "Invalid"), ("u8", [1, -1], "Invalid"), ("i8", [[1], [300]], "Invalid"), ("i32", [1.5], "Invalid"), ("i32", [float("nan")], "Invalid"),
                              ("i64", [2 ** 63], "Invalid"), ("i64", [2.0 ** 63], "Invalid"), ("u64", [2 ** 64], "Invalid"), ("u64", [-1], "Invalid"), ("bool", [2], "Invalid"),
                              ("f16", [1e6], "Invalid"), ("f32", [1e39], "Invalid"), ("f64", [10 ** 400], "Invalid"), ("f32", [1j], "Invalid"), ("f32", [[1, 2], [3]], "Shape"),
                              ("f32", [None], "Dtype"), ("f32", ["1"], "Dtype"), ("u8", b"abc", "Dtype"), ("i64", [np.datetime64("2020-01-01")], "Dtype")):
        refused(getattr(penstock, kind + "Error"), lambda: given(name, value), f"{name} of {value}")
    matrix = np.matrix(np.arange(1000, dtype=np.float32))
    check(bytes(tensors.pack("x", matrix, False).data) == matrix.tobytes() and len(tensors.pack("x", matrix, False).data) == 4000, "an array of a class of its own")


def pillow_images():
    """Of any mode: what the C client makes of the same picture's file."""
    try:
        from PIL import Image
    except ImportError:
        print("pillow_images: left out, Pillow is not installed")
        return
    from penstock import pictures
    from penstock.pool import Model, Signature

    def seen(image, files=False):
        sig = Signature("x", "string" if files else "f32", (-1, 3, 4, 4), True, False, files)
        model = Model("m", 1, [sig], [], "", [], '{"width": 4, "height": 4, "channels": 3, "resize": "nearest"}', None)
        found = pictures.pixels(model, sig, image)
        return pictures.pixels(model, sig._replace(pictures=False), Image.open(io.BytesIO(found[0]))) if files else found
    deep = np.arange(16, dtype=np.uint16).reshape(4, 4) * 4096 + 255
    file = io.BytesIO()
    Image.fromarray(deep).save(file, "PNG")
    for image in (Image.fromarray(deep), Image.open(file)):
        for files in (False, True):
            found = seen(image, files)
            check((found == (deep >> 8)[None, :, :, None]).all(), f"16 bits keep the high 8, as a file {files}", found[0, :, :, 0])
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "PA", "CMYK", "YCbCr", "HSV", "RGBX", "RGBa"):
        image = Image.new("RGB", (4, 4), (200, 40, 90)).convert("P" if mode == "PA" else "RGBA" if mode == "RGBa" else "RGB").convert(mode)
        check((seen(image) == seen(image, True)).all(), f"mode {mode}: the same as pixels and as a file", (seen(image)[0, 0, 0], seen(image, True)[0, 0, 0]))
    for mode in ("F", "I", "La"):
        for files in (False, True):
            refused(penstock.UnsupportedError, lambda: seen(Image.new(mode, (4, 4)), files), f"mode {mode}, as a file {files}")


def refusals():
    refused(penstock.InvalidError, lambda: make(precision="f99"), "an unknown precision")
    refused(penstock.InvalidError, lambda: make(priority=256), "a priority beyond 255")
    refused(penstock.InvalidError, lambda: make(top_k=1001), "too many classes")
    refused(penstock.InvalidError, lambda: make(deadline=-1), "a deadline in the past")
    refused(penstock.InvalidError, lambda: make(sequence_start=True), "a start of no sequence")
    refused(penstock.InvalidError, lambda: job.make_fetch("7", "", False, None), "a job id that is none")
    refused(penstock.InvalidError, lambda: make(outputs="y"), "a text for a list")
    refused(penstock.TooLargeError, lambda: make(parameters={"p": "x" * 70000}), "a description beyond its cap")
    refused(penstock.TooLargeError, lambda: make(inputs={f"x{i}": np.zeros(1) for i in range(65)}), "65 inputs")
    refused(penstock.ShapeError, lambda: make(inputs={"x": np.zeros((1,) * 9)}), "9 dimensions")
    refused(penstock.DtypeError, lambda: make(inputs={"x": np.zeros(1, "datetime64[s]")}), "dates")
    refused(penstock.InvalidError, lambda: make(inputs={"x": penstock.Tensor("f32", (3,), b"1234")}), "bytes that do not fit")
    refused(penstock.InvalidError, lambda: penstock.Client("localhost:5550"), "an endpoint without its transport")
    refused(penstock.InvalidError, lambda: penstock.Client("tcp://127.0.0.1:99999"), "a port that is none")
    refused(penstock.InvalidError, lambda: penstock.Client(broker_key="ab" * 32), "a broker's key without one's own")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "key")
        Path(path).write_text("public = " + "00" * 32 + "\nsecret = " + "11" * 32 + "\n")
        os.chmod(path, 0o644)
        refused(penstock.DeniedError, lambda: keys.read_key_file(path), "a key that others may read")
        os.chmod(path, 0o600)
        refused(penstock.CorruptError, lambda: keys.read_key_file(path), "keys that do not belong together")
    check(len({cls.status for cls in penstock.PenstockError.__subclasses__() + penstock.RetryableError.__subclasses__()} - {"INTERNAL"}) == 18, "a class for each status")


def main():
    for path in sorted((SOURCE / "tests/proto/vectors").glob("*.vec")):
        try:
            one_vector(path)
        except Exception as error:
            check(False, path.name, f"{type(error).__name__}: {error}")
    for module in pkgutil.iter_modules(penstock.__path__):
        found = doctest.testmod(importlib.import_module("penstock." + module.name))
        check(found.failed == 0, f"doctests of {module.name}", found)
    arrays()
    strange_answers()
    descriptions()
    contracts()
    strange_options()
    values()
    pillow_images()
    refusals()
    package.end()


main()
