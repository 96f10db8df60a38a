#!/usr/bin/env python3
"""A second reader of the vectors: envelopes, JobMeta, tensors and SHA-256 request digests from proto/PROTOCOL.md, without Penstock's code.

Usage: check.py [FOLDER]; exits 1 and says why when a file disagrees.
"""
import glob
import hashlib
import math
import os
import struct
import sys

STATUS_COUNT, INTERNAL = 20, 19  # an unknown status reads as INTERNAL


def read_vector(path):
    frames, expect, where = [], [], "head"
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if line == "expect":
            where = "expect"
        elif where == "expect":
            expect.append(line[2:])
        elif line.startswith("frame "):
            frames.append(bytearray())
        elif line.startswith("  repeat "):
            _, count, value = line.split()
            frames[-1] += bytes([int(value, 16)]) * int(count)
        elif line.startswith("  "):
            frames[-1] += bytes.fromhex(line.strip())
    return [bytes(f) for f in frames], expect


def fields(data):
    """Protobuf wire format: (number, wire type, value) of each field."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value & (1 << 64) - 1

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            if at + size > len(data):
                raise ValueError("protobuf runs past its end")
            value = data[at:at + size]
            at += size
        yield key >> 3, kind, value


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def packed(data):
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(signed(value))
            value = shift = 0
    return numbers


def tensor(data, raw):
    name, dtype, dims, size, frame, inline = b"", 0, [], 0, 0, b""
    for number, kind, value in fields(data):
        if number == 1:
            name = value
        elif number == 2:
            dtype = value
        elif number == 3:
            dims += packed(value) if kind == 2 else [signed(value)]
        elif number == 4:
            size = value
        elif number == 5:
            frame = value
        elif number == 6:
            inline = value
    payload = raw[frame - 1] if frame else inline
    assert len(payload) == size, "byte count"
    return name, dtype, dims, payload


def number_text(number):
    """C99's %a; Python writes trailing zeros, C does not."""
    if math.isnan(number):
        return "d:nan"
    if math.isinf(number):
        return "d:inf" if number > 0 else "d:-inf"
    digits, exponent = number.hex().split("p")
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".") if float(number) else digits.split(".")[0]
    return "d:" + digits + "p" + exponent


def parameter(data):
    name, text = b"", b"s:"
    for number, _, value in fields(data):
        if number == 1:
            name = value
        elif number == 2:
            text = b"s:" + value
        elif number == 3:
            text = b"i:%d" % signed(value)
        elif number == 4:
            text = number_text(struct.unpack("<d", value)[0]).encode()
        elif number == 5:
            text = b"b:%d" % value
    return name, text


def u64(value):
    return struct.pack("<Q", value & (1 << 64) - 1)


def text(value):
    return u64(len(value)) + value


def request_bytes(meta, raw):
    inputs = sorted(tensor(value, raw) for number, _, value in fields(meta) if number == 3)
    outputs = sorted(value for number, _, value in fields(meta) if number == 4)
    parameters = sorted(parameter(value) for number, _, value in fields(meta) if number == 5)
    out = b"penstock-request-1" + u64(len(inputs))
    for name, dtype, dims, payload in inputs:
        out += text(name) + u64(dtype) + u64(len(dims)) + b"".join(u64(d) for d in dims) + text(payload)
    out += u64(len(outputs)) + b"".join(text(name) for name in outputs)
    out += u64(len(parameters)) + b"".join(text(name) + text(value) for name, value in parameters)
    top = [value for number, _, value in fields(meta) if number == 50]
    return out + (u64(top[-1]) if top and top[-1] else b"")


def envelope(frame):
    (magic, major, minor, kind, size, flags, client, sequence, digest, model, sequence_id, deadline, tenant, priority, precision, status, frames,
     meta_bytes, transfer) = struct.unpack_from("<2s4BHQQ16sQQQI4BII", frame)
    assert magic == b"PK" and major == 1, "not ours"
    lines = {
        "version": f"{major}.{minor}", "type": kind, "flags": f"0x{flags:04x}", "job": f"{client:016x}-{sequence}", "digest": digest.hex(),
        "model_hash": f"0x{model:016x}", "sequence_id": sequence_id, "deadline_us": deadline, "tenant_hash": f"0x{tenant:08x}",
        "priority": priority, "precision": precision, "frames": frames, "meta_bytes": meta_bytes}
    if minor and transfer:
        lines["transfer"] = transfer
    lines["status"] = status if status < STATUS_COUNT else INTERNAL
    return kind, frames, frame[size:], lines


def check(path):
    frames, expect = read_vector(path)
    if not any(line.endswith("= OK") and line.split()[0] in ("decode", "meta", "tensors") for line in expect):
        return 0
    at, group = 0, -1
    groups = []
    for line in expect:
        if line.startswith("group "):
            groups.append({})
            group += 1
        elif " = " in line:
            name, value = line.split(" = ", 1)
            groups[group][name] = value
    for expected in groups:
        kind, count, meta, lines = envelope(frames[at])
        for name, value in lines.items():
            assert expected[name].split()[0] == str(value), f"{name}: {expected[name]} in the file, {value} here"
        assert len(meta) == lines["meta_bytes"], "meta size"
        announced = "transfer" in lines and kind != 18
        if kind == 2 and not announced:
            digest = hashlib.sha256(request_bytes(meta, frames[at + 1:at + 1 + count])).hexdigest()[:32]
            assert expected["request_digest.sha256"] == digest, f"request digest {digest}"
        at += 1 if announced else 1 + count
    return 1


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    checked = failed = 0
    for path in sorted(glob.glob(os.path.join(folder, "*.vec"))):
        try:
            checked += check(path)
        except Exception as error:  # a reader's defect is a failure too
            failed += 1
            print(f"{path}: {type(error).__name__}: {error}")
    print(f"{checked} vectors agree, {failed} do not")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
