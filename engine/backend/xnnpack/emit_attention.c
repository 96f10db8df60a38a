#include <math.h>
#include <string.h>

#include "backend/xnnpack/attend.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/flash.h"

/* Fewer queries than this are sooner done row by row than keys and values are packed. */
#define QUERIES_PACKED 4

/* Attention: queries, keys and values of 3 or 4 dimensions, a mask, caches of earlier keys and values, valid lengths; y, present key, present value, scores. */
enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST_K, IN_PAST_V, IN_VALID };
enum { OUT_Y, OUT_KEY, OUT_VALUE, OUT_SCORES };

/* Keys or values: [past, then new rows] of each head, joined where there is a cache or somebody wants the result. */
struct joint {
    struct attend_side fresh, all;
    size_t past; /* rows of the cache */
    bool joined;
    size_t offset; /* in scratch, when there is no output to join in */
};

struct attention {
    struct attend core;
    struct flash flash; /* the same in blocks */
    bool in_blocks;
    struct joint side[2];
};

static bool attention_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        bool fits = v == NULL || v->dtype == PEN_DTYPE_F32 || (i == IN_MASK && v->dtype == PEN_DTYPE_BOOL) ||
                    (i == IN_VALID && v->dtype == PEN_DTYPE_I64);
        bool rank = v == NULL || i >= IN_MASK || v->shape.rank == 3 || v->shape.rank == 4;
        if (!fits || !rank) {
            return refuse(ret_reason,
                          fits ? "operands of 3 or 4 dimensions only" : "only f32, with a bool or f32 mask");
        }
    }
    return true;
}

struct join_job {
    const struct joint *joint;
    const float *past, *fresh;
    float *to;
};

static void join_task(void *context, size_t unit)
{
    const struct join_job *j = context;
    const struct attend_side *f = &j->joint->fresh, *all = &j->joint->all;
    size_t b = unit / all->heads, h = unit % all->heads;
    float *to = j->to + unit * all->head_stride;
    if (j->joint->past > 0) {
        memcpy(to, j->past + unit * j->joint->past * all->size, j->joint->past * all->size * sizeof *to);
    }
    for (size_t t = 0; t < f->length; t++) {
        memcpy(to + (j->joint->past + t) * all->size, j->fresh + b * f->batch_stride + h * f->head_stride + t * f->row,
               all->size * sizeof *to);
    }
}

static const float *joint_run(const struct step *s, const struct attention *q, uint32_t index, struct run *r)
{
    const struct joint *joint = &q->side[index];
    const float *fresh = s->in[IN_K + index];
    if (!joint->joined) {
        return fresh;
    }
    float *out = s->n->out_count > OUT_KEY + index ? s->out[OUT_KEY + index] : NULL;
    struct join_job j = {.joint = joint, .fresh = fresh};
    j.past = s->n->in_count > IN_PAST_K + index ? s->in[IN_PAST_K + index] : NULL;
    j.to = out != NULL ? out : (float *)(void *)((uint8_t *)s->scratch + joint->offset);
    parallel(r, join_task, &j, q->core.batch * joint->all.heads);
    return j.to;
}

static enum pen_status attention_run(struct step *s, struct run *r)
{
    const struct attention *q = s->state;
    struct attend_data d = {
        .q = s->in[IN_Q], .k = joint_run(s, q, 0, r), .v = joint_run(s, q, 1, r), .y = s->out[OUT_Y]};
    d.mask = s->n->in_count > IN_MASK ? s->in[IN_MASK] : NULL;
    d.valid = s->n->in_count > IN_VALID ? s->in[IN_VALID] : NULL;
    d.scores = s->n->out_count > OUT_SCORES ? s->out[OUT_SCORES] : NULL;
    if (q->in_blocks) {
        struct flash_data f = {.q = d.q, .k = d.k, .v = d.v, .terms = {d.mask}, .valid = d.valid, .y = d.y};
        flash_run(&q->flash, &f, s->scratch, r);
        return PEN_OK;
    }
    attend_run(&q->core, &d, s->scratch, r);
    return PEN_OK;
}

static struct flash_side flash_side_of(const struct attend_side *s)
{
    return (struct flash_side){s->batch_stride, s->head_stride, s->row, 1};
}

/* Scores that somebody wants to see are made row by row. */
static void blocks_init(struct build *b, struct attention *q)
{
    const struct attend *a = &q->core;
    struct flash *f = &q->flash;
    q->in_blocks = build_out(b, OUT_SCORES) == NULL && a->q.length >= QUERIES_PACKED && a->k.length > 0;
    *f = (struct flash){.batch = a->batch,
                        .heads = a->q.heads,
                        .kv_heads = a->k.heads,
                        .queries = a->q.length,
                        .keys = a->k.length,
                        .size = a->q.size,
                        .value_size = a->v.size,
                        .q = flash_side_of(&a->q),
                        .k = flash_side_of(&a->k),
                        .v = flash_side_of(&a->v),
                        .y = flash_side_of(&a->y),
                        .scale = a->scale,
                        .softcap = a->softcap,
                        .causal = a->causal,
                        .causal_offset = a->causal_offset,
                        .hidden_zero = true};
    if (a->mask != ATTEND_MASK_NONE) {
        f->term_count = 1;
        f->terms[0].kind = a->mask == ATTEND_MASK_F32 ? FLASH_ADD : FLASH_ADD_UNLESS;
        f->terms[0].keys = a->mask_keys;
        f->terms[0].fill = a->mask_false;
        memcpy(f->terms[0].step, a->mask_step, sizeof a->mask_step);
    }
    flash_init(f, build_config(b)->precision, build_threads(b));
    b->step->kernel = q->in_blocks ? "own attention in blocks of queries and keys" : "own attention, row by row";
    b->step->why = q->in_blocks                       ? "its scores stay in the cache"
                   : build_out(b, OUT_SCORES) != NULL ? "somebody reads the scores"
                                                      : "it has few queries";
}

static bool joint_init(struct build *b, struct joint *j, uint32_t index, size_t batch)
{
    const struct fact *past = build_in(b, IN_PAST_K + index), *now = build_in(b, IN_K + index);
    if (!attend_side_init(&j->fresh, &now->shape, node_int(b->n, ATTR_kv_num_heads, 0)) ||
        (size_t)now->shape.dim[0] != batch) {
        return false;
    }
    j->all = j->fresh;
    j->joined = past != NULL || build_out(b, OUT_KEY + index) != NULL;
    if (past != NULL) {
        const struct shape *s = &past->shape;
        if (s->rank != 4 || (size_t)s->dim[0] != batch || (size_t)s->dim[1] != j->fresh.heads ||
            (size_t)s->dim[3] != j->fresh.size) {
            return false;
        }
        j->past = (size_t)s->dim[2];
    }
    if (j->joined) {
        struct shape s = shape_of(4, (int64_t[]){(int64_t)batch, (int64_t)j->fresh.heads,
                                                 (int64_t)(j->past + j->fresh.length), (int64_t)j->fresh.size});
        const struct fact *out = build_out(b, OUT_KEY + index);
        return attend_side_init(&j->all, &s, 0) && (out == NULL || shape_equal(&out->shape, &s));
    }
    return true;
}

static bool outputs_fit(struct build *b, const struct attend *a)
{
    const struct fact *scores = build_out(b, OUT_SCORES), *valid = build_in(b, IN_VALID);
    struct attend_side y = {0};
    bool fits = attend_side_init(&y, &build_out(b, OUT_Y)->shape, (int64_t)a->q.heads) && y.heads == a->q.heads &&
                y.length == a->q.length && y.size == a->v.size;
    return fits &&
           (scores == NULL ||
            shape_elements(&scores->shape) == (int64_t)(a->batch * a->q.heads * a->q.length * a->k.length)) &&
           (valid == NULL || shape_elements(&valid->shape) == (int64_t)a->batch);
}

static enum pen_status attention_build(struct build *b)
{
    struct attention *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    struct attend *a = &q->core;
    const struct shape *x = &build_in(b, IN_Q)->shape;
    const struct fact *mask = build_in(b, IN_MASK);
    a->batch = (size_t)x->dim[0];
    bool fits = attend_side_init(&a->q, x, node_int(b->n, ATTR_q_num_heads, 0)) &&
                joint_init(b, &q->side[0], 0, a->batch) && joint_init(b, &q->side[1], 1, a->batch);
    a->k = q->side[0].all;
    a->v = q->side[1].all;
    fits = fits && attend_init(a, build_threads(b)) &&
           attend_side_init(&a->y, &build_out(b, OUT_Y)->shape, (int64_t)a->q.heads) &&
           (mask == NULL || attend_mask_init(a, &mask->shape, mask->dtype == PEN_DTYPE_BOOL)) && outputs_fit(b, a);
    if (!fits) {
        return build_fail(b, PEN_ERR_SHAPE, "queries, keys, values, mask and caches do not fit each other");
    }
    a->scale =
        node_attr(b->n, ATTR_scale) != NULL ? node_float(b->n, ATTR_scale, 0.0f) : 1.0f / sqrtf((float)a->q.size);
    a->softcap = node_float(b->n, ATTR_softcap, 0.0f);
    a->causal = node_int(b->n, ATTR_is_causal, 0) != 0;
    a->causal_offset = (int64_t)q->side[0].past;
    a->mask_false = -INFINITY;
    a->stage = (enum attend_stage)node_int(b->n, ATTR_qk_matmul_output_mode, 0);
    blocks_init(b, q);
    size_t bytes = q->in_blocks ? flash_scratch_bytes(&q->flash, build_threads(b)) : attend_scratch_bytes(a);
    bytes = (bytes + 63) / 64 * 64;
    for (uint32_t i = 0; i < 2; i++) {
        q->side[i].offset = bytes;
        bytes += q->side[i].joined && build_out(b, OUT_KEY + i) == NULL
                     ? (a->batch * q->side[i].all.batch_stride * sizeof(float) + 63) / 64 * 64
                     : 0;
    }
    b->step->scratch_bytes = bytes;
    b->step->state = q;
    b->step->run = attention_run;
    return PEN_OK;
}

const struct emitter emit_attention = {attention_supports, NULL, attention_build};
