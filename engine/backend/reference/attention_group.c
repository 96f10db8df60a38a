/*
 * com.microsoft GroupQueryAttention: causal attention over a cache, several query heads to each head of keys, rotary positions applied here.
 * Source: ONNX Runtime's contrib operators.
 */
#include "backend/reference/kernels.h"

#include <math.h>
#include <string.h>

enum { IN_Q, IN_K, IN_V, IN_PAST_K, IN_PAST_V, IN_LAST, IN_TOTAL, IN_COS, IN_SIN, IN_POSITIONS, IN_BIAS, IN_SINKS };

struct group {
    int64_t batch, length, heads, kv_heads, size, past_room, room; /* room: rows of the present caches */
    int64_t half;                                                  /* pairs that turn; 0 = no rotary positions */
    int64_t window; /* keys that a query sees, itself included; -1 = all before it */
    bool interleaved;
    double scale, softcap;
    double *q, *k, *v;             /* [batch, length, heads * size], kv_heads * size */
    const double *cosines, *sines; /* [positions, half] */
    int64_t positions;
    const double *bias, *sinks; /* [1 or batch, 1 or heads, length, tokens in all], [heads]; NULL without */
    int64_t bias_batch, bias_head, bias_row; /* strides, 0 where one is for all */
    bool smooth;                             /* one more score of 0 (or the head's sink) that no key has */
    double *keys, *values;                   /* present: [batch, kv_heads, room, size] */
};

static enum pen_status sizes_read(struct kernel_call *k, struct group *g)
{
    const struct shape *q = &k->in[IN_Q].shape;
    int64_t total = 0;
    size_t count = 0;
    for (uint32_t i = IN_LAST; i <= IN_TOTAL; i++) {
        if (!kernel_has(k, i)) {
            return kernel_fail(k, PEN_ERR_INVALID, "needs input %u, lengths", i);
        }
    }
    *g = (struct group){.heads = node_int(k->n, ATTR_num_heads, 0), .kv_heads = node_int(k->n, ATTR_kv_num_heads, 0)};
    bool packed = !kernel_has(k, IN_K);
    int64_t all = packed ? g->heads + 2 * g->kv_heads : g->heads;
    if (q->rank != 3 || g->heads < 1 || g->kv_heads < 1 || g->heads % g->kv_heads != 0 || q->dim[2] % all != 0) {
        return kernel_fail(k, PEN_ERR_SHAPE, "queries do not fit %lld and %lld heads", (long long)g->heads,
                           (long long)g->kv_heads);
    }
    g->batch = q->dim[0];
    g->length = q->dim[1];
    g->size = q->dim[2] / all;
    struct shape side = shape_of(3, (const int64_t[]){g->batch, g->length, g->kv_heads * g->size});
    if (!packed &&
        (!shape_equal(&k->in[IN_K].shape, &side) || !kernel_has(k, IN_V) || !shape_equal(&k->in[IN_V].shape, &side))) {
        return kernel_fail(k, PEN_ERR_SHAPE, "keys or values do not fit the queries");
    }
    for (uint32_t i = IN_PAST_K; i <= IN_PAST_V; i++) {
        const struct shape *p = kernel_has(k, i) ? &k->in[i].shape : NULL;
        if (kernel_has(k, i) != kernel_has(k, IN_PAST_K) ||
            (kernel_has(k, i) && (p->rank != 4 || p->dim[0] != g->batch || p->dim[1] != g->kv_heads ||
                                  p->dim[3] != g->size || (i == IN_PAST_V && p->dim[2] != g->past_room)))) {
            return kernel_fail(k, PEN_ERR_SHAPE, "the caches do not fit");
        }
        g->past_room = kernel_has(k, i) ? p->dim[2] : 0;
    }
    enum pen_status status = kernel_ints(k, IN_TOTAL, &total, 1, &count);
    if (status == PEN_OK &&
        (count != 1 || total < g->length || total > INT32_MAX || shape_elements(&k->in[IN_LAST].shape) != g->batch)) {
        status = kernel_fail(k, PEN_ERR_INVALID, "the lengths do not fit: %lld tokens in all", (long long)total);
    }
    g->room = total > g->past_room ? total : g->past_room;
    g->window = node_int(k->n, ATTR_local_window_size, -1);
    g->scale = (double)node_float(k->n, ATTR_scale, 0.0f);
    g->scale = g->scale == 0.0 ? 1.0 / sqrt((double)g->size) : g->scale;
    g->softcap = (double)node_float(k->n, ATTR_softcap, 0.0f);
    return status;
}

/* The bias on scores and the sinks, where there are any. */
static enum pen_status scores_read(struct kernel_call *k, struct group *g)
{
    double *bias = NULL, *sinks = NULL;
    enum pen_status status = PEN_OK;
    int64_t total = load_one_i64(k->in[IN_TOTAL].data, k->in[IN_TOTAL].dtype, 0);
    g->smooth = node_int(k->n, ATTR_smooth_softmax, 0) > 0 || kernel_has(k, IN_SINKS);
    if (kernel_has(k, IN_SINKS)) {
        status = shape_elements(&k->in[IN_SINKS].shape) == g->heads
                     ? kernel_doubles(k, IN_SINKS, &sinks)
                     : kernel_fail(k, PEN_ERR_SHAPE, "needs one sink for each head");
    }
    if (status == PEN_OK && kernel_has(k, IN_BIAS)) {
        const struct shape *s = &k->in[IN_BIAS].shape;
        if (s->rank != 4 || (s->dim[0] != 1 && s->dim[0] != g->batch) || (s->dim[1] != 1 && s->dim[1] != g->heads) ||
            s->dim[2] != g->length || s->dim[3] < total) {
            return kernel_fail(k, PEN_ERR_SHAPE, "the attention bias does not fit");
        }
        g->bias_row = s->dim[3];
        g->bias_head = s->dim[1] == 1 ? 0 : s->dim[2] * s->dim[3];
        g->bias_batch = s->dim[0] == 1 ? 0 : s->dim[1] * s->dim[2] * s->dim[3];
        status = kernel_doubles(k, IN_BIAS, &bias);
    }
    g->bias = bias;
    g->sinks = sinks;
    return status;
}

/* Where token t of entry b stands: given, or behind the `past` ones. A prompt's are counted from the first one given. */
static int64_t position_of(const struct kernel_call *k, const struct group *g, int64_t b, int64_t t, int64_t past,
                           bool prompt)
{
    if (!kernel_has(k, IN_POSITIONS)) {
        return past + t;
    }
    const struct rt_value *ids = &k->in[IN_POSITIONS];
    int64_t count = shape_elements(&ids->shape), at = prompt ? 0 : b * g->length + t;
    return at < count ? load_one_i64(ids->data, ids->dtype, at) + (prompt ? t : 0) : -1;
}

/* Columns [first, first + width) of every row of x. */
static double *columns(struct kernel_call *k, const double *x, int64_t rows, int64_t all, int64_t first, int64_t width)
{
    double *y = kernel_scratch(k, (size_t)(rows * width) * sizeof *y);
    for (int64_t r = 0; y != NULL && r < rows; r++) {
        memcpy(y + r * width, x + r * all + first, (size_t)width * sizeof *y);
    }
    return y;
}

static enum pen_status data_read(struct kernel_call *k, struct group *g)
{
    double *x = NULL;
    enum pen_status status = kernel_doubles(k, IN_Q, &x);
    int64_t rows = g->batch * g->length, q = g->heads * g->size, kv = g->kv_heads * g->size;
    if (status == PEN_OK && kernel_has(k, IN_K)) {
        g->q = x;
        status = kernel_doubles(k, IN_K, &g->k);
        status = status == PEN_OK ? kernel_doubles(k, IN_V, &g->v) : status;
    } else if (status == PEN_OK) {
        g->q = columns(k, x, rows, q + 2 * kv, 0, q);
        g->k = columns(k, x, rows, q + 2 * kv, q, kv);
        g->v = columns(k, x, rows, q + 2 * kv, q + kv, kv);
        status = g->q && g->k && g->v ? PEN_OK : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for queries and keys");
    }
    if (status != PEN_OK || node_int(k->n, ATTR_do_rotary, 0) == 0) {
        return status;
    }
    const struct shape *c = &k->in[IN_COS].shape;
    double *cosines = NULL, *sines = NULL;
    if (!kernel_has(k, IN_COS) || !kernel_has(k, IN_SIN) || c->rank != 2 || !shape_equal(c, &k->in[IN_SIN].shape) ||
        2 * c->dim[1] > g->size) {
        return kernel_fail(k, PEN_ERR_SHAPE, "the tables of sines and cosines do not fit");
    }
    status = kernel_doubles(k, IN_COS, &cosines);
    status = status == PEN_OK ? kernel_doubles(k, IN_SIN, &sines) : status;
    g->cosines = cosines;
    g->sines = sines;
    g->positions = c->dim[0];
    g->half = c->dim[1];
    g->interleaved = node_int(k->n, ATTR_rotary_interleaved, 0) != 0;
    return status;
}

/* One head of one token, turned in place. */
static void turn(const struct group *g, double *x, int64_t position)
{
    for (int64_t i = 0; i < g->half; i++) {
        double *a = &x[g->interleaved ? 2 * i : i], *b = g->interleaved ? a + 1 : a + g->half;
        double c = g->cosines[position * g->half + i], s = g->sines[position * g->half + i];
        double real = c * *a - s * *b;
        *b = s * *a + c * *b;
        *a = real;
    }
}

/* The cache of batch entry b: what was there, then the new rows behind `past` of them. */
static void cache_fill(const struct group *g, int64_t b, int64_t past, const double *old, const double *fresh,
                       double *present)
{
    for (int64_t h = 0; h < g->kv_heads; h++) {
        int64_t at = b * g->kv_heads + h;
        double *to = present + at * g->room * g->size;
        if (past > 0) {
            memcpy(to, old + at * g->past_room * g->size, (size_t)(past * g->size) * sizeof *to);
        }
        for (int64_t t = 0; t < g->length; t++) {
            memcpy(to + (past + t) * g->size, fresh + ((b * g->length + t) * g->kv_heads + h) * g->size,
                   (size_t)g->size * sizeof *to);
        }
    }
}

/* y [size] of query i of head h; scores: [room]. */
static void query_run(const struct group *g, int64_t b, int64_t h, int64_t i, int64_t past, double *scores, double *y)
{
    int64_t end = past + i + 1, from = g->window >= 0 && end > g->window ? end - g->window : 0;
    int64_t at = (b * g->kv_heads + h / (g->heads / g->kv_heads)) * g->room * g->size;
    const double *q = g->q + ((b * g->length + i) * g->heads + h) * g->size;
    double max = -(double)INFINITY, sum = 0.0;
    memset(y, 0, (size_t)g->size * sizeof *y);
    for (int64_t j = from; j < end; j++) {
        double dot = 0.0;
        for (int64_t x = 0; x < g->size; x++) {
            dot += q[x] * g->keys[at + j * g->size + x];
        }
        scores[j] = dot * g->scale;
        scores[j] = g->softcap > 0.0 ? g->softcap * tanh(scores[j] / g->softcap) : scores[j];
        scores[j] += g->bias != NULL ? g->bias[b * g->bias_batch + h * g->bias_head + i * g->bias_row + j] : 0.0;
        max = fmax(max, scores[j]);
    }
    double sink = g->sinks != NULL ? g->sinks[h] : 0.0;
    max = g->smooth ? fmax(max, sink) : max;
    sum = g->smooth ? exp(sink - max) : 0.0;
    for (int64_t j = from; j < end; j++) {
        scores[j] = exp(scores[j] - max);
        sum += scores[j];
    }
    for (int64_t j = from; j < end; j++) {
        for (int64_t x = 0; x < g->size; x++) {
            y[x] += scores[j] / sum * g->values[at + j * g->size + x];
        }
    }
}

static enum pen_status entry_run(struct kernel_call *k, const struct group *g, int64_t b, const double *old_k,
                                 const double *old_v, double *scores)
{
    int64_t last = load_one_i64(k->in[IN_LAST].data, k->in[IN_LAST].dtype, b);
    int64_t total = load_one_i64(k->in[IN_TOTAL].data, k->in[IN_TOTAL].dtype, 0);
    int64_t past = total == g->length ? 0 : last + 1 - g->length; /* a prompt starts at 0, padded behind */
    if (last < 0 || last >= total || past < 0 || past > g->past_room || past + g->length > g->room) {
        return kernel_fail(k, PEN_ERR_INVALID, "a sequence of %lld tokens with %lld new ones", (long long)last + 1,
                           (long long)g->length);
    }
    for (int64_t t = 0; t < g->length && g->half > 0; t++) {
        int64_t at = position_of(k, g, b, t, past, total == g->length);
        if (at < 0 || at >= g->positions) {
            return kernel_fail(k, PEN_ERR_INVALID, "position %lld of a table of %lld", (long long)at,
                               (long long)g->positions);
        }
        for (int64_t h = 0; h < g->heads; h++) {
            turn(g, g->q + ((b * g->length + t) * g->heads + h) * g->size, at);
        }
        for (int64_t h = 0; h < g->kv_heads; h++) {
            turn(g, g->k + ((b * g->length + t) * g->kv_heads + h) * g->size, at);
        }
    }
    cache_fill(g, b, past, old_k, g->k, g->keys);
    cache_fill(g, b, past, old_v, g->v, g->values);
    for (int64_t i = 0; i < g->length * g->heads; i++) {
        int64_t t = i / g->heads, h = i % g->heads;
        double *y = scores + g->room;
        query_run(g, b, h, t, past, scores, y);
        store_f64(k->out[0].data, k->out[0].dtype, ((b * g->length + t) * g->heads + h) * g->size, 1, g->size, y);
    }
    return kernel_cancelled(k);
}

static enum pen_status outputs_new(struct kernel_call *k, struct group *g)
{
    struct shape y = shape_of(3, (const int64_t[]){g->batch, g->length, g->heads * g->size});
    struct shape present = shape_of(4, (const int64_t[]){g->batch, g->kv_heads, g->room, g->size});
    enum pen_status status = kernel_output(k, 0, k->in[IN_Q].dtype, &y);
    for (uint32_t i = 1; i < 3 && status == PEN_OK; i++) {
        status = kernel_wants(k, i) ? kernel_output(k, i, k->in[IN_Q].dtype, &present) : PEN_OK;
    }
    size_t bytes = (size_t)shape_elements(&present) * sizeof *g->keys;
    g->keys = status == PEN_OK ? kernel_scratch(k, bytes) : NULL;
    g->values = status == PEN_OK ? kernel_scratch(k, bytes) : NULL;
    if (status == PEN_OK && (g->keys == NULL || g->values == NULL)) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the caches");
    }
    if (status == PEN_OK) {
        memset(g->keys, 0, bytes);
        memset(g->values, 0, bytes);
    }
    return status;
}

enum pen_status kernel_group_query_attention(struct kernel_call *k)
{
    struct group g;
    double *old_k = NULL, *old_v = NULL;
    enum pen_status status = sizes_read(k, &g);
    status = status == PEN_OK ? data_read(k, &g) : status;
    status = status == PEN_OK ? scores_read(k, &g) : status;
    status = status == PEN_OK ? outputs_new(k, &g) : status;
    if (status == PEN_OK && kernel_has(k, IN_PAST_K)) {
        status = kernel_doubles(k, IN_PAST_K, &old_k);
        status = status == PEN_OK ? kernel_doubles(k, IN_PAST_V, &old_v) : status;
    }
    double *scores = status == PEN_OK ? kernel_scratch(k, (size_t)(g.room + g.size) * sizeof *scores) : NULL;
    if (status == PEN_OK && scores == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for one row of scores");
    }
    for (int64_t b = 0; b < g.batch && status == PEN_OK; b++) {
        status = entry_run(k, &g, b, old_k, old_v, scores);
    }
    for (uint32_t i = 1; i < 3 && status == PEN_OK; i++) {
        if (kernel_wants(k, i)) {
            store_f64(k->out[i].data, k->out[i].dtype, 0, 1, g.batch * g.kv_heads * g.room * g.size,
                      i == 1 ? g.keys : g.values);
        }
    }
    return status;
}
