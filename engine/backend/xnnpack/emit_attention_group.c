/*
 * com.microsoft GroupQueryAttention: causal attention over a cache, several query heads to each head of keys, rotary positions applied here. The new rows are
 * turned and joined to the cache first; attend.h does the rest. Source: ONNX Runtime's contrib operators.
 */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/xnnpack/attend.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/rotary.h"

enum { IN_Q, IN_K, IN_V, IN_PAST_K, IN_PAST_V, IN_LAST, IN_TOTAL, IN_COS, IN_SIN, IN_POSITIONS, IN_BIAS, IN_SINKS };

struct group {
    struct attend core;
    struct rotary_head head;                                /* half 0: nothing turns */
    size_t batch, length, heads, kv_heads, past_room, room; /* room: rows of the present caches */
    size_t positions, ids;                                  /* rows of the tables; positions given */
    enum pen_dtype last_type, total_type;
    size_t at[5]; /* in scratch: queries, keys, values, past lengths, valid lengths */
};
enum { AT_Q, AT_K, AT_V, AT_PAST, AT_VALID };

struct group_job {
    const struct group *g;
    const struct step *s;
    float *q, *keys, *values;
    int64_t *past, *valid;
    bool prompt;
    atomic_bool outside;
};

static bool is_integer(const struct value *v)
{
    return dtype_is(v, PEN_DTYPE_I32) || dtype_is(v, PEN_DTYPE_I64);
}

static bool group_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        bool whole = i == IN_LAST || i == IN_TOTAL || i == IN_POSITIONS;
        if (v != NULL && !(whole ? is_integer(v) : v->dtype == PEN_DTYPE_F32)) {
            return refuse(ret_reason, "only f32, with lengths of i32 or i64");
        }
    }
    const struct value *ids = node_in(g, n, IN_POSITIONS);
    return (node_in(g, n, IN_LAST) != NULL && node_in(g, n, IN_TOTAL) != NULL &&
            (ids == NULL || ids->dtype == PEN_DTYPE_I64)) ||
           refuse(ret_reason, "lengths are missing, or positions are not i64");
}

static int64_t whole(const void *data, enum pen_dtype dtype, size_t i)
{
    return dtype == PEN_DTYPE_I64 ? ((const int64_t *)data)[i] : ((const int32_t *)data)[i];
}

static const void *input(const struct step *s, uint32_t index)
{
    return s->n->in_count > index ? s->in[index] : NULL;
}

/* Rows of the caches before each entry's new ones; false when they do not fit. A prompt starts at 0, padded behind. */
static bool lengths_read(struct group_job *j)
{
    const struct group *g = j->g;
    int64_t total = whole(input(j->s, IN_TOTAL), g->total_type, 0);
    j->prompt = total == (int64_t)g->length;
    bool fits = total >= (int64_t)g->length && total <= (int64_t)g->room;
    for (size_t b = 0; b < g->batch && fits; b++) {
        int64_t last = whole(input(j->s, IN_LAST), g->last_type, b);
        j->past[b] = j->prompt ? 0 : last + 1 - (int64_t)g->length;
        j->valid[b] = j->past[b] + (int64_t)g->length;
        fits = last >= 0 && last < total && j->past[b] >= 0 && j->past[b] <= (int64_t)g->past_room &&
               j->valid[b] <= (int64_t)g->room;
    }
    return fits;
}

/* The row of the tables of token t of entry b; -1: there is none. */
static int64_t position(const struct group_job *j, size_t b, size_t t)
{
    const int64_t *ids = input(j->s, IN_POSITIONS);
    int64_t at = j->past[b] + (int64_t)t;
    if (ids != NULL) {
        size_t i = j->prompt ? 0 : b * j->g->length + t;
        at = i < j->g->ids ? ids[i] + (j->prompt ? (int64_t)t : 0) : -1;
    }
    return j->g->head.half == 0 ? 0 : at >= 0 && at < (int64_t)j->g->positions ? at : -1;
}

/* One new token: its queries go to scratch, its keys and values behind the cache. */
static void token_task(void *context, size_t unit)
{
    struct group_job *j = context;
    const struct group *g = j->g;
    size_t b = unit / g->length, t = unit % g->length, q = g->heads * g->head.size, kv = g->kv_heads * g->head.size;
    int64_t at = position(j, b, t);
    if (at < 0) {
        atomic_store(&j->outside, true);
        return;
    }
    const float *x = input(j->s, IN_Q), *k = input(j->s, IN_K), *v = input(j->s, IN_V);
    const float *c = input(j->s, IN_COS), *s = input(j->s, IN_SIN);
    c = g->head.half > 0 ? c + (size_t)at * g->head.half : NULL;
    s = g->head.half > 0 ? s + (size_t)at * g->head.half : NULL;
    x += unit * (k == NULL ? q + 2 * kv : q); /* packed: queries, keys and values of a token lie side by side */
    const float *fresh_k = k == NULL ? x + q : k + unit * kv, *fresh_v = k == NULL ? x + q + kv : v + unit * kv;
    for (size_t h = 0; h < g->heads; h++) {
        rotary_turn(&g->head, x + h * g->head.size, c, s, j->q + unit * q + h * g->head.size);
    }
    for (size_t h = 0; h < g->kv_heads; h++) {
        size_t row = ((b * g->kv_heads + h) * g->room + (size_t)j->past[b] + t) * g->head.size;
        rotary_turn(&g->head, fresh_k + h * g->head.size, c, s, j->keys + row);
        memcpy(j->values + row, fresh_v + h * g->head.size, g->head.size * sizeof(float));
    }
}

/* The rows of one head that were there; what lies behind the new ones is zero. */
static void cache_task(void *context, size_t unit)
{
    const struct group_job *j = context;
    const struct group *g = j->g;
    size_t b = unit / g->kv_heads, past = (size_t)j->past[b] * g->head.size, end = (size_t)j->valid[b] * g->head.size;
    float *const to[2] = {j->keys, j->values};
    for (uint32_t i = 0; i < 2; i++) {
        const float *from = input(j->s, IN_PAST_K + i);
        float *row = to[i] + unit * g->room * g->head.size;
        if (past > 0) {
            memcpy(row, from + unit * g->past_room * g->head.size, past * sizeof *row);
        }
        memset(row + end, 0, (g->room * g->head.size - end) * sizeof *row);
    }
}

static void *scratch_at(const struct step *s, const struct group *g, uint32_t part)
{
    return (uint8_t *)s->scratch + g->at[part];
}

static enum pen_status group_run(struct step *s, struct run *r)
{
    const struct group *g = s->state;
    float *key = s->n->out_count > 1 ? s->out[1] : NULL, *value = s->n->out_count > 2 ? s->out[2] : NULL;
    struct group_job j = {.g = g, .s = s, .q = scratch_at(s, g, AT_Q)};
    j.keys = key != NULL ? key : scratch_at(s, g, AT_K);
    j.values = value != NULL ? value : scratch_at(s, g, AT_V);
    j.past = scratch_at(s, g, AT_PAST);
    j.valid = scratch_at(s, g, AT_VALID);
    atomic_init(&j.outside, false);
    if (!lengths_read(&j)) {
        return pen_error_set(r->error, PEN_ERR_INVALID, "xnnpack: node %s: the lengths do not fit the caches",
                             s->n->name);
    }
    parallel(r, cache_task, &j, g->batch * g->kv_heads);
    parallel(r, token_task, &j, g->batch * g->length);
    if (atomic_load(&j.outside)) {
        return pen_error_set(r->error, PEN_ERR_INVALID, "xnnpack: node %s: a position is outside of the %zu rows",
                             s->n->name, g->positions);
    }
    struct attend_data d = {.q = j.q, .k = j.keys, .v = j.values, .y = s->out[0], .offset = j.past};
    d.mask = input(s, IN_BIAS);
    d.sinks = input(s, IN_SINKS);
    attend_run(&g->core, &d, s->scratch, r);
    return PEN_OK;
}

static bool sizes_read(struct build *b, struct group *g)
{
    const struct shape *q = &build_in(b, IN_Q)->shape, *out = build_out(b, 1) ? &build_out(b, 1)->shape : NULL;
    const struct fact *k = build_in(b, IN_K), *v = build_in(b, IN_V);
    const struct fact *past[2] = {build_in(b, IN_PAST_K), build_in(b, IN_PAST_V)};
    int64_t heads = node_int(b->n, ATTR_num_heads, 0), kv = node_int(b->n, ATTR_kv_num_heads, 0);
    int64_t all = k == NULL ? heads + 2 * kv : heads;
    if (q->rank != 3 || heads < 1 || kv < 1 || heads % kv != 0 || q->dim[2] % all != 0 || out == NULL ||
        (past[0] == NULL) != (past[1] == NULL)) {
        return false;
    }
    int64_t size = q->dim[2] / all;
    struct shape side = shape_of(3, (int64_t[]){q->dim[0], q->dim[1], kv * size});
    struct shape cache = shape_of(4, (int64_t[]){q->dim[0], kv, past[0] ? past[0]->shape.dim[2] : 0, size});
    struct shape present = shape_of(4, (int64_t[]){q->dim[0], kv, out->dim[2], size});
    *g = (struct group){.batch = (size_t)q->dim[0], .length = (size_t)q->dim[1], .heads = (size_t)heads};
    g->kv_heads = (size_t)kv;
    g->head.size = (size_t)size;
    g->past_room = (size_t)cache.dim[2];
    g->room = (size_t)present.dim[2];
    g->last_type = build_in(b, IN_LAST)->dtype;
    g->total_type = build_in(b, IN_TOTAL)->dtype;
    return (k == NULL || (shape_equal(&k->shape, &side) && v != NULL && shape_equal(&v->shape, &side))) &&
           (past[0] == NULL || (shape_equal(&past[0]->shape, &cache) && shape_equal(&past[1]->shape, &cache))) &&
           shape_equal(out, &present) && (build_out(b, 2) == NULL || shape_equal(&build_out(b, 2)->shape, &present)) &&
           shape_elements(&build_in(b, IN_LAST)->shape) == q->dim[0] &&
           shape_elements(&build_in(b, IN_TOTAL)->shape) == 1;
}

static bool tables_read(struct build *b, struct group *g)
{
    const struct fact *c = build_in(b, IN_COS), *s = build_in(b, IN_SIN), *ids = build_in(b, IN_POSITIONS);
    if (node_int(b->n, ATTR_do_rotary, 0) == 0) {
        return true;
    }
    if (c == NULL || s == NULL || c->shape.rank != 2 || !shape_equal(&c->shape, &s->shape) ||
        2 * c->shape.dim[1] > (int64_t)g->head.size) {
        return false;
    }
    g->positions = (size_t)c->shape.dim[0];
    g->head.half = (size_t)c->shape.dim[1];
    g->ids = ids != NULL ? (size_t)shape_elements(&ids->shape) : 0;
    g->head.interleaved = node_int(b->n, ATTR_rotary_interleaved, 0) != 0;
    return true;
}

static bool core_init(struct build *b, struct group *g)
{
    struct attend *a = &g->core;
    const struct fact *bias = build_in(b, IN_BIAS), *sinks = build_in(b, IN_SINKS);
    struct shape q =
        shape_of(3, (int64_t[]){(int64_t)g->batch, (int64_t)g->length, (int64_t)(g->heads * g->head.size)});
    struct shape k =
        shape_of(4, (int64_t[]){(int64_t)g->batch, (int64_t)g->kv_heads, (int64_t)g->room, (int64_t)g->head.size});
    a->batch = g->batch;
    a->scale = node_float(b->n, ATTR_scale, 0.0f);
    a->scale = a->scale == 0.0f ? 1.0f / sqrtf((float)g->head.size) : a->scale;
    a->softcap = node_float(b->n, ATTR_softcap, 0.0f);
    a->causal = true;
    a->window = node_int(b->n, ATTR_local_window_size, -1);
    a->smooth = node_int(b->n, ATTR_smooth_softmax, 0) > 0 || sinks != NULL;
    return shape_equal(&build_out(b, 0)->shape, &q) && attend_side_init(&a->q, &q, (int64_t)g->heads) &&
           attend_side_init(&a->y, &q, (int64_t)g->heads) && attend_side_init(&a->k, &k, 0) &&
           attend_side_init(&a->v, &k, 0) && attend_init(a, build_threads(b)) &&
           (bias == NULL || (bias->shape.rank == 4 && attend_mask_init(a, &bias->shape, false))) &&
           (sinks == NULL || shape_elements(&sinks->shape) == (int64_t)g->heads);
}

static enum pen_status group_build(struct build *b)
{
    struct group *g = build_alloc(b, sizeof *g);
    if (g == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    if (!sizes_read(b, g) || !tables_read(b, g) || !core_init(b, g)) {
        return build_fail(b, PEN_ERR_SHAPE, "queries, caches, tables and bias do not fit each other");
    }
    const size_t cache = g->batch * g->kv_heads * g->room * g->head.size * sizeof(float);
    const size_t parts[] = {g->batch * g->length * g->heads * g->head.size * sizeof(float),
                            b->n->out_count > 1 ? 0 : cache, build_out(b, 2) != NULL ? 0 : cache,
                            g->batch * sizeof(int64_t), g->batch * sizeof(int64_t)};
    size_t bytes = (attend_scratch_bytes(&g->core) + 63) / 64 * 64;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        g->at[i] = bytes;
        bytes += (parts[i] + 63) / 64 * 64;
    }
    b->step->scratch_bytes = bytes;
    b->step->state = g;
    b->step->run = group_run;
    return PEN_OK;
}

const struct emitter emit_attention_group = {group_supports, NULL, group_build};
