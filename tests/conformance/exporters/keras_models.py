"""What make_keras.py converts: FAMILIES = {family: {name: (make, modes)}}. make() gives a Keras model, or a Function of tensors of given shapes."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers as L

import list_models

F32, I32, I64 = tf.float32, tf.int32, tf.int64
FLOAT = ("float",)
SOME = ("float", "dynamic", "int8")
ALL = ("float", "dynamic", "float16", "int8", "int16")
LISTS = ("float", "lists")
FAMILIES = {}


class Function:
    """body over tensors of `specs` [(shape, dtype)]; feed(rng): inputs, where random ones of that shape will not do."""

    def __init__(self, body, *specs, feed=None):
        self.body, self.feed = body, feed
        self.specs = [tf.TensorSpec(shape, dtype) for shape, dtype in specs]


class Saved(Function):
    """A model of Keras 2: goes through a folder."""

    def __init__(self, model, *specs):
        super().__init__(lambda x: model(x), *specs)
        self.model = model


class Entries:
    """A module with several entry points: each is a case."""

    def __init__(self, module, names):
        self.module, self.names = module, names


class Steps:
    """A model that keeps a variable, equal to its output: runs one after the other."""

    def __init__(self, model, count):
        self.model, self.count = model, count


def add(family, modes, **makes):
    for name, make in makes.items():
        FAMILIES.setdefault(family, {})[name] = (make, modes)


def layers(shape, *chain, batch=None, dtype=None):
    """One input of `shape`, the layers one after the other."""
    x = first = keras.Input(shape, batch_size=batch, dtype=dtype)
    for layer in chain:
        x = layer(x)
    return keras.Model(first, x)


def function(family, modes=FLOAT, feed=None, **bodies):
    for name, (body, *specs) in bodies.items():
        add(family, modes, **{name: lambda b=body, s=specs: Function(b, *s, feed=feed)})


# ---- dense and activations ----

add("dense", ALL, mlp=lambda: layers((16,), L.Dense(32, "relu"), L.BatchNormalization(), L.Dense(10, "softmax")))
add(
    "dense",
    SOME,
    rank3=lambda: layers((5, 16), L.Dense(8, "relu"), L.Dense(4)),
    rank4=lambda: layers((3, 5, 16), L.Dense(8, "gelu"), L.Dense(4)),
    rank3_open=lambda: layers((None, 16), L.Dense(8, "relu"), L.Dense(4)),
    rank4_open=lambda: layers((None, None, 16), L.Dense(8, "relu"), L.Dense(4)),
)


def activations(names):
    x = keras.Input((12,))
    return keras.Model(x, [L.Activation(name)(L.Dense(12)(x)) for name in names.split()])


add(
    "dense",
    ("float", "dynamic"),
    smooth=lambda: activations("elu selu gelu swish sigmoid tanh softplus softsign exponential mish celu log_sigmoid"),
    pieces=lambda: activations("relu relu6 hard_sigmoid leaky_relu hard_silu soft_shrink hard_shrink hard_tanh"),
)
add("dense", SOME, prelu=lambda: layers((8, 8, 4), L.Conv2D(4, 3), L.PReLU(shared_axes=[1, 2]), L.ReLU(3.0, 0.1, 0.5)))


# ---- convolutions and pictures ----

add(
    "conv",
    ALL,
    plain=lambda: layers(
        (16, 16, 3), L.Conv2D(8, 3, padding="same", activation="relu"), L.MaxPooling2D(), L.Conv2D(9, 3, 2), L.ReLU(6.0),
        L.GlobalAveragePooling2D(), L.Dense(5),
    ),
    turned=lambda: layers((7, 7, 4), L.Conv2DTranspose(6, 3, 2, padding="same"), L.Conv2DTranspose(2, 4, 2)),
)
add(
    "conv",
    SOME,
    depthwise=lambda: layers(
        (15, 15, 4), L.DepthwiseConv2D(3, padding="same", depth_multiplier=2), L.SeparableConv2D(6, 3, dilation_rate=2),
        L.AveragePooling2D(3, 2, padding="same"), L.Flatten(), L.Dense(3),
    ),
    dilated=lambda: layers((16, 16, 3), L.Conv2D(4, 3, dilation_rate=3, padding="same"), L.Conv2D(4, 3, dilation_rate=2)),
    groups=lambda: layers((12, 12, 8), L.Conv2D(8, 3, groups=4, activation="relu")),
    turned_open=lambda: layers((None, None, 4), L.Conv2DTranspose(6, 3, 2, padding="same"), L.Conv2D(2, 1)),
    turned_valid_open=lambda: layers((None, None, 3), L.Conv2DTranspose(4, 5, 3, activation="relu")),
    open=lambda: layers(
        (None, None, 3), L.Conv2D(8, 3, padding="same"), L.MaxPooling2D(), L.DepthwiseConv2D(3, 2, padding="same"),
        L.GlobalAveragePooling2D(), L.Dense(4),
    ),
    line=lambda: layers(
        (20, 6), L.Conv1D(8, 5, padding="causal", dilation_rate=2), L.MaxPooling1D(2), L.SeparableConv1D(4, 3),
        L.GlobalMaxPooling1D(),
    ),
    line_turned=lambda: layers((10, 4), L.Conv1DTranspose(5, 3, 2, padding="same")),
    scaled=lambda: layers(
        (6, 5, 3), L.UpSampling2D(2), L.UpSampling2D((2, 3), interpolation="bilinear"), L.ZeroPadding2D(1),
        L.Cropping2D(((1, 0), (0, 2))), L.Resizing(7, 9), L.Rescaling(1 / 127.5, -1.0),
    ),
)
add("conv", ("int8", "int16"), resized=lambda: layers((6, 5, 3), L.Resizing(7, 9), L.Conv2D(4, 3)))
add(
    "conv",
    FLOAT,
    solid=lambda: layers((6, 8, 8, 2), L.Conv3D(4, 3, padding="same", activation="relu"), L.Conv3D(3, 2, 2)),
    solid_turned=lambda: layers((3, 4, 4, 2), L.Conv3DTranspose(3, 3, 2)),
)


def mobile():
    x = first = keras.Input((16, 16, 3))
    x = L.BatchNormalization()(L.Conv2D(8, 3, 2, padding="same", use_bias=False)(x))
    y = L.Activation("hard_silu")(L.DepthwiseConv2D(3, padding="same")(L.Activation("swish")(x)))
    s = L.Conv2D(2, 1, activation="relu")(L.GlobalAveragePooling2D(keepdims=True)(y))
    y = L.Multiply()([y, L.Conv2D(8, 1, activation="hard_sigmoid")(s)])
    return keras.Model(first, L.Add()([x, L.Conv2D(8, 1)(y)]))


def unet():
    first = keras.Input((16, 16, 3))
    a = L.Conv2D(4, 3, padding="same", activation="relu")(first)
    b = L.Conv2D(8, 3, padding="same", activation="relu")(L.MaxPooling2D()(a))
    return keras.Model(first, L.Conv2D(2, 1, activation="sigmoid")(L.Concatenate()([a, L.Conv2DTranspose(4, 2, 2)(b)])))


add("conv", ALL, mobile=mobile, unet=unet)


# ---- merging, normalising, attending ----

def merge():
    a, b = keras.Input((8,)), keras.Input((8,))
    kinds = [L.Add(), L.Subtract(), L.Multiply(), L.Average(), L.Maximum(), L.Minimum(), L.Concatenate(), L.Dot(1)]
    return keras.Model([a, b], [kind([a, b]) for kind in kinds])


add(
    "shape",
    SOME,
    merge=merge,
    turns=lambda: layers((4, 6), L.Reshape((2, 12)), L.Permute((2, 1)), L.Flatten(), L.RepeatVector(3)),
    turns_open=lambda: layers((None, 6), L.Reshape((-1, 3)), L.Dense(4), L.Permute((2, 1))),
    norms=lambda: layers((6, 8), L.LayerNormalization(), L.Dense(8), L.UnitNormalization(), L.RMSNormalization()),
    group_norm=lambda: layers((6, 6, 8), L.GroupNormalization(4), L.Conv2D(4, 1), L.LayerNormalization(axis=[1, 2, 3])),
)


def block(x, heads=2, size=4, **attend):
    x = L.LayerNormalization()(x + L.MultiHeadAttention(heads, size)(x, x, **attend))
    return L.LayerNormalization()(x + L.Dense(x.shape[-1])(L.Dense(16, "gelu")(x)))


class Positions(L.Layer):
    def __init__(self, most, width):
        super().__init__()
        self.table = L.Embedding(most, width)

    def call(self, x):
        return x + self.table(keras.ops.arange(keras.ops.shape(x)[1]))


def encoder(steps):
    x = keras.Input((steps, 8))
    return keras.Model(x, block(x))


def bert():
    ids, mask = keras.Input((9,), dtype="int32"), keras.Input((9,), dtype="int32")
    x = Positions(16, 8)(L.Embedding(30, 8)(ids))
    x = block(x, attention_mask=keras.ops.expand_dims(keras.ops.cast(mask, "bool"), 1))
    return keras.Model([ids, mask], [x, L.Dense(2, "softmax")(x[:, 0])])


def causal():
    ids = keras.Input((9,), batch_size=1, dtype="int32")
    return keras.Model(ids, L.Dense(30)(block(L.Embedding(30, 8)(ids), use_causal_mask=True)))


def vit():
    first = keras.Input((16, 16, 3))
    x = Positions(16, 8)(L.Reshape((16, 8))(L.Conv2D(8, 4, 4)(first)))
    return keras.Model(first, L.Dense(4)(L.GlobalAveragePooling1D()(block(x))))


def attentions():
    a, b = keras.Input((5, 8)), keras.Input((6, 8))
    return keras.Model([a, b], [L.Attention()([a, b]), L.AdditiveAttention()([a, b])])


def grouped():
    x = keras.Input((6, 8))
    return keras.Model(x, L.GroupQueryAttention(4, 4, 2)(x, x))


add("attention", ("float", "dynamic", "float16", "int8"), encoder=lambda: encoder(6), vit=vit)
add("attention", ("float", "dynamic", "float16"), encoder_open=lambda: encoder(None), bert=bert, causal=causal)
add("attention", FLOAT, kinds=attentions, grouped=grouped)


# ---- recurrent ----

for kind in (L.LSTM, L.GRU, L.SimpleRNN):
    name = kind.__name__.lower()
    add(
        "recurrent",
        ("float", "dynamic", "lists"),
        **{
            name: lambda k=kind: layers((6, 5), k(7), L.Dense(3), batch=1),
            name + "_open": lambda k=kind: layers((None, 5), k(7, return_sequences=True), k(4), batch=1),
            name + "_both": lambda k=kind: layers((6, 5), L.Bidirectional(k(4, return_sequences=True)), batch=1),
        },
    )
    add(
        "recurrent",
        ("float", "int8"),
        **{name + "_unrolled": lambda k=kind: layers((4, 5), k(4, unroll=True), batch=1)},
    )
    add(
        "recurrent",
        FLOAT,
        **{name + "_back": lambda k=kind: layers((6, 5), k(7, go_backwards=True, return_state=True), batch=2)},
    )


def seq2seq():
    a, b = keras.Input((5, 4), batch_size=1), keras.Input((3, 4), batch_size=1)
    _, h, c = L.LSTM(6, return_state=True)(a)
    return keras.Model([a, b], L.LSTM(6, return_sequences=True)(b, initial_state=[h, c]))


add(
    "recurrent",
    LISTS,
    seq2seq=seq2seq,
    conv_lstm=lambda: layers((4, 6, 6, 2), L.ConvLSTM2D(3, 3, padding="same"), batch=1),
    masked=lambda: layers((6, 5), L.Masking(0.0), L.GRU(4), batch=1),
    cells=lambda: layers((6, 5), L.RNN([L.LSTMCell(4), L.GRUCell(3)]), batch=1),
    embedded=lambda: layers((7,), L.Embedding(20, 8, mask_zero=True), L.LSTM(6), L.Dense(3), batch=1, dtype="int32"),
)

# ---- signals ----

MEL = lambda bins: tf.signal.linear_to_mel_weight_matrix(8, bins, 8000, 80.0, 3800.0)
function(
    "signal",
    rfft=(lambda x: tf.abs(tf.signal.rfft(x)), ([2, 64], F32)),
    parts=(lambda x: (tf.math.real(tf.signal.rfft(x)), tf.math.imag(tf.signal.rfft(x))), ([2, 32], F32)),
    padded=(lambda x: tf.abs(tf.signal.rfft(x, [32])), ([2, 20], F32)),
    cut=(lambda x: tf.abs(tf.signal.rfft(x, [16])), ([2, 20], F32)),
    long=(lambda x: tf.abs(tf.signal.rfft(x)), ([1, 1024], F32)),
    plane=(lambda x: tf.abs(tf.signal.rfft2d(x)), ([3, 8, 16], F32)),
    stft=(lambda x: tf.abs(tf.signal.stft(x, 32, 16, 32)), ([1, 128], F32)),
    stft_open=(lambda x: tf.abs(tf.signal.stft(x, 32, 16, 32)), ([2, None], F32)),
    mel=(lambda x: tf.math.log(tf.matmul(tf.abs(tf.signal.stft(x, 64, 32, 64)) ** 2, MEL(33)) + 1e-3), ([1, 256], F32)),
    frames=(lambda x: tf.signal.frame(x, 8, 3), ([1, 40], F32)),
    feed=lambda rng, spec: rng.normal(size=[96 if d is None else d for d in spec.shape]).astype("float32"),
)
add(
    "signal",
    FLOAT,
    mel_layer=lambda: layers((400,), L.MelSpectrogram(64, 32, sampling_rate=8000, num_mel_bins=10, max_freq=4000)),
)

# ---- control flow ----


def array(x):
    items = tf.TensorArray(F32, 4)
    for i in tf.range(4):
        items = items.write(i, x[i] * tf.cast(i, F32))
    return items.stack()


def array_open(x):
    items = tf.TensorArray(F32, tf.shape(x)[0])
    for i in tf.range(tf.shape(x)[0]):
        items = items.write(i, tf.reduce_sum(x[: i + 1], 0))
    return items.stack()


def shrink(x):
    more, cut = lambda a: tf.shape(a)[0] > 2, lambda a: [a[: (tf.shape(a)[0] + 1) // 2] + 1.0]
    return tf.while_loop(more, cut, [x], shape_invariants=[tf.TensorShape([None, 3])])[0]


def grow(x):
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.concat([a, x], 0)), [0, x], shape_invariants=shapes)[1]


function(
    "control",
    modes=LISTS,
    array=(array, ([4, 3], F32)),
    array_open=(array_open, ([None, 3], F32)),
    mapped=(lambda x: tf.map_fn(lambda r: tf.reduce_sum(r) * r, x), ([4, 3], F32)),
    scanned=(lambda x: tf.scan(lambda a, r: a * 0.5 + r, x), ([4, 3], F32)),
)
function(
    "control",
    branch=(lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: x - 1), ([4], F32)),
    branch_shape=(lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.reshape(x, [2, 2]), lambda: x[:1, None]), ([4], F32)),
    loop=(lambda x: tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 1.1), [0, x])[1], ([4], F32)),
    loop_data=(lambda x: tf.while_loop(lambda a: tf.reduce_sum(a) < 99.0, lambda a: a * 1.5 + 1.0, [abs(x)])[0], ([4], F32)),
    loop_grows=(grow, ([4], F32)),
    loop_shrinks=(shrink, ([9, 3], F32)),
)

for list_name, list_row in list_models.functions().items():
    body, specs, feed = (*list_row, None)[:3]
    function("growing", LISTS, feed, **{list_name: (body, *[(list(s.shape), s.dtype) for s in specs])})

# ---- entry points and state ----


class Codec(tf.Module):
    def __init__(self):
        self.table = tf.Variable(tf.reshape(tf.range(12.0), [4, 3]) / 12)

    @tf.function(input_signature=[tf.TensorSpec([2, 4], F32)])
    def encode(self, x):
        return {"code": tf.matmul(x, self.table)}

    @tf.function(input_signature=[tf.TensorSpec([2, 3], F32)])
    def decode(self, z):
        return {"y": tf.matmul(z, self.table, transpose_b=True)}


class Counter(tf.Module):
    def __init__(self):
        self.sum = tf.Variable(tf.zeros([3]))

    @tf.function(input_signature=[tf.TensorSpec([3], F32)])
    def __call__(self, x):
        self.sum.assign_add(x)
        return self.sum.read_value()


add("state", FLOAT, codec=lambda: Entries(Codec(), ["encode", "decode"]), counter=lambda: Steps(Counter(), 3))
add("state", FLOAT, gru=lambda: Steps(layers((3, 5), L.GRU(7, stateful=True), batch=1), 3))

# ---- shapes and indices ----

function(
    "shape",
    where=(lambda x: tf.where(x > 0), ([3, 4], F32)),
    mask=(lambda x: tf.boolean_mask(x, x[:, 0] > 0), ([5, 4], F32)),
    unique=(lambda x: tf.unique(x), ([8], I32)),
    top=(lambda x: tf.math.top_k(x, 3), ([2, 6], F32)),
    sort=(lambda x: (tf.sort(x, direction="DESCENDING"), tf.argsort(x)), ([2, 6], F32)),
    gathers=(lambda x: (tf.gather_nd(x, [[0, 1], [2, 0]]), tf.gather(x, [2, 0], axis=2)), ([3, 2, 4], F32)),
    gather_batch=(lambda x: tf.gather(x, [[0, 1], [1, 0]], batch_dims=1, axis=2), ([2, 3, 4], F32)),
    scatters=(
        lambda x: (tf.scatter_nd([[1], [3]], x[:2], [5, 4]), tf.tensor_scatter_nd_add(x, [[1], [1]], x[2:4])),
        ([5, 4], F32),
    ),
    segments=(
        lambda x: (tf.math.segment_sum(x, [0, 0, 1, 2]), tf.math.unsorted_segment_max(x, [2, 0, 1, 2], 3)),
        ([4, 3], F32),
    ),
    slices=(lambda x: (x[:, ::2], x[::-1], x[1:-1, None, 2:], x[..., -1], x[0]), ([4, 5, 6], F32)),
    pads=(lambda x: (tf.pad(x, [[1, 1], [2, 2]], "SYMMETRIC"), tf.pad(x, [[1, 0], [0, 1]], constant_values=3.0)), ([3, 4], F32)),
    blocks=(lambda x: tf.batch_to_space(tf.space_to_batch(x, [2, 2], [[0, 0]] * 2), [2, 2], [[1, 0], [0, 1]]), ([1, 4, 6, 2], F32)),
    spread=(lambda x, y: tf.broadcast_to(x, tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(y))) + y, ([None, 4], F32), ([None, 4], F32)),
    ranges=(lambda x: tf.cast(tf.range(tf.shape(x)[0]), F32) * x, ([None], F32)),
    diagonals=(lambda x: (tf.linalg.diag(x), tf.linalg.set_diag(tf.ones([2, 4, 4]), x)), ([2, 4], F32)),
    hot=(lambda x: tf.one_hot(x, 5, on_value=2.0, off_value=-1.0), ([4], I32)),
    wide_index=(lambda x, i: tf.gather(x, i), ([9, 3], F32), ([2], I64)),
    split=(lambda x: tf.split(x, 3, 1) + tf.unstack(x, axis=0), ([2, 6], F32)),
    resize_open=(lambda x: tf.image.resize(x, tf.shape(x)[1:3] * 2), ([1, None, None, 2], F32)),
    filter_open=(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), ([1, 6, 6, 2], F32), ([3, 3, 2, 4], F32)),
)

# ---- arithmetic ----

function(
    "math",
    sums=(
        lambda x: (tf.reduce_mean(x, [1, 2]), tf.reduce_max(x, 1), tf.reduce_prod(x, -1), tf.reduce_logsumexp(x, -1), tf.norm(x, axis=1)),
        ([3, 4, 5], F32),
    ),
    truths=(lambda x: (tf.reduce_any(x > 0, 0), tf.reduce_all(x > 0, 1), tf.logical_not(x > 0)), ([3, 4], F32)),
    curves=(
        lambda x: (tf.sin(x), tf.cos(x), tf.exp(x), tf.math.rsqrt(abs(x) + 1), tf.floor(x), tf.round(x), tf.math.log1p(abs(x)), tf.math.atan2(x, x + 2)),
        ([3, 4], F32),
    ),
    whole=(
        lambda x: (x // 3, x % 3, tf.maximum(x, 2), tf.bitwise.bitwise_xor(x, 5), tf.bitwise.right_shift(x, 1), tf.cast(x, I64) * 2),
        ([6], I32),
    ),
    running=(lambda x: (tf.cumsum(x, 1), tf.cumsum(x, 0, exclusive=True, reverse=True)), ([3, 4], F32)),
    einsum=(lambda a, b: tf.einsum("bhqd,bhkd->bhqk", a, b), ([2, 2, 3, 4], F32), ([2, 2, 5, 4], F32)),
    product=(lambda a, b: tf.matmul(a, b, transpose_a=True, transpose_b=True), ([2, 4, 3], F32), ([2, 5, 4], F32)),
    product_open=(lambda a, b: tf.matmul(a, b), ([None, None, 3], F32), ([None, 3, None], F32)),
    choose=(lambda x, y: (tf.where(x > 0, x, y), tf.where(x > 0, 1.0, y)), ([3, 4], F32), ([1, 4], F32)),
    local=(lambda x: tf.nn.lrn(x), ([1, 3, 4, 8], F32)),
    buckets=(lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.0]), ([6], F32)),
)


# ---- products of floats with weights of 8 and 4 bits: a matrix has more than 1,024 numbers, or the converter leaves it as it is ----


def drawn(*shape):
    return tf.constant(np.random.normal(0, 0.3, shape).astype("float32"))


def dense_hybrid():
    a, b, c = drawn(64, 36), drawn(36), drawn(36, 32)
    return Function(lambda x: tf.matmul(tf.nn.relu(tf.matmul(x, a) + b), c), ([3, 64], F32))


def rows_hybrid():
    a, b = drawn(63, 17), drawn(17)
    return Function(lambda x: tf.tensordot(x, a, 1) + b, ([2, 3, 63], F32))


def conv_hybrid():
    w, b = drawn(3, 3, 9, 14), drawn(14)
    return Function(lambda x: tf.nn.relu6(tf.nn.conv2d(x, w, 2, "SAME") + b), ([2, 7, 6, 9], F32))


def depthwise_hybrid():
    w = drawn(3, 3, 64, 2)
    return Function(lambda x: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID"), ([2, 4, 4, 64], F32))


def transposed_hybrid():
    w = drawn(3, 3, 9, 14)
    return Function(lambda x: tf.nn.conv2d_transpose(x, w, [2, 9, 9, 9], 2, "VALID"), ([2, 4, 4, 14], F32))


def batches_hybrid():
    w = drawn(2, 32, 18)
    return Function(lambda x: tf.matmul(x, w), ([2, 3, 32], F32))


add("hybrid", ("dynamic", "int4"), dense=dense_hybrid, rows=rows_hybrid, conv=conv_hybrid)
add("hybrid", ("dynamic",), depthwise=depthwise_hybrid, transposed=transposed_hybrid, batches=batches_hybrid)  # the interpreter has no 4 bits for these


# ---- LSTM as one operator: what Keras 2 writes ----


def fused(units, data, steps, batch, both=None, **options):
    import tf_keras

    chain = [tf_keras.layers.InputLayer((steps, data), batch_size=batch)]
    lstms = [tf_keras.layers.LSTM(u, return_sequences=True, **options) for u in units]
    chain += [tf_keras.layers.Bidirectional(x, merge_mode=both) for x in lstms] if both else lstms
    model = tf_keras.Sequential(chain)
    for v in model.weights:
        v.assign(np.random.normal(0, 0.3, v.shape))
    return Saved(model, ([batch, steps, data], F32))


add("fused", ("dynamic", "int8"), both=lambda: fused([4], 5, 6, 1, both="concat"), both_sum=lambda: fused([4], 5, 6, 1, both="sum"))
add("fused", ("dynamic", "int8"), one=lambda: fused([32], 32, 5, 1), rows=lambda: fused([32], 35, 4, 2))
add("fused", ("float", "int8"), small=lambda: fused([6], 4, 5, 2), two=lambda: fused([5, 7], 3, 4, 1), back=lambda: fused([6], 5, 4, 1, go_backwards=True))
