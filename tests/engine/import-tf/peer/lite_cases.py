"""Writes cases/lite.jsonl: small TFLite models with the answers of the real interpreter (ai-edge-litert).
   python3 lite_cases.py ../cases/lite.jsonl"""
import math
import struct
import sys

import numpy as np
from flatbuffers import flexbuffers

import lite
from lite import C, F, I, IS, Model, O, Q, T, chance, keep, op, rint, rnd

PLAIN = [-3.25, -1.5, -0.5, -0.25, 0, 0.25, 0.5, 1, 1.5, 2.5, 3.5, 7]
NEAR = [1.01, 1e-5]  # integers: one step
SAME, VALID = 0, 1

# ---- element by element ---------------------------------------------------------------------------------------------------
for code in ["ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1",
             "ROUND", "SIN", "SQUARE", "TANH", "SIGN"]:
    op(code, [F([3, 4], PLAIN)], [O([3, 4])])
for code in ["LOG", "SQRT", "RSQRT"]:
    op(code, [F([5], [0.0625, 0.5, 1, 2, 10])], [O([5])])
op("GELU", [F([12], PLAIN)], [O([12])], {"Approximate": False})
op("GELU", [F([12], PLAIN)], [O([12])], {"Approximate": True}, name="approximate", tol=[1e-3, 1e-3])
op("LEAKY_RELU", [F([12], PLAIN)], [O([12])], {"Alpha": 0.125})
op("PRELU", [F([1, 2, 2, 3]), C([1, 1, 3], [0.25, -0.5, 2])], [O([1, 2, 2, 3])])
for code in ["ADD", "SUB", "MUL", "DIV"]:
    for act in range(4):
        op(code, [F([2, 3]), F([3], [1.5, -2, 0.5])], [O([2, 3])], {"FusedActivationFunction": act}, name=f"act {act}")
    op(code, [T("int32", [4], feed=[7, -7, 9, 4]), T("int32", [4], feed=[2, 2, -3, 4])], [O([4], "int32")], {"FusedActivationFunction": 0}, name="int32")
for code in ["MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE", "ATAN2"]:
    op(code, [F([2, 3], [-3, -1.5, 0, 0.5, 2, 5]), F([3] if code != "ATAN2" else [2, 3], [2, -1.5, 0.5] * (1 if code != "ATAN2" else 2))], [O([2, 3])])
for code in ["MAXIMUM", "FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE"]:
    op(code, [T("int32", [4], feed=[7, -7, 9, -4]), T("int32", [4], feed=[2, 2, -4, -3])], [O([4], "int32")], name="int32")
op("POW", [F([4], [0.5, 1, 2, 3]), F([4], [2, -1, 0.5, 3])], [O([4])])
for code in ["EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"]:
    op(code, [F([2, 3], [1, 2, 3, 4, 5, 6]), F([3], [1, 3, 3])], [O([2, 3], "bool")])
    op(code, [T("int32", [3], feed=[1, 2, 3]), T("int32", [3], feed=[1, 3, 2])], [O([3], "bool")], name="int32")
    op(code, [Q("int8", [4], (0.5, 3), [1, 2, 3, 9]), Q("int8", [4], (0.25, -1), [-5, 3, 2, 90])], [O([4], "bool")], name="int8")
for code in ["LOGICAL_AND", "LOGICAL_OR"]:
    op(code, [T("bool", [4], feed=[0, 0, 1, 1]), T("bool", [4], feed=[0, 1, 0, 1])], [O([4], "bool")])
op("LOGICAL_NOT", [T("bool", [2], feed=[1, 0])], [O([2], "bool")])
op("BITWISE_XOR", [T("int32", [3], feed=[5, 6, -1]), T("int32", [3], feed=[3, 3, 3])], [O([3], "int32")])
op("RIGHT_SHIFT", [T("int32", [3], feed=[16, 7, -8]), T("int32", [3], feed=[2, 1, 1])], [O([3], "int32")])
op("ADD_N", [F([3]), F([3]), F([3])], [O([3])])
op("SELECT", [T("bool", [2], feed=[1, 0]), F([2, 3]), F([2, 3])], [O([2, 3])])
op("SELECT_V2", [T("bool", [3], feed=[1, 0, 1]), F([2, 3]), F([1])], [O([2, 3])])
for a, b in [("float32", "int32"), ("int32", "float32"), ("float32", "bool"), ("bool", "float32"), ("int32", "int64"), ("float32", "uint8"), ("int8", "int32")]:
    op("CAST", [T(a, [4], feed=[1, 0, 1, 0] if a == "bool" else [0, 1, 5, 9] if b == "uint8" else [-2.75, 0, 0.5, 3.25] if a == "float32" else [-3, 0, 1, 9])], [O([4], b)], name=f"{a} {b}")
op("FAKE_QUANT", [F([12], PLAIN)], [O([12])], {"Min": -1.0, "Max": 4.0, "NumBits": 8, "NarrowRange": False})
op("FAKE_QUANT", [F([12], PLAIN)], [O([12])], {"Min": -2.0, "Max": 2.0, "NumBits": 4, "NarrowRange": False}, name="4 bits")

# ---- reductions, normalisation ----------------------------------------------------------------------------------------------
for code in ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"]:
    for kept in [False, True]:
        shape = [2, 1, 1] if kept else [2]
        op(code, [F([2, 3, 2]), I(1, 2)], [O(shape)], {"KeepDims": kept}, kind="ReducerOptions", name=f"{kept}")
    op(code, [F([2, 3]), I(-1)], [O([2])], {"KeepDims": False}, kind="ReducerOptions", name="negative")
for code in ["REDUCE_ANY", "REDUCE_ALL"]:
    op(code, [T("bool", [2, 3], feed=[1, 1, 1, 0, 1, 0]), I(1)], [O([2], "bool")], {"KeepDims": False}, kind="ReducerOptions")
for code in ["ARG_MAX", "ARG_MIN"]:
    op(code, [F([2, 4], [1, 5, 5, 0, -2, -2, 3, 3]), IS(1)], [O([2], "int64")], {"OutputType": 4})
    op(code, [F([2, 4], [1, 5, 5, 0, -2, -2, 3, 3]), IS(-2)], [O([4], "int32")], {"OutputType": 2}, name="first axis")
for exclusive in [False, True]:
    for reverse in [False, True]:
        op("CUMSUM", [F([2, 4]), IS(1)], [O([2, 4])], {"Exclusive": exclusive, "Reverse": reverse}, name=f"{exclusive} {reverse}")
op("SOFTMAX", [F([2, 5])], [O([2, 5])], {"Beta": 1.0})
op("SOFTMAX", [F([2, 2, 3])], [O([2, 2, 3])], {"Beta": 0.5}, name="beta")
op("LOG_SOFTMAX", [F([2, 5])], [O([2, 5])])
op("L2_NORMALIZATION", [F([2, 3, 4])], [O([2, 3, 4])], {"FusedActivationFunction": 0}, kind="L2NormOptions")
op("LOCAL_RESPONSE_NORMALIZATION", [F([1, 2, 2, 7])], [O([1, 2, 2, 7])], {"Radius": 2, "Bias": 1.5, "Alpha": 0.5, "Beta": 0.75})

# ---- shapes and moving data --------------------------------------------------------------------------------------------------
op("RESHAPE", [F([2, 6]), I(3, -1)], [O([3, 4])])
op("RESHAPE", [F([2, 6])], [O([4, 3])], {"NewShape": [4, 3]}, name="option")
op("SQUEEZE", [F([1, 3, 1, 2])], [O([3, 2])], {"SqueezeDims": [0, 2]})
op("SQUEEZE", [F([1, 3, 1])], [O([3])], {}, name="all")
for axis, shape in [(0, [1, 2, 3]), (-1, [2, 3, 1])]:
    op("EXPAND_DIMS", [F([2, 3]), IS(axis)], [O(shape)], name=f"{axis}")
op("CONCATENATION", [F([2, 1]), F([2, 3])], [O([2, 4])], {"Axis": -1, "FusedActivationFunction": 0})
for axis, shape in [(0, [2, 2, 3]), (-1, [2, 3, 2])]:
    op("PACK", [F([2, 3]), F([2, 3])], [O(shape)], {"ValuesCount": 2, "Axis": axis}, name=f"{axis}")
for axis in [0, -1]:
    op("UNPACK", [F([2, 2])], [O([2]), O([2])], {"Num": 2, "Axis": axis}, name=f"{axis}")
op("SPLIT", [IS(1), F([2, 6])], [O([2, 2]), O([2, 2]), O([2, 2])], {"NumSplits": 3})
op("SPLIT_V", [F([2, 6]), I(1, 3, 2), IS(-1)], [O([2, 1]), O([2, 3]), O([2, 2])], {"NumSplits": 3})
op("SPLIT_V", [F([2, 6]), I(1, -1), IS(1)], [O([2, 1]), O([2, 5])], {"NumSplits": 2}, name="rest")
op("SLICE", [F([3, 4]), I(1, 0), I(2, -1)], [O([2, 4])])
masks = lambda b, e, l, n, s: {"BeginMask": b, "EndMask": e, "EllipsisMask": l, "NewAxisMask": n, "ShrinkAxisMask": s}
for name, shape, start, end, step, m, out in [
        ("plain", [4, 5], [1, 0], [3, 4], [1, 2], (0, 0, 0, 0, 0), [2, 2]), ("negative", [4, 5], [-1, -1], [-4, -6], [-1, -2], (0, 0, 0, 0, 0), [3, 3]),
        ("masks", [4, 5], [2, 2], [3, 3], [1, 1], (2, 1, 0, 0, 0), [2, 3]), ("shrink", [4, 5], [-1, 1], [0, 4], [1, 1], (0, 0, 0, 0, 1), [3]),
        ("new axis", [4, 5], [0, 0, 1], [0, 2, 3], [1, 1, 1], (0, 0, 0, 1, 0), [1, 2, 2]), ("ellipsis", [2, 3, 4], [0, 1], [0, 3], [1, 1], (0, 0, 1, 0, 0), [2, 3, 2])]:
    op("STRIDED_SLICE", [F(shape), I(*start), I(*end), I(*step)], [O(out)], masks(*m), name=name)
op("STRIDED_SLICE", [F([6]), I(1), I(3), I(1)], [O([3])], {**masks(0, 0, 0, 0, 0), "Offset": True}, name="offset")
op("PAD", [F([2, 3]), T("int32", [2, 2], [1, 0, 0, 2])], [O([3, 5])])
op("PADV2", [F([2, 3]), T("int32", [2, 2], [1, 0, 0, 2]), C([1], [-1.5])], [O([3, 5])])
for mode in [0, 1]:
    op("MIRROR_PAD", [F([3, 4]), T("int32", [2, 2], [2, 1, 1, 2])], [O([6, 7])], {"Mode": mode}, name=f"{mode}")
op("TRANSPOSE", [F([2, 3, 4]), I(2, 0, 1)], [O([4, 2, 3])])
for name, shape, index, axis, batch, out in [("0", [4, 2], [[3, 0], [2]], 0, 0, [2, 2]), ("1", [2, 4], [[3, 0, 3], [3]], 1, 0, [2, 3]), ("negative", [2, 4], [[1, 3], [2]], -1, 0, [2, 2]),
                                             ("batch", [2, 4, 2], [[3, 0, 1, 2, 2, 0], [2, 3]], 1, 1, [2, 3, 2]), ("scalar", [4, 2], [[2], []], 0, 0, [2]), ("batch later", [2, 2, 4], [[3, 0, 1, 2], [2, 2]], 2, 1, [2, 2, 2])]:
    op("GATHER", [F(shape), T("int32", index[1], feed=index[0])], [O(out)], {"Axis": axis, "BatchDims": batch}, name=name)
op("GATHER_ND", [F([3, 2, 2]), T("int32", [2, 2], feed=[2, 0, 0, 1])], [O([2, 2])])
op("SCATTER_ND", [T("int32", [3, 1], feed=[1, 3, 1]), F([3, 2]), I(4, 2)], [O([4, 2])])
op("TILE", [F([2, 3]), I(2, 2)], [O([4, 6])])
op("FILL", [I(2, 3), T("float32", [], feed=[2.5])], [O([2, 3])])
op("BROADCAST_TO", [F([1, 3]), I(2, 3)], [O([2, 3])])
op("BROADCAST_ARGS", [T("int32", [2], feed=[1, 3]), T("int32", [3], feed=[4, 2, 1])], [O([3], "int32")])
op("RANGE", [T("int32", [], feed=[1]), T("int32", [], feed=[10]), T("int32", [], feed=[3])], [O([3], "int32")])
op("SHAPE", [F([2, 3, 1])], [O([3], "int32")], {"OutType": 2})
op("RANK", [F([2, 3, 1])], [O([], "int32")])
op("ZEROS_LIKE", [F([2, 2])], [O([2, 2])])
op("ONE_HOT", [T("int32", [2, 2], feed=[0, 2, 3, -1]), IS(4), C([], [1.5]), C([], [-0.5])], [O([2, 2, 4])], {"Axis": -1})
op("ONE_HOT", [T("int32", [3], feed=[0, 2, 1]), IS(3), C([], [1]), C([], [0])], [O([3, 3])], {"Axis": 0}, name="first axis")
op("TOPK_V2", [F([2, 5], [1, 5, 3, 5, 2, -1, -2, 0, -3, 4]), IS(3)], [O([2, 3]), O([2, 3], "int32")])
op("WHERE", [T("bool", [2, 3], feed=[1, 0, 0, 1, 1, 0])], [O([3, 2], "int64")])
op("UNIQUE", [F([6], [3, 1, 3, 2, 1, 7])], [O([4]), O([6], "int32")], {"IdxOutType": 2})
op("REVERSE_V2", [F([2, 3, 2]), I(1)], [O([2, 3, 2])])
op("REVERSE_SEQUENCE", [F([2, 4, 2]), T("int32", [2], feed=[3, 2])], [O([2, 4, 2])], {"SeqDim": 1, "BatchDim": 0})
op("SPACE_TO_DEPTH", [F([1, 4, 4, 2])], [O([1, 2, 2, 8])], {"BlockSize": 2})
op("DEPTH_TO_SPACE", [F([1, 2, 2, 8])], [O([1, 4, 4, 2])], {"BlockSize": 2})
op("SPACE_TO_BATCH_ND", [F([1, 3, 5, 1]), I(2, 3), T("int32", [2, 2], [1, 0, 0, 1])], [O([6, 2, 2, 1])])
op("BATCH_TO_SPACE_ND", [F([6, 2, 2, 1]), I(2, 3), T("int32", [2, 2], [1, 0, 0, 1])], [O([1, 3, 5, 1])])
for code, kind in [("RESIZE_BILINEAR", "ResizeBilinearOptions"), ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")]:
    for corners, half in [(False, False), (True, False), (False, True)]:
        for shape, size in [([1, 3, 4, 2], [6, 7]), ([1, 7, 5, 1], [3, 4])]:
            op(code, [F(shape), I(*size)], [O([1, *size, shape[3]])], {"AlignCorners": corners, "HalfPixelCenters": half}, kind=kind, name=f"{corners} {half} {size}")
op("SPARSE_TO_DENSE", [T("int32", [2, 2], feed=[0, 1, 2, 0]), I(3, 2), F([2]), C([], [-1])], [O([3, 2])], {"ValidateIndices": False})
op("SPARSE_TO_DENSE", [T("int32", [2], feed=[1, 3]), I(5), F([2]), C([], [0])], [O([5])], {"ValidateIndices": False}, name="one axis")
op("MATRIX_DIAG", [F([2, 3])], [O([2, 3, 3])])
op("MATRIX_SET_DIAG", [F([2, 3, 3]), F([2, 3])], [O([2, 3, 3])])
op("SEGMENT_SUM", [F([4, 2]), T("int32", [4], feed=[0, 0, 1, 2])], [O([3, 2])])
for code in ["UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD"]:
    op(code, [F([4, 2]), T("int32", [4], feed=[2, 0, 2, 0]), IS(3)], [O([3, 2])])
op("DYNAMIC_UPDATE_SLICE", [F([4, 4]), F([2, 2]), T("int32", [2], feed=[1, 3])], [O([4, 4])])
op("EMBEDDING_LOOKUP", [T("int32", [3], feed=[3, 0, 1]), C([4, 2])], [O([3, 2])])
boxes = C([6, 4], [0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, -0.1, 1, 0.9, 0, 10, 1, 11, 0, 10.1, 1, 11.1, 0, 100, 1, 101])
scores = [0.9, 0.75, 0.6, 0.95, 0.5, 0.3]
op("NON_MAX_SUPPRESSION_V4", [boxes, F([6], scores), IS(4), C([], [0.5]), C([], [0.4])], [O([4], "int32"), O([], "int32")])
op("NON_MAX_SUPPRESSION_V5", [boxes, F([6], scores), IS(6), C([], [0.5]), C([], [0.1]), C([], [0.0])], [O([6], "int32"), O([6]), O([], "int32")], name="hard")
op("NON_MAX_SUPPRESSION_V5", [boxes, F([6], scores), IS(6), C([], [1.0]), C([], [0.1]), C([], [0.5])], [O([6], "int32"), O([6]), O([], "int32")], name="soft")
op("BITCAST", [F([3], [1, -2, 0.5])], [O([3], "int32")])

# ---- windows and products, floats --------------------------------------------------------------------------------------------
conv = lambda pad, s=1, d=1, act=0: {"Padding": pad, "StrideW": s, "StrideH": s, "FusedActivationFunction": act, "DilationWFactor": d, "DilationHFactor": d}
deep = lambda pad, m, s=1, d=1, act=0: {"Padding": pad, "StrideW": s, "StrideH": s, "DepthMultiplier": m, "FusedActivationFunction": act, "DilationWFactor": d, "DilationHFactor": d}
op("CONV_2D", [F([1, 5, 4, 2]), C([3, 3, 3, 2]), C([3])], [O([1, 5, 4, 3])], conv(SAME), kind="Conv2DOptions")
op("CONV_2D", [F([1, 6, 7, 2]), C([3, 3, 2, 2]), C([3])], [O([1, 3, 4, 3])], conv(SAME, 2, 1, 1), kind="Conv2DOptions", name="stride relu")
op("CONV_2D", [F([1, 7, 7, 1]), C([2, 3, 3, 1]), C([2])], [O([1, 3, 3, 2])], conv(VALID, 1, 2, 3), kind="Conv2DOptions", name="dilated relu6")
op("CONV_2D", [F([1, 4, 4, 4]), C([4, 3, 3, 2]), C([4])], [O([1, 4, 4, 4])], conv(SAME), kind="Conv2DOptions", name="groups")
op("DEPTHWISE_CONV_2D", [F([1, 5, 5, 3]), C([1, 3, 3, 3]), C([3])], [O([1, 3, 3, 3])], deep(SAME, 1, 2), kind="DepthwiseConv2DOptions")
op("DEPTHWISE_CONV_2D", [F([1, 5, 5, 2]), C([1, 3, 3, 4]), C([4])], [O([1, 3, 3, 4])], deep(VALID, 2, 1, 1, 2), kind="DepthwiseConv2DOptions", name="multiplier")
op("CONV_3D", [F([1, 3, 4, 4, 2]), C([2, 3, 2, 2, 2]), C([2])], [O([1, 3, 4, 4, 2])], {"Padding": SAME, "StrideD": 1, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 0, "DilationDFactor": 1, "DilationWFactor": 1, "DilationHFactor": 1}, kind="Conv3DOptions")
op("CONV_3D_TRANSPOSE", [I(1, 4, 4, 6, 2), C([2, 2, 2, 2, 3]), F([1, 2, 2, 3, 3])], [O([1, 4, 4, 6, 2])], {"Padding": SAME, "StrideD": 2, "StrideW": 2, "StrideH": 2, "FusedActivationFunction": 0, "DilationDFactor": 1, "DilationWFactor": 1, "DilationHFactor": 1}, kind="Conv3DOptions")
for pad, shape in [(SAME, [1, 6, 6, 3]), (VALID, [1, 7, 7, 3]), (VALID, [1, 8, 7, 3])]:
    op("TRANSPOSE_CONV", [I(*shape), C([3, 3, 3, 2]), F([1, 3, 3, 2])], [O(shape)], {"Padding": pad, "StrideW": 2, "StrideH": 2}, name=f"{pad} {shape[1]}")
op("TRANSPOSE_CONV", [I(1, 6, 6, 3), C([3, 3, 3, 2]), F([1, 3, 3, 2]), C([3])], [O([1, 6, 6, 3])], {"Padding": SAME, "StrideW": 2, "StrideH": 2, "FusedActivationFunction": 1}, name="bias")
pool = lambda pad, s, k, act=0: {"Padding": pad, "StrideW": s, "StrideH": s, "FilterWidth": k, "FilterHeight": k, "FusedActivationFunction": act}
for code in ["MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"]:
    op(code, [F([1, 5, 5, 2])], [O([1, 3, 3, 2])], pool(SAME, 2, 3), kind="Pool2DOptions", name="same")
    op(code, [F([1, 5, 5, 2])], [O([1, 4, 4, 2])], pool(VALID, 1, 2, 1 if code != "L2_POOL_2D" else 0), kind="Pool2DOptions", name="valid")
fc = lambda act=0, kept=False: {"FusedActivationFunction": act, "WeightsFormat": 0, "KeepNumDims": kept}
op("FULLY_CONNECTED", [F([2, 4]), C([3, 4]), C([3])], [O([2, 3])], fc(1))
op("FULLY_CONNECTED", [F([2, 4]), C([3, 4]), None], [O([2, 3])], fc(), name="without bias")
op("FULLY_CONNECTED", [F([2, 2, 4]), C([3, 4]), C([3])], [O([2, 2, 3])], fc(0, True), name="kept")
op("FULLY_CONNECTED", [F([2, 2, 2]), C([3, 4]), C([3])], [O([2, 3])], fc(), name="flattened")
op("FULLY_CONNECTED", [F([2, 4]), F([3, 4]), C([3])], [O([2, 3])], fc(), name="weights as input")
for ax, ay in [(False, False), (True, False), (False, True)]:
    op("BATCH_MATMUL", [F([2, 3, 2] if ax else [2, 2, 3]), F([2, 4, 3] if ay else [2, 3, 4])], [O([2, 2, 4])], {"AdjX": ax, "AdjY": ay}, kind="BatchMatMulOptions", name=f"{ax} {ay}")
op("BATCH_MATMUL", [F([2, 2, 3]), C([3, 4])], [O([2, 2, 4])], {"AdjX": False, "AdjY": False}, kind="BatchMatMulOptions", name="broadcast")

# ---- quantised -----------------------------------------------------------------------------------------------------------------
for type, zero in [("int8", -3), ("uint8", 125)]:
    q = (0.0625, zero)
    mid = rint([1, 5, 5, 2], 60, 190) if type == "uint8" else rint([1, 5, 5, 2], -70, 70)
    weights = lambda shape, scale=0.03125: T(type, shape, rint(shape, 90, 160) if type == "uint8" else rint(shape, -60, 60), q=(scale, 128 if type == "uint8" else 0))
    bias = lambda n: T("int32", [n], rint([n], -300, 300), q=(0.0625 * 0.03125, 0))
    low = 0 if type == "uint8" else -128
    op("QUANTIZE", [F([12], PLAIN)], [T(type, [12], q=q)], name=type)
    op("DEQUANTIZE", [Q(type, [6], q)], [O([6])], name=type)
    op("QUANTIZE", [Q(type, [6], q)], [T(type, [6], q=(0.125, zero + 5))], name=f"{type} again", tol=NEAR)
    for code in ["ADD", "SUB", "MUL"]:
        for act in [0, 1, 3]:
            op(code, [Q(type, [2, 6], q), Q(type, [2, 6], (0.03125, zero + 2))], [T(type, [2, 6], q=(0.09375, zero - 1))], {"FusedActivationFunction": act}, name=f"{type} act {act}", tol=NEAR)
    op("ADD", [Q(type, [2, 3], q), Q(type, [1, 3], (0.03125, zero))], [T(type, [2, 3], q=(0.125, zero))], {"FusedActivationFunction": 0}, name=f"{type} broadcast", tol=NEAR)
    if type == "uint8":
        op("DIV", [Q(type, [4], q, [10, 200, 140, 90]), Q(type, [4], (0.0625, 120), [140, 150, 200, 180])], [T(type, [4], q=(0.0625, zero))], {"FusedActivationFunction": 0}, name=type, tol=NEAR)
    for code in ["LOGISTIC", "TANH"]:
        op(code, [Q(type, [12], q)], [T(type, [12], q=(1 / 256, low) if code == "LOGISTIC" else (1 / 128, 128 if type == "uint8" else 0))], name=type, tol=NEAR)
    op("SOFTMAX", [Q(type, [2, 5], q)], [T(type, [2, 5], q=(1 / 256, low))], {"Beta": 1.0}, name=type, tol=NEAR)
    op("LOG_SOFTMAX", [Q(type, [2, 5], q)], [T(type, [2, 5], q=(16 / 256, 255 if type == "uint8" else 127))], name=type, tol=NEAR)
    for code in ["RELU", "RELU6", "HARD_SWISH"]:
        op(code, [Q(type, [12], q)], [T(type, [12], q=(0.0625, zero))], name=type, tol=NEAR)
    op("LEAKY_RELU", [Q(type, [12], q)], [T(type, [12], q=(0.0625, zero))], {"Alpha": 0.125}, name=type, tol=NEAR)
    op("PRELU", [Q(type, [1, 2, 2, 3], q), T(type, [1, 1, 3], rint([3], 90, 120), q=(0.015625, 100))], [T(type, [1, 2, 2, 3], q=(0.0625, zero))], name=type, tol=NEAR)
    op("ELU", [Q(type, [12], q)], [T(type, [12], q=(0.0625, zero))], name=type, tol=NEAR) if type == "int8" else None
    op("CONV_2D", [Q(type, [1, 5, 5, 2], q, mid), weights([3, 3, 3, 2]), bias(3)], [T(type, [1, 5, 5, 3], q=(0.125, zero))], conv(SAME), kind="Conv2DOptions", name=type, tol=NEAR)
    op("CONV_2D", [Q(type, [1, 5, 5, 2], q, mid), weights([3, 3, 3, 2]), bias(3)], [T(type, [1, 3, 3, 3], q=(0.0625, zero))], conv(SAME, 2, 1, 3), kind="Conv2DOptions", name=f"{type} relu6", tol=NEAR)
    op("DEPTHWISE_CONV_2D", [Q(type, [1, 5, 5, 2], q, mid), weights([1, 3, 3, 4]), bias(4)], [T(type, [1, 5, 5, 4], q=(0.125, zero))], deep(SAME, 2, 1, 1, 1), kind="DepthwiseConv2DOptions", name=type, tol=NEAR)
    op("FULLY_CONNECTED", [Q(type, [2, 4], q), weights([3, 4]), bias(3)], [T(type, [2, 3], q=(0.125, zero))], fc(), name=type, tol=NEAR)
    op("TRANSPOSE_CONV", [I(1, 6, 6, 3), weights([3, 3, 3, 2]), Q(type, [1, 3, 3, 2], q), bias(3)], [T(type, [1, 6, 6, 3], q=(0.125, zero))], {"Padding": SAME, "StrideW": 2, "StrideH": 2}, name=type, tol=NEAR)
    for code in ["MAX_POOL_2D", "AVERAGE_POOL_2D"]:
        op(code, [Q(type, [1, 5, 5, 2], q)], [T(type, [1, 3, 3, 2], q=q)], pool(SAME, 2, 3), kind="Pool2DOptions", name=type, tol=NEAR)
    op("AVERAGE_POOL_2D", [Q(type, [1, 4, 4, 2], q)], [T(type, [1, 1, 1, 2], q=q)], pool(VALID, 1, 4), kind="Pool2DOptions", name=f"{type} all", tol=NEAR)
    op("MEAN", [Q(type, [1, 3, 4, 2], q), I(1, 2)], [T(type, [1, 1, 1, 2], q=(0.03125, zero))], {"KeepDims": True}, kind="ReducerOptions", name=type, tol=NEAR)
    op("SUM", [Q(type, [2, 3], q), I(1)], [T(type, [2], q=(0.25, zero))], {"KeepDims": False}, kind="ReducerOptions", name=type, tol=NEAR)
    op("REDUCE_MAX", [Q(type, [2, 3], q), I(1)], [T(type, [2], q=q)], {"KeepDims": False}, kind="ReducerOptions", name=type)
    op("CONCATENATION", [Q(type, [2, 2], q), Q(type, [2, 3], q if type == "int8" else (0.03125, zero + 4))], [T(type, [2, 5], q=q)], {"Axis": 1, "FusedActivationFunction": 0}, name=type, tol=NEAR)
    for code in ["MAXIMUM", "MINIMUM"]:
        op(code, [Q(type, [2, 3], q), Q(type, [2, 3], q)], [T(type, [2, 3], q=q)], name=type)
    op("SQUARED_DIFFERENCE", [Q(type, [2, 3], q), Q(type, [2, 3], q)], [T(type, [2, 3], q=(0.5, low))], name=type, tol=NEAR) if type == "int8" else None
    op("PAD", [Q(type, [2, 3], q), T("int32", [2, 2], [1, 0, 0, 2])], [T(type, [3, 5], q=q)], name=type)
    op("RESHAPE", [Q(type, [2, 6], q), I(3, 4)], [T(type, [3, 4], q=q)], name=type)
    op("TRANSPOSE", [Q(type, [2, 3], q), I(1, 0)], [T(type, [3, 2], q=q)], name=type)
    op("RESIZE_BILINEAR", [Q(type, [1, 3, 4, 1], q), I(5, 6)], [T(type, [1, 5, 6, 1], q=q)], {"AlignCorners": False, "HalfPixelCenters": True}, name=type, tol=NEAR)
    op("RESIZE_NEAREST_NEIGHBOR", [Q(type, [1, 3, 4, 1], q), I(5, 6)], [T(type, [1, 5, 6, 1], q=q)], {"AlignCorners": False, "HalfPixelCenters": True}, name=type)
    op("ARG_MAX", [Q(type, [2, 4], q), IS(1)], [O([2], "int32")], {"OutputType": 2}, name=type)
    op("BATCH_MATMUL", [Q(type, [2, 2, 3], (0.0625, 0)), Q(type, [2, 3, 4], (0.03125, 0))], [T(type, [2, 2, 4], q=(0.25, 0))], {"AdjX": False, "AdjY": False}, kind="BatchMatMulOptions", name=type, tol=NEAR) if type == "int8" else None
    op("L2_NORMALIZATION", [Q(type, [2, 4], q)], [T(type, [2, 4], q=(1 / 128, 128 if type == "uint8" else 0))], {"FusedActivationFunction": 0}, kind="L2NormOptions", name=type, tol=NEAR)
    op("GATHER", [Q(type, [4, 2], q), T("int32", [2], feed=[3, 0])], [T(type, [2, 2], q=q)], {"Axis": 0}, name=type)
    op("SPACE_TO_BATCH_ND", [Q(type, [1, 3, 5, 1], q), I(2, 3), T("int32", [2, 2], [1, 0, 0, 1])], [T(type, [6, 2, 2, 1], q=q)], name=type)
    op("SLICE", [Q(type, [3, 4], q), I(1, 0), I(2, -1)], [T(type, [2, 4], q=q)], name=type)
    op("PACK", [Q(type, [2, 3], q), Q(type, [2, 3], q)], [T(type, [2, 2, 3], q=q)], {"ValuesCount": 2, "Axis": 0}, name=type)
channels = ([0.03125, 0.0625, 0.015625], [0, 0, 0], 0)
op("CONV_2D", [Q("int8", [1, 5, 5, 2], (0.0625, -3)), T("int8", [3, 3, 3, 2], rint([54], -60, 60), q=channels), T("int32", [3], rint([3], -300, 300), q=([s * 0.0625 for s in channels[0]], [0, 0, 0], 0))],
   [T("int8", [1, 5, 5, 3], q=(0.25, 4))], conv(SAME), kind="Conv2DOptions", name="int8 per channel", tol=NEAR)
last = ([0.03125, 0.0625], [0, 0], 3)
op("DEPTHWISE_CONV_2D", [Q("int8", [1, 5, 5, 2], (0.0625, -3)), T("int8", [1, 3, 3, 2], rint([18], -60, 60), q=last), T("int32", [2], [40, -90], q=([s * 0.0625 for s in last[0]], [0, 0], 0))],
   [T("int8", [1, 5, 5, 2], q=(0.125, 4))], deep(SAME, 1), kind="DepthwiseConv2DOptions", name="int8 per channel", tol=NEAR)
op("FULLY_CONNECTED", [Q("int8", [2, 4], (0.0625, -3)), T("int8", [3, 4], rint([12], -60, 60), q=channels), T("int32", [3], [40, -90, 7], q=([s * 0.0625 for s in channels[0]], [0, 0, 0], 0))],
   [T("int8", [2, 3], q=(0.125, 4))], fc(), name="int8 per channel", tol=NEAR)
q16 = (1 / 4096, 0)
op("QUANTIZE", [F([12], PLAIN)], [T("int16", [12], q=(1 / 1024, 0))], name="int16")
op("MUL", [Q("int16", [6], q16), Q("int16", [6], q16)], [T("int16", [6], q=(1 / 512, 0))], {"FusedActivationFunction": 0}, name="int16", tol=NEAR)
for code in ["LOGISTIC", "TANH"]:
    op(code, [Q("int16", [6], q16)], [T("int16", [6], q=(1 / 32768, 0))], name="int16")
op("FULLY_CONNECTED", [Q("int16", [2, 4], q16), T("int8", [3, 4], rint([12], -60, 60), q=(0.03125, 0)), T("int64", [3], [40, -90, 7], q=(0.03125 / 4096, 0))], [T("int16", [2, 3], q=(1 / 512, 0))], fc(), name="int16", tol=NEAR)

# ---- weights stored otherwise ----------------------------------------------------------------------------------------------------
m = Model()
g = m.graph()
half, wide = T("float16", [3, 4], rnd([12])), O([3, 4])
g.op(m, "DEQUANTIZE", [half], [wide])
g.op(m, "FULLY_CONNECTED", [F([2, 4]), wide, C([3])], [O([2, 3])], fc())
keep("float16 weights", m)
HYBRID = [0.05, 0.02]  # the runtime rounds the activations to 8 bits besides
op("FULLY_CONNECTED", [F([2, 4]), T("int8", [3, 4], rint([12], -127, 127), q=(1 / 64, 0)), C([3])], [O([2, 3])], fc(), name="hybrid", tol=HYBRID)
op("CONV_2D", [F([1, 4, 4, 2]), T("int8", [3, 3, 3, 2], rint([54], -127, 127), q=([1 / 64, 1 / 128, 1 / 64], [0, 0, 0], 0)), C([3])], [O([1, 4, 4, 3])], conv(SAME), kind="Conv2DOptions", name="hybrid", tol=HYBRID)
op("DEPTHWISE_CONV_2D", [F([1, 4, 4, 2]), T("int8", [1, 3, 3, 2], rint([18], -127, 127), q=([1 / 64, 1 / 128], [0, 0], 3)), C([2])], [O([1, 4, 4, 2])], deep(SAME, 1), kind="DepthwiseConv2DOptions", name="hybrid", tol=HYBRID)

# ---- control flow, state ------------------------------------------------------------------------------------------------------------
def branches(p):
    m = Model()
    main, yes, no = m.graph(), m.graph(), m.graph()
    main.op(m, "IF", [T("bool", [], feed=[p]), F([3]), F([3])], [O([3])], {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2})
    for sub, code in [(yes, "ADD"), (no, "MUL")]:
        sub.op(m, code, [O([3]), O([3])], [O([3])], {"FusedActivationFunction": 0})
        sub.ins = [0, 1]
    keep(f"IF {p}", m)


branches(1)
branches(0)
for count in [0, 3]:
    m = Model()
    main, cond, body = m.graph(), m.graph(), m.graph()
    main.op(m, "WHILE", [T("int32", [1], feed=[0]), F([2]), T("int32", [1], feed=[count])], [O([1], "int32"), O([2]), O([1], "int32")], {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2})
    main.outs = [3, 4]
    i, x, n = O([1], "int32"), O([2]), O([1], "int32")
    for t in (i, x, n):
        cond.add(t)
    cond.op(m, "LESS", [i, n], [O([1], "bool")])
    cond.ins = [0, 1, 2]
    i, x, n = O([1], "int32"), O([2]), O([1], "int32")
    for t in (i, x, n):
        body.add(t)
    i2, x2 = O([1], "int32"), O([2])
    body.op(m, "ADD", [i, I(1)], [i2], {"FusedActivationFunction": 0})
    body.op(m, "MUL", [x, C([2], [2, -0.5])], [x2], {"FusedActivationFunction": 0})
    body.ins, body.outs = [0, 1, 2], [i2["_at"], x2["_at"], 2]
    keep(f"WHILE {count}", m)

op("BUCKETIZE", [F([5], [-1, 0, 3, 5, 12])], [O([5], "int32")], {"Boundaries": [0.0, 3.0, 10.5]})
m = Model()
main, init = m.graph(), m.graph()
main.op(m, "CALL_ONCE", [], [], {"InitSubgraphIndex": 1})
handle, value, inner = O([], "resource"), O([3]), O([], "resource")
main.op(m, "VAR_HANDLE", [], [handle], {"Container": "", "SharedName": "v"})
main.op(m, "READ_VARIABLE", [handle], [value], {})
main.op(m, "ADD", [value, F([3])], [O([3])], {"FusedActivationFunction": 0})
init.op(m, "VAR_HANDLE", [], [inner], {"Container": "", "SharedName": "v"})
init.op(m, "ASSIGN_VARIABLE", [inner, C([3], [1, 2, 3])], [], {})
init.outs = [None]
keep("CALL_ONCE VAR_HANDLE ASSIGN_VARIABLE READ_VARIABLE ADD", m)

# ---- recurrent -------------------------------------------------------------------------------------------------------------------------
def lstm(name, n_in=3, units=2, out=2, peephole=False, coupled=False, project=False, norm=False, time_major=False, cell_clip=0.0, proj_clip=0.0, hybrid=False, batch=2, steps=3, act=4):
    shape = [steps, batch, n_in] if time_major else [batch, steps, n_in]
    w = lambda s: T("int8", s, rint(s, -100, 100), q=(1 / 128, 0)) if hybrid else C(s, rnd(s, -1, 1))
    k = C([units]) if peephole else None
    ins = [F(shape)] + [None if coupled else w([units, n_in])] + [w([units, n_in]) for _ in range(3)] + [None if coupled else w([units, out])] + [w([units, out]) for _ in range(3)]
    ins += [(C([units]) if peephole and not coupled else None), (C([units]) if peephole else None), (C([units]) if peephole else None)]
    ins += [None if coupled else C([units])] + [C([units]) for _ in range(3)]
    ins += [w([out, units]) if project else None, C([out]) if project else None]
    ins += [T("float32", [batch, out], var=True), T("float32", [batch, units], var=True)]
    ins += [(None if coupled else C([units], rnd([units], 0.5, 1.5))) if norm else None] + [C([units], rnd([units], 0.5, 1.5)) if norm else None for _ in range(3)]
    op("UNIDIRECTIONAL_SEQUENCE_LSTM", ins, [O(shape[:2] + [out])], {"FusedActivationFunction": act, "CellClip": cell_clip, "ProjClip": proj_clip, "TimeMajor": time_major},
       kind="UnidirectionalSequenceLSTMOptions", name=name, tol=HYBRID if hybrid else None)


lstm("")
lstm("time major", time_major=True)
lstm("peephole", peephole=True)
lstm("coupled", coupled=True)
lstm("coupled peephole", coupled=True, peephole=True)
lstm("projection", project=True, out=3)
lstm("projection clipped", project=True, out=3, proj_clip=0.125, cell_clip=0.25)
lstm("norm", norm=True)
lstm("norm coupled", norm=True, coupled=True)
lstm("norm projection peephole", norm=True, project=True, peephole=True, out=3)
lstm("hybrid", hybrid=True)
lstm("relu", act=1)


def bidirectional(merge):
    n_in, units, batch, steps = 3, 2, 2, 3
    ins = [F([steps, batch, n_in])]
    for _ in range(2):
        ins += [C([units, n_in], rnd([units, n_in], -1, 1)) for _ in range(4)] + [C([units, units], rnd([units, units], -1, 1)) for _ in range(4)] + [None] * 3 + [C([units]) for _ in range(4)] + [None] * 2
    ins += [T("float32", [batch, units], var=True) for _ in range(4)] + [None] * 9
    outs = [O([steps, batch, 2 * units])] if merge else [O([steps, batch, units]), O([steps, batch, units])]
    op("BIDIRECTIONAL_SEQUENCE_LSTM", ins, outs, {"FusedActivationFunction": 4, "CellClip": 0.0, "ProjClip": 0.0, "MergeOutputs": merge, "TimeMajor": True}, kind="BidirectionalSequenceLSTMOptions", name=f"{merge}")


bidirectional(True)
bidirectional(False)
W = lambda s: C(s, rnd(s, -1, 1))
for major in [False, True]:
    op("UNIDIRECTIONAL_SEQUENCE_RNN", [F([3, 2, 4] if major else [2, 3, 4]), W([2, 4]), W([2, 2]), W([2]), T("float32", [2, 2], var=True)], [O([3, 2, 2] if major else [2, 3, 2])],
       {"TimeMajor": major, "FusedActivationFunction": 4}, kind="SequenceRNNOptions", name=f"{major}")
op("RNN", [F([2, 4]), W([3, 4]), W([3, 3]), W([3]), T("float32", [2, 3], var=True)], [O([2, 3])], {"FusedActivationFunction": 1}, kind="RNNOptions")
op("BIDIRECTIONAL_SEQUENCE_RNN", [F([2, 3, 4]), W([2, 4]), W([2, 2]), W([2]), T("float32", [2, 2], var=True), W([2, 4]), W([2, 2]), W([2]), T("float32", [2, 2], var=True), None, None, None],
   [O([2, 3, 4])], {"TimeMajor": False, "FusedActivationFunction": 4, "MergeOutputs": True}, kind="BidirectionalSequenceRNNOptions")
for rank in [1, 2]:
    op("SVDF", [F([2, 3]), W([4 * rank, 3]), W([4 * rank, 5]), W([4]), T("float32", [2, 5 * 4 * rank], var=True)], [O([2, 4])], {"Rank": rank, "FusedActivationFunction": 0}, kind="SVDFOptions", name=f"{rank}")
op("LSTM", [F([2, 3]), T("float32", [2, 2], feed=rnd([4])), W([8, 5]), W([8]), T("float32", [2, 2], feed=rnd([4]))], [O([2, 2]), O([2, 2]), O([2, 5]), O([2, 8])],
   {"FusedActivationFunction": 4, "CellClip": 0.0, "ProjClip": 0.0, "KernelType": 1}, kind="LSTMOptions", name="basic")
cell = [F([2, 3])] + [W([2, 3]) for _ in range(4)] + [W([2, 2]) for _ in range(4)] + [None] * 3 + [W([2]) for _ in range(4)] + [None] * 2 + [T("float32", [2, 2], var=True), T("float32", [2, 2], var=True)]
op("LSTM", cell, [O([2, 2])], {"FusedActivationFunction": 4, "CellClip": 0.0, "ProjClip": 0.0, "KernelType": 0}, kind="LSTMOptions", name="full")

# ---- complex ------------------------------------------------------------------------------------------------------------------------------
m = Model()
g = m.graph()
z = T("float32", [1, 4, 5])
z["t"] = "complex64"
lite.TYPES["complex64"] = 8
g.op(m, "RFFT2D", [F([1, 4, 8]), I(4, 8)], [z], {}, kind="Rfft2dOptions")
parts = []
for code in ["REAL", "IMAG", "COMPLEX_ABS"]:
    parts += g.op(m, code, [z], [O([1, 4, 5])])
g.outs = [t["_at"] for t in parts]
keep("RFFT2D REAL IMAG COMPLEX_ABS", m)

# ---- custom operators ------------------------------------------------------------------------------------------------------------------------
def flex(**values):
    return bytes(flexbuffers.Dumps(values))


anchors = C([6, 4], [0.25, 0.25, 0.5, 0.5, 0.3125, 0.25, 0.5, 0.5, 0.75, 0.75, 0.25, 0.25, 0.75, 0.78125, 0.25, 0.25, 0.5, 0.5, 1, 1, 0.125, 0.875, 0.25, 0.25])
for title, more in [("", {}), ("two classes", {"max_classes_per_detection": 2}), ("by class", {"use_regular_nms": True, "detections_per_class": 3})]:
    options = {"max_detections": 4, "max_classes_per_detection": 1, "nms_score_threshold": 0.25, "nms_iou_threshold": 0.5, "num_classes": 3,
               "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0, **more}
    rows = 4 * options["max_classes_per_detection"]
    op("TFLite_Detection_PostProcess", [F([1, 6, 4], rnd([24], -1, 1)), F([1, 6, 4], rnd([24], 0, 1)), anchors], [O([1, rows, 4]), O([1, rows]), O([1, rows]), O([1])],
       custom=flex(**options), name=title)


def told(name, inputs, outputs, custom):
    """No runtime of ours knows the operator: the answer is by its formula, in NumPy."""
    m = Model()
    m.graph().op(m, name, inputs, outputs, custom=custom)
    m.graphs[0].outs = [t["_at"] for t in outputs]
    keep(name, m, answer=[t["_answer"] for t in outputs])


def answered(array):
    t = O(list(array.shape))
    t["_answer"] = array.astype(np.float32)
    return t


def argmax_pool(x, k, s):
    n, h, w, c = x.shape
    oh, ow = -(-h // s), -(-w // s)
    top, left = max((oh - 1) * s + k - h, 0) // 2, max((ow - 1) * s + k - w, 0) // 2
    y, at = np.zeros((n, oh, ow, c)), np.zeros((n, oh, ow, c))
    for i, j, ch in np.ndindex(oh, ow, c):
        best = None
        for a, b in np.ndindex(k, k):
            r, q = i * s - top + a, j * s - left + b
            if 0 <= r < h and 0 <= q < w and (best is None or x[0, r, q, ch] > best):
                best, place = x[0, r, q, ch], a * k + b
        y[0, i, j, ch], at[0, i, j, ch] = best, place + np.float32(0.1)
    return y, at


def unpool(y, at, k, s):
    n, h, w, c = y.shape
    top, left = max((h - 1) * s + k - h * k, 0) // 2, max((w - 1) * s + k - w * k, 0) // 2
    x = np.zeros((n, h * k, w * k, c))
    for i, j, ch in np.ndindex(h, w, c):
        place = int(at[0, i, j, ch])
        r, q = i * s - top + place // k, j * s - left + place % k
        if 0 <= r < h * k and 0 <= q < w * k:
            x[0, r, q, ch] = y[0, i, j, ch]
    return x


def pool_options(k, s):
    return struct.pack("<6i", 1, s, s, k, k, 0)


x = np.array(rnd([50]), np.float32).reshape(1, 5, 5, 2)
for k, s in [(2, 2), (3, 2)]:
    y, at = argmax_pool(x, k, s)
    told("MaxPoolingWithArgmax2D", [F([1, 5, 5, 2], x.reshape(-1).tolist())], [answered(y), answered(at)], pool_options(k, s))
t_x, t_w, t_b = np.array(rnd([12])).reshape(1, 2, 3, 2), np.array(rnd([36])).reshape(2, 3, 3, 2), np.array([0.5, -1])
spread = np.zeros((1, 5, 7, 2))
for i, j, a, b_, o in np.ndindex(2, 3, 3, 3, 2):
    spread[0, 2 * i + a, 2 * j + b_, o] += (t_x[0, i, j] * t_w[o, a, b_]).sum()
told("Convolution2DTransposeBias", [F([1, 2, 3, 2], t_x.reshape(-1).tolist()), C([2, 3, 3, 2], t_w.reshape(-1).tolist()), C([2], t_b.tolist())], [answered(spread + t_b)], struct.pack("<3i", 2, 2, 2))
y = np.array(rnd([12]), np.float32).reshape(1, 2, 3, 2)
at = np.array([0, 1, 2, 3, 3, 2, 1, 0, 9, 2, 0, 3], np.float32).reshape(1, 2, 3, 2) + np.float32(0.1)
told("MaxUnpooling2D", [F([1, 2, 3, 2], y.reshape(-1).tolist()), F([1, 2, 3, 2], [lite.number(v) for v in at.reshape(-1)])], [answered(unpool(y, at, 2, 2))], pool_options(2, 2))

marks = np.array(rnd([30], 20, 100), np.float32).reshape(1, 10, 3)
spec = dict(subset_idxs=[0, 3, 5, 7, 8, 9], left_rotation_idx=2, right_rotation_idx=6, target_rotation_radians=0.25, output_height=8, output_width=6, scale_x=1.5, scale_y=1.25)
l, r = marks[0, 2], marks[0, 6]
angle = 0.25 - math.atan2(r[1] - l[1], r[0] - l[0])
rotate = lambda a: np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
turned = marks[0, spec["subset_idxs"], :2] @ rotate(angle).T
high, low = turned.max(0), turned.min(0)
middle = rotate(-angle) @ ((high + low) / 2)
four = lambda m, shift: np.block([[m, np.zeros((2, 1)), np.array(shift).reshape(2, 1)], [np.zeros((2, 2)), np.eye(2)]])
scale = np.diag([1.5 * (high - low)[0] / 6, 1.25 * (high - low)[1] / 8])
matrix = four(np.eye(2), middle) @ four(rotate(-angle), [0, 0]) @ four(scale, [0, 0]) @ four(np.eye(2), [-3, -4])
told("Landmarks2TransformMatrix", [F([1, 10, 3], marks.reshape(-1).tolist())], [answered(matrix.reshape(1, 4, 4))], flex(**spec))
affine = np.array([[0.75, -0.25, 0, 1.5], [0.125, 0.5, 0, 0.25], [0, 0, 1, 0], [0, 0, 0, 1]], np.float32)
moved = marks.copy()
moved[0, :, :2] = marks[0, :, :2] @ affine[:2, :2].T + affine[:2, 3]
told("TransformLandmarks", [F([1, 10, 3], marks.reshape(-1).tolist()), F([1, 4, 4], affine.reshape(-1).tolist())], [answered(moved)], flex(dimensions=3))
picture = np.array(rnd([40]), np.float32).reshape(1, 4, 5, 2)
warped = np.zeros((1, 3, 4, 2))
for i, j in np.ndindex(3, 4):
    q, p = affine[0, 0] * (j + 0.5) + affine[0, 1] * (i + 0.5) + affine[0, 3] - 0.5, affine[1, 0] * (j + 0.5) + affine[1, 1] * (i + 0.5) + affine[1, 3] - 0.5
    if 0 <= q <= 4 and 0 <= p <= 3:
        q0, p0 = int(q), int(p)
        get = lambda a, b: picture[0, a, b] if a < 4 and b < 5 else np.zeros(2)
        fx, fy = q - q0, p - p0
        warped[0, i, j] = (1 - fy) * ((1 - fx) * get(p0, q0) + fx * get(p0, q0 + 1)) + fy * ((1 - fx) * get(p0 + 1, q0) + fx * get(p0 + 1, q0 + 1))
told("TransformTensorBilinear", [F([1, 4, 5, 2], picture.reshape(-1).tolist()), F([1, 4, 4], affine.reshape(-1).tolist())], [answered(warped)], flex(output_height=3, output_width=4))

for rank in [1, 2, 3]:
    filters = 4 * rank
    op("SVDF", [Q("int8", [2, 6], (1 / 64, -3)), T("int8", [filters, 6], rint([filters * 6], -127, 127), q=(1 / 128, 0)), T("int16", [filters, 5], rint([filters * 5], -3000, 3000), q=(1 / 4096, 0)),
                T("int32", [4], rint([4], -20000, 20000), q=(1 / (4096 * 4096), 0)), T("int16", [2, 5 * filters], var=True, q=(1 / 4096, 0))],
       [T("int8", [2, 4], q=(1 / 64, 5))], {"Rank": rank, "FusedActivationFunction": 1}, kind="SVDFOptions", name=f"int8 {rank}", tol=NEAR)


def integer_lstm(name, n_in=5, units=6, out=6, batch=2, steps=4, peephole=False, coupled=False, project=False, norm=False, biased=True, time_major=False, cell_clip=0.0, proj_clip=0.0, cell=11, h_zero=3, code="UNIDIRECTIONAL_SEQUENCE_LSTM"):
    """Data, weights and hidden state of 8 bits, a cell of 16: the answer is equal to the last bit."""
    shape = [batch, n_in] if code == "LSTM" else [steps, batch, n_in] if time_major else [batch, steps, n_in]
    gates = [None] * coupled + [1] * (4 - coupled)
    x_scale, w_scale, h_scale = 1 / 50, 1 / 150, 1 / 120
    w = lambda s: T("int8", s, rint(s, -127, 127), q=(w_scale * (0.75 + chance.random()), 0))
    ins = [Q("int8", shape, (x_scale, -7))] + [g and w([units, n_in]) for g in gates] + [g and w([units, out]) for g in gates]
    holes = [None if coupled else 1, 1, 1] if peephole else [None] * 3
    ins += [g and T("int16", [units], rint([units], -9000, 9000), q=(1 / 9000, 0)) for g in holes]
    ins += [g and (T("int32", [units], rint([units], -2000, 2000), q=(x_scale * w_scale, 0)) if not norm else T("int32", [units], rint([units], -2000000, 2000000), q=(1 / (1 << 22), 0))) for g in gates]
    ins += [w([out, units]) if project else None, T("int32", [out], rint([out], -900, 900), q=(w_scale * h_scale, 0)) if project and biased else None]
    ins += [T("int8", [batch, out], var=True, q=(h_scale, h_zero)), T("int16", [batch, units], var=True, q=(0.5**cell, 0))]
    ins += [g and T("int16", [units], rint([units], 9000, 32767), q=(1 / 16384, 0)) if norm else None for g in gates]
    between = [T("int16", [1], q=(1 / 2048 * (1 + i / 8), 0)) for i in range(4)] + [T("int8", [1], q=(1 / 125, 5) if project else (h_scale, h_zero))]
    y = shape[:-1] + [out]
    kind = "LSTMOptions" if code == "LSTM" else "UnidirectionalSequenceLSTMOptions"
    more = {"KernelType": 0} if code == "LSTM" else {"TimeMajor": time_major}
    op(code, ins, [T("int8", y, q=(h_scale, h_zero))], {"FusedActivationFunction": 4, "CellClip": cell_clip, "ProjClip": proj_clip, **more}, kind=kind, name=f"integers {name}".strip(), between=between)


integer_lstm("")
integer_lstm("time major", time_major=True)
integer_lstm("wide", n_in=17, units=19, out=19, batch=1, steps=3)
integer_lstm("small cell", cell=15, h_zero=-128)
integer_lstm("large cell", cell=9, steps=9)
integer_lstm("clipped", cell_clip=0.25)
integer_lstm("peephole", peephole=True)
integer_lstm("coupled", coupled=True)
integer_lstm("coupled peephole", coupled=True, peephole=True)
integer_lstm("projection", project=True, out=3)
integer_lstm("projection clipped", project=True, out=9, biased=False, cell_clip=0.5, proj_clip=0.25)
integer_lstm("norm", norm=True)
integer_lstm("norm wide", norm=True, n_in=7, units=21, out=21)
integer_lstm("norm coupled", norm=True, coupled=True)
integer_lstm("norm projection peephole", norm=True, project=True, peephole=True)  # out = units: else the interpreter reads holes of other units
integer_lstm("full", code="LSTM")
integer_lstm("full norm projection", code="LSTM", norm=True, project=True, out=4)

wide = [-32768, -20001, -9000, -3500, -900, -130, -1, 0, 1, 2, 127, 128, 129, 700, 4097, 8000, 12345, 20000, 32767]
some = [4000, 4500, 5003, 7000, 9001, 15000, 20000, 32767]
for code, scale, out, feed, options in [("LOGISTIC", 3.1e-4, 1 / 32768, wide, None), ("LOGISTIC", 1.1e-5, 1 / 32768, wide, None), ("TANH", 2.3e-4, 1 / 32768, wide, None), ("TANH", 1 / 2048, 1 / 32768, wide, None),
                                        ("EXP", 1e-4, 1e-3, wide, None), ("LOG", 3e-4, 1e-4, some, None), ("GELU", 1e-4, 1e-4, wide, {"Approximate": False}), ("GELU", 2e-4, 2e-4, wide, {"Approximate": True}),
                                        ("LEAKY_RELU", 1e-4, 1.1e-4, wide, {"Alpha": 0.3})]:
    op(code, [Q("int16", [len(feed)], (scale, 0), feed)], [T("int16", [len(feed)], q=(out, 0))], options, name=f"int16 {scale:g} {options and list(options.values())[0] or ''}".strip())
op("RSQRT", [Q("int16", [len(some)], (3e-4, 0), some)], [T("int16", [len(some)], q=(1e-4, 0))], name="int16", tol=NEAR)


def both_ways(name, more=None, hybrid=False, asymmetric=False, coupled=False, project=False, peephole=False, merge=True, time_major=True, n_in=3, units=3, batch=2, steps=4):
    """more: "instead", data of the second direction; "besides", data of both with weights of its own."""
    shape = [steps, batch, n_in] if time_major else [batch, steps, n_in]
    out = units + 1 if project else units
    w = lambda s: T("int8", s, rint(s, -100, 100), q=(1 / 128, 0)) if hybrid else W(s)
    gates = [None] * coupled + [1] * (4 - coupled)
    ins = [F(shape)]
    for _ in range(2):
        ins += [g and w([units, n_in]) for g in gates] + [g and w([units, out]) for g in gates]
        ins += [C([units]) if peephole and (i > 0 or not coupled) else None for i in range(3)] + [g and C([units]) for g in gates]
        ins += [w([out, units]), C([out])] if project else [None] * 2
    for _ in range(2):
        ins += [T("float32", [batch, out], var=True), T("float32", [batch, units], var=True)]
    width = n_in + 2 if more == "besides" else n_in
    ins += [F(shape[:2] + [width]) if more else None] + [w([units, width]) if g and more == "besides" else None for _ in range(2) for g in gates]
    op("BIDIRECTIONAL_SEQUENCE_LSTM", ins, [O(shape[:2] + [2 * out])] if merge else [O(shape[:2] + [out]), O(shape[:2] + [out])],
       {"FusedActivationFunction": 4, "CellClip": 0.0, "ProjClip": 0.0, "MergeOutputs": merge, "TimeMajor": time_major, "AsymmetricQuantizeInputs": asymmetric},
       kind="BidirectionalSequenceLSTMOptions", name=name, tol=HYBRID if hybrid else None)


both_ways("hybrid", hybrid=True, merge=False, time_major=False)
both_ways("hybrid asymmetric", hybrid=True, asymmetric=True)
both_ways("hybrid coupled projection", hybrid=True, coupled=True, project=True)
both_ways("coupled peephole", coupled=True, peephole=True)
both_ways("projection", project=True, merge=False, time_major=False)
both_ways("data instead", more="instead")
both_ways("data besides", more="besides")
both_ways("data besides coupled", more="besides", coupled=True, merge=False, time_major=False)
both_ways("data besides hybrid", more="besides", hybrid=True)


def basic_integers(name, n_in, units, batch, scale, zero=125):
    """Bytes without a sign, sums and cell of 16 bits."""
    data = lambda s: Q("uint8", s, (1 / 128, 128))
    weights = T("uint8", [4 * units, n_in + units], rint([4 * units * (n_in + units)], 0, 255), q=(scale * 128, zero))
    ins = [data([batch, n_in]), data([batch, units]), weights, T("int32", [4 * units], rint([4 * units], -9000, 9000), q=(scale, 0)), Q("int16", [batch, units], (2**-11, 0), rint([batch * units], -9000, 9000))]
    outs = [T("uint8", [batch, units], q=(1 / 128, 128)), T("int16", [batch, units], q=(2**-11, 0)), T("uint8", [batch, n_in + units], q=(1 / 128, 128)), T("int16", [batch, 4 * units], q=(2**-12, 0))]
    op("LSTM", ins, outs, {"FusedActivationFunction": 4, "CellClip": 0.0, "ProjClip": 0.0, "KernelType": 1}, kind="LSTMOptions", name=name)


basic_integers("basic integers", 3, 2, 2, 1 / 12800)
basic_integers("basic integers wide", 17, 24, 3, 1 / 12800, 97)
basic_integers("basic integers large sums", 5, 8, 1, 1 / 2000)

for align, half in [(False, False), (True, False), (False, True)]:  # lengths of which quotients of floats miss whole numbers
    op("RESIZE_NEAREST_NEIGHBOR", [F([1, 14, 7, 1]), I(4, 12)], [O([1, 4, 12, 1])], {"AlignCorners": align, "HalfPixelCenters": half}, kind="ResizeNearestNeighborOptions", name=f"14 x 7 {align} {half}")

lite.save(sys.argv[1])
