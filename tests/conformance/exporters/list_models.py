"""Lists, loops and branches for make_keras.py and make_tfjs.py: functions() = {name: (body, specs, feed)}."""

import numpy as np
import tensorflow as tf
F32, I32, I64 = tf.float32, tf.int32, tf.int64
S = tf.TensorSpec


def picks(x):
    items = tf.TensorArray(F32, 0, dynamic_size=True)
    for i in tf.range(tf.shape(x)[0]):
        items = items.write(i, tf.nn.softmax(x[i] * tf.cast(i + 1, F32)))
    return items.stack()


def pieces(x):
    items = tf.TensorArray(F32, 0, dynamic_size=True, infer_shape=False, element_shape=[None])
    for i in tf.range(tf.shape(x)[0]):
        items = items.write(i, x[: i + 1] * 2)
    return items.concat()


def pieces_read(x):
    items = tf.TensorArray(F32, 0, dynamic_size=True, infer_shape=False)
    for i in tf.range(tf.shape(x)[0]):
        items = items.write(i, x[: i + 1] * 2)
    return items.read(2), items.size()


def evens(x):
    items, n = tf.TensorArray(F32, 0, dynamic_size=True), 0
    for i in tf.range(tf.shape(x)[0]):
        if x[i, 0] > 0:
            items = items.write(n, x[i] + 1)
            n += 1
    return items.stack(), n


def none_picked(x):
    """A list that stays empty."""
    items, n = tf.TensorArray(F32, 0, dynamic_size=True, element_shape=[3]), 0
    for i in tf.range(tf.shape(x)[0]):
        if x[i, 0] > 1000.0:
            items = items.write(n, x[i])
            n += 1
    return items.stack(), n


def until(x):
    items, i, a = tf.TensorArray(F32, 0, dynamic_size=True, element_shape=[3]), 0, tf.abs(x)
    while tf.reduce_sum(a) < 50.0:
        items = items.write(i, a)
        a = a * 1.5 + 0.5
        i += 1
    return items.stack(), i


def broken(x):
    items, i, a = tf.TensorArray(F32, 0, dynamic_size=True), tf.constant(0), tf.abs(x)
    while tf.less(i, 12):
        items = items.write(i, a)
        a = a * 1.5 + 0.5
        if tf.reduce_max(a) > 10.0:
            break
        i += 1
    return items.stack()


def stack_machine(x):
    l = tf.raw_ops.EmptyTensorList(element_shape=tf.constant([3], I32), max_num_elements=-1, element_dtype=F32)
    for i in tf.range(4):
        l = tf.raw_ops.TensorListPushBack(input_handle=l, tensor=x * tf.cast(i, F32))
    l, top = tf.raw_ops.TensorListPopBack(input_handle=l, element_shape=tf.constant([3], I32), element_dtype=F32)
    return top, tf.raw_ops.TensorListStack(input_handle=l, element_shape=tf.constant([3], I32), element_dtype=F32), tf.raw_ops.TensorListLength(input_handle=l)


def pops(x):
    l = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=tf.constant([3], I32))
    a = tf.zeros([3])
    while tf.raw_ops.TensorListLength(input_handle=l) > 1:
        l, t = tf.raw_ops.TensorListPopBack(input_handle=l, element_shape=tf.constant([3], I32), element_dtype=F32)
        a = a * 0.5 + t
    return a


def pushed_open(x):
    l = tf.raw_ops.EmptyTensorList(element_shape=tf.constant(-1, I32), max_num_elements=-1, element_dtype=F32)
    i = 0
    while i < 3:
        l = tf.raw_ops.TensorListPushBack(input_handle=l, tensor=x[: i + 1])
        i += 1
    return tf.raw_ops.TensorListGetItem(input_handle=l, index=2, element_shape=tf.constant([-1], I32), element_dtype=F32)


def two(x):
    a = tf.TensorArray(F32, 0, dynamic_size=True)
    b = tf.TensorArray(I32, 0, dynamic_size=True)
    for i in tf.range(5):
        a = a.write(i, x * tf.cast(i, F32))
        b = b.write(i, tf.argmax(x * tf.cast(i - 2, F32), output_type=I32))
    return a.stack(), b.stack()


def unstacked(x):
    a = tf.TensorArray(F32, tf.shape(x)[0]).unstack(x)
    s, i = tf.zeros([3]), tf.shape(x)[0] - 1
    while i >= 0:
        s = s * 0.5 + a.read(i)
        i -= 1
    return s


def gathered(x):
    a = tf.TensorArray(F32, 0, dynamic_size=True).scatter([2, 0, 1], x[:3])
    return a.gather([1, 2]), a.stack()


def split_up(x):
    a = tf.TensorArray(F32, 3, infer_shape=False, element_shape=[None, 2]).split(x, [1, 2, 1])
    return a.read(1), a.concat()


def branch_list(x):
    a = tf.TensorArray(F32, 2)
    a = tf.cond(tf.reduce_sum(x) > 0, lambda: a.write(0, x).write(1, x * 2), lambda: a.write(0, x - 1).write(1, x))
    return a.stack()


def truths(x):
    a = tf.TensorArray(tf.bool, 0, dynamic_size=True)
    for i in tf.range(tf.shape(x)[0]):
        a = a.write(i, x[i] > 0)
    return a.stack()


def wide(x):
    a = tf.TensorArray(I64, 0, dynamic_size=True)
    for i in tf.range(tf.shape(x)[0]):
        a = a.write(i, tf.cast(x[i], I64) * 3)
    return a.stack()


def nested_lists(x):
    out = tf.TensorArray(F32, 0, dynamic_size=True)
    for i in tf.range(tf.shape(x)[0]):
        row = tf.TensorArray(F32, 0, dynamic_size=True)
        for k in tf.range(3):
            row = row.write(k, x[i] * tf.cast(k, F32))
        out = out.write(i, row.stack())
    return out.stack()


def last_of(x):
    a = tf.TensorArray(F32, 0, dynamic_size=True)
    a = a.write(0, x[0])
    for i in tf.range(1, tf.shape(x)[0]):
        a = a.write(i, x[i] + 0.5 * a.read(i - 1))
    return a.stack()


def fibonacci(n):
    a = tf.TensorArray(I32, 0, dynamic_size=True, clear_after_read=False).write(0, 1).write(1, 1)
    for i in tf.range(2, n):
        a = a.write(i, a.read(i - 1) + a.read(i - 2))
    return a.stack()


RNG = np.random.default_rng(3)
W = tf.constant(RNG.normal(size=(8, 16)).astype("float32") * 0.5)
E = tf.constant(RNG.normal(size=(6, 4)).astype("float32"))
O = tf.constant(RNG.normal(size=(4, 6)).astype("float32"))


def greedy(x):
    """An LSTM that writes tokens until the end token."""
    h, c = x, tf.zeros_like(x)
    token, out, i = tf.constant([1]), tf.TensorArray(I32, 0, dynamic_size=True, element_shape=[1]), 0
    while i < 7 and token[0] != 0:
        z = tf.matmul(tf.concat([tf.gather(E, token), h], 1), W)
        g, f, o, u = tf.split(z, 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(g) * tf.tanh(u)
        h = tf.sigmoid(o) * tf.tanh(c)
        token = tf.argmax(tf.matmul(h, O), 1, output_type=I32)
        out = out.write(i, token)
        i += 1
    return out.stack(), h


def scans(x):
    return tf.scan(lambda a, r: (a[0] * 0.5 + r, a[1] + tf.reduce_sum(r)), x, (tf.zeros([3]), 0.0))


def scan_back(x):
    return tf.scan(lambda a, r: a * 0.5 + r, x, reverse=True)


def maps(x, n):
    return tf.map_fn(lambda t: (t[0] * 2, t[1] + 1), (x, n), fn_output_signature=(F32, I32))


def map_sizes(n):
    return tf.map_fn(lambda k: tf.reduce_sum(tf.range(k)), n)


def inner_cond(x):
    def body(i, a):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: a + x, lambda: a * 0.5)
    return tf.while_loop(lambda i, a: i < 5, body, [0, x])[1]


def cond_loop(x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), [0, x])[1], lambda: x - 1)


def loop_cond_loop(x):
    def body(i, a):
        inner = lambda: tf.while_loop(lambda k, b: k < i, lambda k, b: (k + 1, b + x), [0, a])[1]
        return i + 1, tf.cond(a[0] < 3.0, inner, lambda: a - 1)
    return tf.while_loop(lambda i, a: i < 6, body, [0, x])[1]


def either(x, k):
    return tf.switch_case(k, [lambda: (x, tf.reduce_sum(x)), lambda: (x * 2, tf.constant(1.0)), lambda: (-x, tf.reduce_max(x))])


def cases(x):
    s = tf.reduce_sum(x)
    return tf.case([(s > 3, lambda: x + 1), (s > 0, lambda: x * 2)], default=lambda: -x)


def dead_branch(x):
    y = tf.cond(tf.shape(x)[0] > 2, lambda: x[:2], lambda: tf.concat([x, x], 0)[:2])
    return y * 2


def loop_no_use(x):
    return tf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a + b, b), [0, x, x * 2])[1:]


def swap(x, y):
    return tf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b, a), [0, x, y])[1:]


def with_counter(x):
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * tf.cast(i + 1, F32)), [0, x], maximum_iterations=2)[1]


def parallel(x):
    a = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + 1), [0, x])[1]
    b = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * 1.5), [0, x])[1]
    return a + b, tf.while_loop(lambda a, b: tf.reduce_sum(a) < 100., lambda a, b: (a + tf.abs(b) + 1, b), [a, b])[0]


def rows_while(x):
    """rows grow within the loop, then shrink"""
    a = tf.while_loop(lambda a: tf.shape(a)[0] < 9, lambda a: [tf.concat([a, a[:1] + 1], 0)], [x], shape_invariants=[tf.TensorShape([None, 3])])[0]
    return a


def nms_loop(b, s):
    picked = tf.TensorArray(I32, 0, dynamic_size=True)
    n = 0
    while n < 3:
        k = tf.argmax(s, output_type=I32)
        picked = picked.write(n, k)
        s = tf.where(tf.abs(b - b[k]) < 0.5, -1e9, s)
        n += 1
    return picked.stack()


def functions():
    v3, v53 = S([3], F32), S([5, 3], F32)
    return {
        "picks": (picks, [S([None, 3], F32)]), "pieces": (pieces, [S([4], F32)]), "pieces_read": (pieces_read, [S([4], F32)]),
        "evens": (evens, [v53]), "until": (until, [v3]), "broken": (broken, [v3]), "stack_machine": (stack_machine, [v3]),
        "pops": (pops, [v53]), "pushed_open": (pushed_open, [S([4], F32)]), "two": (two, [v3]), "unstacked": (unstacked, [S([None, 3], F32)]),
        "gathered": (gathered, [v53]), "split_up": (split_up, [S([4, 2], F32)]), "branch_list": (branch_list, [v3]),
        "truths": (truths, [v53]), "wide": (wide, [S([4], I32)]), "nested_lists": (nested_lists, [v53]), "last_of": (last_of, [v53]),
        "fibonacci": (fibonacci, [S([], I32)], lambda r, s: np.int32(9)), "greedy": (greedy, [S([1, 4], F32)]), "scans": (scans, [v53]),
        "scan_back": (scan_back, [v53]), "maps": (maps, [v53, S([5], I32)]), "map_sizes": (map_sizes, [S([4], I32)]),
        "inner_cond": (inner_cond, [v3]), "cond_loop": (cond_loop, [v3]), "loop_cond_loop": (loop_cond_loop, [v3]),
        "either": (either, [v3, S([], I32)], lambda r, s: np.int32(1) if s.dtype == I32 else r.normal(size=s.shape).astype("float32")),
        "cases": (cases, [v3]), "dead_branch": (dead_branch, [S([None], F32)]), "loop_no_use": (loop_no_use, [v3]), "swap": (swap, [v3, v3]),
        "with_counter": (with_counter, [v3]), "none_picked": (none_picked, [v53]), "parallel": (parallel, [v3]), "rows_while": (rows_while, [S([2, 3], F32)]),
        "nms_loop": (nms_loop, [S([6], F32), S([6], F32)]),
    }
