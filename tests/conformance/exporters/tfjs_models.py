"""What make_tfjs.py converts: functions() of TensorFlow as {family: {name: (body, specs, feed)}}, and stacks(L) of layers, for Keras 2 and Keras 3 alike."""

import numpy as np
import tensorflow as tf

F32, I32 = tf.float32, tf.int32
S = tf.TensorSpec


def boxes(rng, spec):
    """[n, 4] boxes with corners in order; other shapes as drawn."""
    shape = [5 if d is None else d for d in spec.shape]
    if spec.dtype == I32:
        return rng.integers(0, 4, shape).astype("int32")
    if len(shape) == 2 and shape[1] == 4:
        low = rng.uniform(0, 0.6, (shape[0], 2))
        return np.concatenate([low, low + rng.uniform(0.1, 0.4, low.shape)], 1).astype("float32")
    return rng.uniform(0, 1, shape).astype("float32")


def held(*shape):
    """A constant: weights of a model."""
    return tf.constant(np.random.default_rng(7).normal(size=shape).astype("float32"))


def table(keys, values, default):
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default)


WORDS = ["the quick brown fox", "jumps  over", "", "lazy dogs, and cats", "a", "Zebra-crossing 12 34"]


def texts(i):
    return tf.gather(tf.constant(WORDS), i)


def hashed(x, buckets=1000003):
    return tf.strings.to_hash_bucket_fast(x, buckets)


def split(i):
    parts = tf.raw_ops.StringSplit(input=texts(i), delimiter=" ", skip_empty=True)
    return parts.indices, hashed(parts.values), parts.shape


def split_all(i):
    parts = tf.raw_ops.StringSplit(input=texts(i), delimiter=" ,", skip_empty=False)
    return parts.indices, hashed(parts.values), parts.shape


def grams(i, widths, **more):
    parts = tf.raw_ops.StringSplit(input=texts(i), delimiter=" ", skip_empty=True)
    n = tf.size(i)
    rows = tf.cast(parts.indices[:, 0], I32)
    splits = tf.searchsorted(rows, tf.range(n + 1))
    made = tf.raw_ops.StringNGrams(
        data=parts.values, data_splits=splits, separator="_", ngram_widths=widths,
        left_pad=more.get("pad", ""), right_pad=more.get("pad", ""), pad_width=more.get("width", 0),
        preserve_short_sequences=more.get("short", False),
    )
    return hashed(made.ngrams), made.ngrams_splits


def words_table():
    t = table(tf.constant(["fox", "dogs,", "a", "over"]), tf.constant([7, 8, 9, 10]), -1)

    def body(i):
        parts = tf.raw_ops.StringSplit(input=texts(i), delimiter=" ", skip_empty=True)
        return t.lookup(parts.values), t.size()

    return body, t


def numbers_table():
    t = table(tf.constant([1, 3, 2]), tf.constant([0.5, -1.5, 2.25]), 9.0)
    return (lambda i: t.lookup(i)), t


def control():
    def collatz(n):
        return tf.while_loop(
            lambda n, i: n > 1, lambda n, i: (tf.where(n % 2 == 0, n // 2, 3 * n + 1), i + 1), [n, 0]
        )

    def nested(x):
        def row(i, a):
            return i + 1, tf.while_loop(lambda k, a: k < 3, lambda k, a: (k + 1, a + tf.cast(k * i, F32)), [0, a])[1]

        return tf.while_loop(lambda i, a: i < 4, row, [0, x])[1]

    def early(x):
        return tf.cond(x[0] > 0, lambda: tf.cond(x[1] > 0, lambda: x + 1, lambda: x * 2), lambda: -x)

    def cases(i):
        return tf.switch_case(i, [lambda: tf.constant([1.0, 2.0]), lambda: tf.constant([3.0, 4.0])], lambda: tf.constant([5.0, 6.0]))

    def picks(x):
        items = tf.TensorArray(F32, 0, dynamic_size=True)
        for i in tf.range(tf.shape(x)[0]):
            items = items.write(i, tf.nn.softmax(x[i] * tf.cast(i + 1, F32)))
        return items.stack()

    def fold(x):
        return tf.foldl(lambda a, r: a * 0.5 + r, x), tf.foldr(lambda a, r: a - r, x)

    def beam(x):
        def step(i, seq, score):
            logits = tf.matmul(tf.one_hot(seq[:, -1], 5), x) + score
            best = tf.argmax(logits, 1, output_type=I32)
            return i + 1, tf.concat([seq, best[:, None]], 1), score * 0.9

        shapes = [tf.TensorShape([]), tf.TensorShape([2, None]), tf.TensorShape([])]
        return tf.while_loop(lambda i, *_: i < 4, step, [0, tf.constant([[0], [1]]), 0.1], shape_invariants=shapes)[1]

    return {
        "collatz": (collatz, [S([], I32)]),
        "nested": (nested, [S([3], F32)]),
        "early": (early, [S([3], F32)]),
        "cases": (cases, [S([], I32)]),
        "picks": (picks, [S([None, 3], F32)]),
        "fold": (fold, [S([4, 3], F32)]),
        "beam": (beam, [S([5, 5], F32)]),
        "mapped_two": (lambda a, b: tf.map_fn(lambda t: t[0] * 2 + t[1], (a, b), fn_output_signature=F32), [S([4, 3], F32), S([4, 3], F32)]),
    }


def functions():
    out = {}

    def add(family, **rows):
        for name, row in rows.items():
            out.setdefault(family, {})[name] = row if len(row) > 2 else (*row, None)

    six = [S([6], I32)]
    feed = lambda rng, spec: rng.permutation(6).astype("int32")
    add(
        "strings",
        hash=(lambda i: hashed(texts(i)), six, feed),
        hash_few=(lambda i: hashed(texts(i), 7), six, feed),
        split=(split, six, feed),
        split_all=(split_all, six, feed),
        replace=(lambda i: hashed(tf.strings.regex_replace(texts(i), "[aeiou]+", "#")), six, feed),
        replace_one=(lambda i: hashed(tf.strings.regex_replace(texts(i), "o|\\s", "", replace_global=False)), six, feed),
        digits=(lambda i: hashed(tf.strings.regex_replace(texts(i), "\\d", "9")), six, feed),
        bigrams=(lambda i: grams(i, [2]), six, feed),
        padded=(lambda i: grams(i, [2, 3], pad="|", width=1), six, feed),
        full_pad=(lambda i: grams(i, [3], pad="<>", width=-1), six, feed),
        short=(lambda i: grams(i, [4], short=True), six, feed),
    )
    add("lookup", words=(*words_table(), six, feed), numbers=(*numbers_table(), six, feed))
    out["lookup"] = {n: (r[0], r[2], r[3], r[1]) for n, r in out["lookup"].items()}
    add("control", **control())
    add(
        "detection",
        nms=(lambda b, s: tf.image.non_max_suppression(b, s, 4, 0.4), [S([9, 4], F32), S([9], F32)], boxes),
        nms_score=(lambda b, s: tf.image.non_max_suppression(b, s, 4, 0.4, 0.3), [S([9, 4], F32), S([9], F32)], boxes),
        nms_soft=(lambda b, s: tf.image.non_max_suppression_with_scores(b, s, 5, 0.5, 0.1, 0.5), [S([9, 4], F32), S([9], F32)], boxes),
        nms_padded=(lambda b, s: tf.image.non_max_suppression_padded(b, s, 6, 0.4, 0.2, pad_to_max_output_size=True), [S([9, 4], F32), S([9], F32)], boxes),
        crops=(lambda x, b, i: tf.image.crop_and_resize(x, b, i, [5, 7]), [S([4, 8, 9, 2], F32), S([3, 4], F32), S([3], I32)], boxes),
    )
    add(
        "image",
        resize=(lambda x: (tf.image.resize(x, [9, 4]), tf.image.resize(x, [5, 12], "nearest")), [S([1, 6, 7, 3], F32)]),
        resize_old=(lambda x: tf.compat.v1.image.resize_bilinear(x, [9, 11], align_corners=True), [S([1, 6, 7, 3], F32)]),
        flips=(lambda x: (tf.image.flip_left_right(x), tf.image.flip_up_down(x), tf.image.rot90(x)), [S([1, 4, 5, 3], F32)]),
        colours=(lambda x: (tf.image.rgb_to_grayscale(x), tf.image.grayscale_to_rgb(x[..., :1])), [S([1, 4, 5, 3], F32)]),
        levels=(lambda x: tf.clip_by_value(tf.image.adjust_brightness(x, 0.1), 0.0, 1.0), [S([1, 4, 5, 3], F32)]),
        patches=(lambda x: tf.image.pad_to_bounding_box(tf.image.crop_to_bounding_box(x, 1, 1, 3, 2), 1, 2, 6, 7), [S([1, 5, 6, 2], F32)]),
        depth=(lambda x: (tf.nn.depth_to_space(x, 2), tf.nn.space_to_batch(x, [2, 2], [[0, 0], [1, 1]])), [S([1, 4, 6, 8], F32)]),
        pools=(lambda x: (tf.nn.max_pool2d(x, 3, 2, "SAME"), tf.nn.avg_pool2d(x, 2, 1, "VALID"), *tf.nn.max_pool_with_argmax(x, 2, 2, "SAME")), [S([1, 7, 8, 3], F32)]),
        groups=(lambda x: tf.nn.conv2d(x, held(3, 3, 2, 8), 1, "SAME"), [S([1, 6, 6, 4], F32)]),
        morph=(lambda x: tf.nn.dilation2d(x, held(3, 3, 3), [1, 2, 2, 1], "SAME", "NHWC", [1, 1, 1, 1]), [S([1, 7, 8, 3], F32)]),
        turned=(lambda x: tf.nn.conv2d_transpose(x, held(3, 3, 2, 3), [1, 12, 14, 2], 2, "SAME"), [S([1, 6, 7, 3], F32)]),
        deep=(lambda x: tf.nn.depthwise_conv2d(x, held(3, 3, 3, 2), [1, 1, 1, 1], "SAME", dilations=[2, 2]), [S([1, 9, 8, 3], F32)]),
        solid=(lambda x: tf.nn.conv3d(x, held(2, 3, 2, 2, 3), [1, 1, 1, 1, 1], "SAME"), [S([1, 4, 5, 6, 2], F32)]),
    )
    add(
        "sparse",
        dense=(lambda i, v: tf.sparse.to_dense(tf.SparseTensor(tf.cast([[0, 1], [2, 0], [3, 3]], tf.int64), v, [4, 5]), default_value=-1.0), [S([], I32), S([3], F32)]),
        reshape=(lambda v: tf.sparse.reshape(tf.SparseTensor([[0, 1], [2, 0], [3, 3]], v, [4, 6]), [-1, 3]).indices, [S([3], F32)]),
        fill_rows=(lambda v: tf.sparse.fill_empty_rows(tf.SparseTensor([[0, 1], [2, 0], [2, 3]], v, [4, 6]), 0.5)[0].values, [S([3], F32)]),
        segments=(lambda x: (tf.sparse.segment_sum(x, [0, 2, 3], [0, 0, 1]), tf.sparse.segment_mean(x, [0, 2, 3], [0, 0, 2])), [S([5, 3], F32)]),
        counts=(lambda i: (tf.math.bincount(i, minlength=6, maxlength=6), tf.math.bincount(i, minlength=4, maxlength=4, binary_output=True)), [S([7], I32)]),
        scatters=(lambda x: (tf.tensor_scatter_nd_update(x, [[1], [3]], x[:2]), tf.scatter_nd([[1], [3], [1]], x[:3], [5, 4])), [S([5, 4], F32)]),
        embedding=(
            lambda i: tf.nn.embedding_lookup_sparse(
                tf.constant(np.arange(24, dtype="float32").reshape(6, 4)),
                tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.cast(i, tf.int64), [3, 2]), None, combiner="mean"),
            [S([3], I32)],
        ),
        search=(lambda x: (tf.searchsorted([[0.0, 1.0, 2.0, 3.0]] * 2, x), tf.searchsorted([[0.0, 1.0, 2.0, 3.0]] * 2, x, "right")), [S([2, 3], F32)]),
    )
    add(
        "random",
        uniform=(lambda x: tf.random.uniform([2, 3], -1.0, 3.0, seed=5) * 0 + x, [S([2, 3], F32)]),
        normal=(lambda x: tf.raw_ops.RandomStandardNormal(shape=[3, 5], dtype=F32, seed=3, seed2=7) + x, [S([], F32)]),
        cut=(lambda x: tf.raw_ops.TruncatedNormal(shape=[3, 5], dtype=F32, seed=3, seed2=7) + x, [S([], F32)]),
        open=(lambda x: tf.raw_ops.RandomStandardNormal(shape=tf.shape(x), dtype=F32, seed=4, seed2=1) + x, [S([None, 3], F32)]),
        draws=(lambda x: tf.raw_ops.Multinomial(logits=x, num_samples=8, seed=9, seed2=2), [S([2, 4], F32)]),
    )
    add(
        "math",
        fft=(lambda x: tf.abs(tf.signal.fft(tf.complex(x, x * 0.5))), [S([2, 16], F32)]),
        rfft=(lambda x: (tf.math.real(tf.signal.rfft(x)), tf.math.imag(tf.signal.rfft(x))), [S([2, 20], F32)]),
        round_trip=(lambda x: tf.signal.irfft(tf.signal.rfft(x)), [S([2, 32], F32)]),
        dct=(lambda x: (tf.signal.dct(x), tf.signal.idct(x)), [S([2, 16], F32)]),
        complex_casts=(lambda x: tf.math.imag(tf.signal.fft(tf.cast(x, tf.complex64) * tf.constant(0.5 + 1j, tf.complex64))), [S([2, 16], F32)]),
        complexes=(lambda a, b: tf.math.real(tf.complex(a, b) * tf.complex(b, a) + tf.complex(a, a)), [S([4], F32), S([4], F32)]),
        einsums=(lambda a, b: (tf.einsum("bij,bjk->bik", a, b), tf.einsum("bij,bjk->ki", a, b), tf.einsum("bii->b", a)), [S([2, 3, 3], F32), S([2, 3, 4], F32)]),
        whole=(lambda x: (x // 3, x % 3, tf.bitwise.bitwise_and(x, 5), -x, abs(x - 3), tf.cast(x, F32) / 2), [S([6], I32)]),
        steps=(lambda x: (tf.cumsum(x, 1, reverse=True), tf.math.cumprod(x, 0, exclusive=True), tf.linspace(0.0, 1.0, 5) + x[0, 0]), [S([3, 4], F32)]),
        odd=(lambda x: (tf.math.divide_no_nan(x, tf.round(x)), tf.math.atan2(x, x + 1), tf.math.erf(x), tf.math.expm1(x), tf.math.softplus(x), tf.sign(x)), [S([3, 4], F32)]),
        arg=(lambda x: (tf.argmax(x, 1), tf.argmin(x, 0), *tf.math.top_k(x, 2)), [S([3, 4], F32)]),
        norms=(lambda x: (tf.nn.l2_normalize(x, 1), tf.norm(x), tf.math.reduce_std(x, 0), tf.nn.log_softmax(x), tf.nn.moments(x, [0])[1]), [S([3, 4], F32)]),
        band=(lambda x: (tf.linalg.band_part(x, 1, 0), tf.eye(3) * x[0, 0]), [S([4, 4], F32)]),
        inverse=(lambda x: tf.nn.batch_normalization(x, x[0], abs(x[1]) + 1, x[2], x[0], 1e-3), [S([3, 4], F32)]),
        wheres=(lambda x: (tf.where(x > 0), tf.boolean_mask(x, x > 0), tf.unique(tf.cast(x[0] * 2, I32))[0]), [S([3, 4], F32)]),
        meshes=(lambda x: tf.stack(tf.meshgrid(x, x * 2, indexing="ij")), [S([4], F32)]),
        repeats=(lambda x: (tf.repeat(x, [1, 2, 0], axis=0), tf.tile(x, [2, 1]), tf.reverse(x, [0])), [S([3, 4], F32)]),
        slices=(lambda x, i: (x[i], x[:, i : i + 2], x[..., None, -1], tf.slice(x, [0, 1], [2, -1])), [S([4, 5], F32), S([], I32)]),
    )
    return out


def stacks(L, K, keras3):
    """{name: make}: a model of every layer that both have, small."""

    def line(shape, *layers):
        def make():
            x = first = K.Input(shape)
            for layer in layers:
                x = layer()(x) if callable(layer) and not hasattr(layer, "call") else layer(x)
            return K.Model(first, x)

        return make

    alpha = "negative_slope" if keras3 else "alpha"
    out = {
        "mlp": line((8,), lambda: L.Dense(6, "relu"), lambda: L.BatchNormalization(), lambda: L.Dropout(0.3), lambda: L.Dense(3, "softmax")),
        "cnn": line((10, 10, 3), lambda: L.Conv2D(4, 3, padding="same", activation="relu"), lambda: L.MaxPooling2D(), lambda: L.SeparableConv2D(5, 3), lambda: L.GlobalAveragePooling2D(), lambda: L.Dense(3)),
        "depth": line((9, 9, 2), lambda: L.DepthwiseConv2D(3, 2, depth_multiplier=2), lambda: L.Conv2DTranspose(3, 3, 2), lambda: L.AveragePooling2D(2), lambda: L.Flatten()),
        "line": line((12, 3), lambda: L.Conv1D(4, 3, dilation_rate=2, padding="causal"), lambda: L.MaxPooling1D(2), lambda: L.UpSampling1D(2), lambda: L.ZeroPadding1D(1), lambda: L.Cropping1D(1), lambda: L.GlobalMaxPooling1D()),
        "separable1": line((12, 3), lambda: L.SeparableConv1D(4, 3), lambda: L.AveragePooling1D(2), lambda: L.GlobalAveragePooling1D()),
        "depthwise1": line((12, 3), lambda: L.DepthwiseConv1D(3), lambda: L.Conv1DTranspose(2, 3, 2)),
        "solid": line((4, 6, 6, 2), lambda: L.Conv3D(3, 2), lambda: L.MaxPooling3D(2, 1), lambda: L.UpSampling3D(2), lambda: L.AveragePooling3D(2), lambda: L.GlobalAveragePooling3D()),
        "solid_turned": line((2, 3, 3, 2), lambda: L.Conv3DTranspose(2, 2, 2), lambda: L.Cropping3D(1), lambda: L.ZeroPadding3D(1), lambda: L.GlobalMaxPooling3D()),
        "shapes": line((4, 6), lambda: L.Reshape((3, 8)), lambda: L.Permute((2, 1)), lambda: L.Flatten(), lambda: L.RepeatVector(2)),
        "scaled": line((6, 5, 3), lambda: L.UpSampling2D(2), lambda: L.UpSampling2D((1, 2), interpolation="bilinear"), lambda: L.ZeroPadding2D(1), lambda: L.Cropping2D(((1, 0), (0, 2))), lambda: L.Rescaling(1 / 127.5, -1.0), lambda: L.CenterCrop(4, 4)),
        "norms": line((6, 8), lambda: L.LayerNormalization(), lambda: L.Dense(8), lambda: L.UnitNormalization()),
        "group_norm": line((6, 6, 8), lambda: L.GroupNormalization(4), lambda: L.LayerNormalization(axis=[1, 2])),
        "noise": line((6,), lambda: L.GaussianNoise(0.1), lambda: L.GaussianDropout(0.1), lambda: L.AlphaDropout(0.1), lambda: L.ActivityRegularization(0.1), lambda: L.Dense(2)),
        "spatial": line((4, 4, 3), lambda: L.SpatialDropout2D(0.2), lambda: L.PReLU(shared_axes=[1, 2]), lambda: L.LeakyReLU(**{alpha: 0.2}), lambda: L.ELU(), lambda: L.ReLU(3.0, 0.1, 0.5), lambda: L.Softmax()),
        "lstm": line((5, 4), lambda: L.LSTM(6, return_sequences=True), lambda: L.LSTM(3)),
        "gru": line((5, 4), lambda: L.GRU(6, return_sequences=True), lambda: L.GRU(3, reset_after=False)),
        "rnn": line((5, 4), lambda: L.SimpleRNN(6, return_sequences=True, go_backwards=True), lambda: L.SimpleRNN(3)),
        "both": line((5, 4), lambda: L.Bidirectional(L.LSTM(3, return_sequences=True)), lambda: L.Bidirectional(L.GRU(2), merge_mode="sum")),
        "cells": line((5, 4), lambda: L.RNN([L.LSTMCell(4), L.GRUCell(3)])),
        "cell": line((5, 4), lambda: L.RNN(L.SimpleRNNCell(4), return_sequences=True)),
        "masked": line((5, 4), lambda: L.Masking(0.0), lambda: L.LSTM(4)),
        "timed": line((5, 4), lambda: L.TimeDistributed(L.Dense(3, "relu")), lambda: L.TimeDistributed(L.LayerNormalization())),
        "conv_lstm": line((3, 5, 5, 2), lambda: L.ConvLSTM2D(3, 3, padding="same", return_sequences=True), lambda: L.ConvLSTM2D(2, 2)),
        "identity": line((5,), lambda: L.Activation("linear"), lambda: L.Identity(), lambda: L.Dense(2, use_bias=False)),
        "encoding": line((3,), lambda: L.CategoryEncoding(6, "multi_hot")),
    }
    for group in ("elu selu gelu swish sigmoid tanh softplus softsign exponential mish", "relu relu6 hard_sigmoid linear softmax log_softmax leaky_relu"):
        for name in group.split():
            if name in dir(K.activations):
                out["act_" + name] = line((7,), lambda name=name: L.Dense(7, name), lambda name=name: L.Activation(name))

    def embedded():
        x = first = K.Input((6,), dtype="int32")
        x = L.Embedding(10, 4, mask_zero=True)(x)
        return K.Model(first, L.Dense(2)(L.LSTM(4)(x)))

    def merged():
        a, b = K.Input((6,)), K.Input((6,))
        kinds = [L.Add(), L.Subtract(), L.Multiply(), L.Average(), L.Maximum(), L.Minimum(), L.Concatenate(), L.Dot(1)]
        return K.Model([a, b], [kind([a, b]) for kind in kinds])

    def residual():
        x = first = K.Input((8, 8, 4))
        for _ in range(2):
            y = L.Conv2D(4, 3, padding="same", use_bias=False)(x)
            x = L.ReLU()(L.Add()([x, L.BatchNormalization()(y)]))
        return K.Model(first, L.Dense(3)(L.GlobalMaxPooling2D(keepdims=False)(x)))

    def shared():
        a, b, dense = K.Input((4,)), K.Input((4,)), L.Dense(3, "tanh")
        return K.Model([a, b], L.Concatenate()([dense(a), dense(b)]))

    def nested():
        inner_in = K.Input((4,))
        inner = K.Model(inner_in, L.Dense(3, "relu")(inner_in))
        first = K.Input((4,))
        seq = K.Sequential([K.Input((3,)), L.Dense(5), L.Dense(2)])
        return K.Model(first, seq(inner(first)))

    def sequential():
        return K.Sequential([K.Input((4,)), L.Dense(5, "relu"), L.Dense(2)])

    def states():
        a = K.Input((5, 4))
        _, h, c = L.LSTM(3, return_state=True)(a)
        b = K.Input((2, 4))
        return K.Model([a, b], L.LSTM(3, return_sequences=True)(b, initial_state=[h, c]))

    def attention():
        a = K.Input((5, 8))
        return K.Model(a, L.MultiHeadAttention(2, 4)(a, a))

    def attentions():
        a, b = K.Input((5, 8)), K.Input((6, 8))
        return K.Model([a, b], [L.Attention()([a, b]), L.AdditiveAttention()([a, b])])

    out.update(embedded=embedded, merged=merged, residual=residual, shared=shared, nested=nested, sequential=sequential, states=states, attention=attention, attentions=attentions)
    return out
