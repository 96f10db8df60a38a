"""NumPy arrays to tensors and back. Arrays are sent and received without copies where their bytes are the wire's: C order, little-endian."""
from __future__ import annotations

import struct
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .errors import CorruptError, DtypeError, InvalidError, ShapeError
from .wire import NAME_BYTES_MAX

try:
    import ml_dtypes  # bf16, f8 and types below a byte as NumPy types
except ImportError:  # pragma: no cover
    ml_dtypes: Any = None  # type: ignore[no-redef,unused-ignore]

RANK_MAX = 8
DTYPES = ("none", "f32", "u8", "i8", "u16", "i16", "i32", "i64", "string", "bool", "f16", "f64", "u32", "u64", "c64", "c128", "bf16", "f8e4m3fn",
          "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "u4", "i4", "f4e2m1", "f8e8m0", "u2", "i2")
STRING, BOOL = 8, 9
_NUMPY_NAMES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64", 12: "uint32",
                13: "uint64", 14: "complex64", 15: "complex128"}
_SMALL_NAMES = {16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
                23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2"}
_BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16, 17: 8, 18: 8, 19: 8, 20: 8, 21: 4,
         22: 4, 23: 4, 24: 8, 25: 2, 26: 2}
_TO_NUMPY: Dict[int, Any] = {number: np.dtype(name).newbyteorder("<") for number, name in _NUMPY_NAMES.items()}
_FROM_NUMPY: Dict[Any, int] = {dtype: number for number, dtype in _TO_NUMPY.items()}
for _number, _name in _SMALL_NAMES.items():
    if ml_dtypes is not None and hasattr(ml_dtypes, _name):
        _TO_NUMPY[_number] = np.dtype(getattr(ml_dtypes, _name))
        _FROM_NUMPY[_TO_NUMPY[_number]] = _number


class Tensor(NamedTuple):
    """A tensor as it travels: for element types that NumPy lacks, and for bytes that are at hand already.

    >>> Tensor("bf16", (2,), bytes(4)).dtype
    'bf16'
    """
    dtype: str
    dims: Tuple[int, ...]
    data: Any  # bytes-like, little-endian, C order; elements below a byte packed, first in the low bits


class Packed(NamedTuple):
    """A named input on its way: its type's number, dims and bytes."""
    name: str
    dtype: int
    dims: Tuple[int, ...]
    data: Any


def dtype_number(name: str) -> int:
    """Of our name ("f32") or NumPy's ("float32").

    >>> dtype_number("f32"), dtype_number("float32"), dtype_number("bf16")
    (1, 1, 16)
    """
    for names in (dict(enumerate(DTYPES)), _NUMPY_NAMES, _SMALL_NAMES):
        for number, known in names.items():
            if number and known == name:
                return number
    raise DtypeError(f'the element type "{name}" is unknown; they are {", ".join(DTYPES[1:])}.')


def numpy_dtype(number: int) -> Optional[Any]:
    """The NumPy type of an element type; object for texts; None where neither NumPy nor ml_dtypes has it."""
    return np.dtype(object) if number == STRING else _TO_NUMPY.get(number)


def _elements(dims: Sequence[int]) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count


def bytes_needed(number: int, dims: Sequence[int]) -> int:
    """
    >>> bytes_needed(1, (2, 3)), bytes_needed(21, (3,)), bytes_needed(6, ())
    (24, 2, 4)
    """
    return (_elements(dims) * _BITS[number] + 7) // 8


def _pack_low_bits(array: Any, bits: int) -> bytes:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    per = 8 // bits
    padded = np.zeros(-(-flat.size // per) * per, np.uint8)
    padded[:flat.size] = flat
    lanes = padded.reshape(-1, per) << (np.arange(per, dtype=np.uint8) * bits)
    return bytes(np.bitwise_or.reduce(lanes, axis=1).astype(np.uint8))


def _unpack_low_bits(data: Any, bits: int, count: int, signed: bool) -> Any:
    lanes = np.frombuffer(data, np.uint8)[:, None] >> (np.arange(8 // bits, dtype=np.uint8) * bits)
    flat = (lanes & ((1 << bits) - 1)).astype(np.uint8).reshape(-1)[:count]
    return np.where(flat >> (bits - 1), flat | (0xFF << bits & 0xFF), flat).astype(np.uint8) if signed else flat


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidError(f"a text has half of a surrogate pair, which UTF-8 cannot carry: {text!r}; give its bytes.") from None


def _pack_strings(array: Any) -> bytes:
    parts: List[bytes] = []
    for item in array.reshape(-1):
        data = _utf8(item) if isinstance(item, str) else bytes(item) if isinstance(item, (bytes, bytearray, memoryview)) else None
        if data is None:
            raise DtypeError(f"an array of objects is sent as texts, but it has a {type(item).__name__}: give str or bytes, or numbers of one NumPy type.")
        parts += (struct.pack("<I", len(data)), data)
    return b"".join(parts)


def _unpack_strings(data: Any, dims: Sequence[int]) -> Any:
    view, at, count = memoryview(data), 0, _elements(dims)
    if count > len(view) // 4:
        raise CorruptError("a tensor of texts is shorter than its lengths.")
    array = np.empty(count, object)
    for i in range(count):
        if len(view) - at < 4 or len(view) - at - 4 < struct.unpack_from("<I", view, at)[0]:
            raise CorruptError(f"text {i} of a tensor runs past its end.")
        size = struct.unpack_from("<I", view, at)[0]
        array[i] = bytes(view[at + 4:at + 4 + size])
        at += 4 + size
    if at != len(view):
        raise CorruptError("a tensor of texts has bytes behind its last one.")
    return array.reshape(dims)


def wire_number(dtype: Any) -> int:
    """Of a NumPy type whose bytes are the wire's when they are in C order; 0 for others."""
    number = _FROM_NUMPY.get(dtype, 0) if sys.byteorder == "little" else 0
    return number if number and _BITS[number] >= 8 else 0


def bytes_of(array: Any, copy: bool) -> Any:
    """The bytes in C order; a view of them where they need not be copied."""
    if array.nbytes <= 2048 or copy:
        return array.tobytes()
    contiguous = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    flat: Any = contiguous.reshape(-1).view(np.uint8)
    return memoryview(flat)


def _pack_tensor(name: str, tensor: Tensor, copy: bool) -> Packed:
    number, dims = dtype_number(tensor.dtype), tuple(int(dim) for dim in tensor.dims)
    given: Any = tensor.data
    data = memoryview(given).cast("B")
    if any(dim < 0 for dim in dims):
        raise ShapeError(f'input "{name}" has a negative dimension.')
    if number != STRING and len(data) != bytes_needed(number, dims):
        raise InvalidError(f'input "{name}" has {len(data)} bytes; {tensor.dtype} {list(dims)} needs {bytes_needed(number, dims)}.')
    return Packed(name, number, dims, bytes(data) if copy or len(data) <= 2048 else data)


def check_input(name: str, dims: Sequence[int]) -> None:
    """Raises what is wrong with an input's name or rank."""
    if not isinstance(name, str) or not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
        raise InvalidError(f"an input tensor needs a name of 1 to {NAME_BYTES_MAX} bytes.")
    if len(dims) > RANK_MAX:
        raise ShapeError(f'input "{name}" has {len(dims)} dimensions; at most {RANK_MAX} are allowed.')


def pack(name: str, value: Any, copy: bool) -> Packed:
    """An input from an array, a Tensor, or whatever NumPy makes an array of. copy: its bytes may change before they are sent."""
    if isinstance(value, Tensor):
        check_input(name, value.dims)
        return _pack_tensor(name, value, copy)
    if np.ma.is_masked(value):
        raise InvalidError(f'input "{name}" has masked elements, which no model knows: fill them with .filled(value).')
    array = np.asarray(value)  # a plain one, also of np.matrix and the like
    check_input(name, array.shape)
    return _pack_array(name, array, copy)


def _holds(array: Any, number: int) -> Any:
    """Which elements of an array of numbers an element type can hold: whole numbers exactly, others but for their rounding."""
    if array.dtype.kind == "c" and DTYPES[number][0] != "c":
        return array.imag != array.imag  # none
    if number != BOOL and DTYPES[number][0] not in "iu":
        wide = array if array.dtype.kind != "O" else array.astype(np.float64)
        with np.errstate(all="ignore"):
            return np.isfinite(wide.astype(_TO_NUMPY[number])) | ~np.isfinite(wide)
    info = (np if number in _NUMPY_NAMES else ml_dtypes).iinfo(_TO_NUMPY[number]) if number != BOOL else None
    low, high = (int(info.min), int(info.max)) if info else (0, 1)
    whole = array == np.trunc(array) if array.dtype.kind == "f" else True
    return (array >= low) & (array < high + 1) & whole


def _numbers(name: str, number: int, value: Any) -> Any:
    """Whatever NumPy makes numbers of."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ShapeError(f'input "{name}" is a list of lists that differ in length, or in depth.') from None
    if array.dtype.kind == "O":  # what is no number, or does not fit 64 bits
        for item in array.reshape(-1):
            if not isinstance(item, (int, float, np.number, np.bool_)):
                raise DtypeError(f'input "{name}" takes {DTYPES[number]}, and has a {type(item).__name__}: {str(item)[:64]!r}.')
    elif array.dtype.kind not in "biufc" and array.dtype not in _FROM_NUMPY:
        raise DtypeError(f'input "{name}" takes {DTYPES[number]}, and what was given is of the NumPy type {array.dtype}.')
    return array


def from_values(name: str, number: int, value: Any) -> Any:
    """An array of an element type that NumPy has, from lists, numbers, and what else NumPy makes arrays of. What the type cannot hold is refused, never wrapped or cut.

    >>> from_values("x", dtype_number("u8"), [1, 2.0, True]).tolist()
    [1, 2, 1]
    """
    dtype = _TO_NUMPY[number]
    array = _numbers(name, number, value)
    if array.dtype == dtype:
        return array
    try:
        fits = np.broadcast_to(_holds(array, number), array.shape)
    except OverflowError:  # of Python's whole numbers, into a float
        fits = np.zeros(array.shape, bool)
    if not fits.all():
        wrong = array.reshape(-1)[np.flatnonzero(~fits.astype(bool).reshape(-1))[0]]
        raise InvalidError(f'input "{name}" takes {DTYPES[number]}, which cannot hold {str(wrong)[:64]}.')
    return array.astype(dtype)


def _pack_array(name: str, array: Any, copy: bool) -> Packed:
    number = _FROM_NUMPY.get(array.dtype)
    if number is None:
        if array.dtype.kind in "OSUT":
            return Packed(name, STRING, array.shape, _pack_strings(array))
        number = _FROM_NUMPY.get(array.dtype.newbyteorder("<"))  # big-endian numbers are turned
        if number is None:
            raise DtypeError(f'input "{name}" has the NumPy type {array.dtype}, which no model takes; convert it with .astype().')
        array = array.astype(_TO_NUMPY[number])
    if _BITS[number] < 8:
        return Packed(name, number, array.shape, _pack_low_bits(array, _BITS[number]))
    if sys.byteorder == "big":
        array = array.astype(_TO_NUMPY[number])
    return Packed(name, number, array.shape, bytes_of(array, copy))


def check(name: str, number: int, dims: Sequence[int], size: int) -> None:
    """Of a received tensor: does its size fit what it says it is?"""
    if not 0 < number < len(DTYPES):
        raise CorruptError(f"output '{name}' has the unknown element type {number}.")
    if len(dims) > RANK_MAX or (dims and min(dims) < 0):
        raise CorruptError(f"output '{name}' has the impossible shape {list(dims)}.")
    if number != STRING and size != bytes_needed(number, dims):
        raise CorruptError(f"output '{name}' has {size} bytes; {DTYPES[number]} {list(dims)} needs {bytes_needed(number, dims)}.")


def unpack(number: int, dims: Sequence[int], data: Any) -> Any:
    """A checked tensor as an array: a view of `data` for every type that has whole bytes. bf16 without ml_dtypes becomes float32; other types that NumPy lacks
    become uint8: an element each below a byte, else their bytes."""
    dtype = _TO_NUMPY.get(number)
    bits = _BITS.get(number, 0)
    if dtype is not None and bits >= 8:
        array = np.frombuffer(data, dtype)
        return array if len(dims) == 1 else array.reshape(dims)
    if number == STRING:
        return _unpack_strings(data, dims)
    if bits < 8:
        flat = _unpack_low_bits(data, bits, _elements(dims), DTYPES[number].startswith("i"))
        return (flat if dtype is None else flat.view(dtype)).reshape(dims)
    if DTYPES[number] == "bf16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(dims)
    return np.frombuffer(data, np.uint8).reshape(dims)
