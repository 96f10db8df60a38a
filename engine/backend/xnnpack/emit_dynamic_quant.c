#include <math.h>
#include <string.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"

/* DynamicQuantizeLinear: f32 to u8 with a scale and zero point of its own range, zero included. Outputs: bytes, scale, zero point. */
struct dynamic {
    size_t count, units;
};

struct range {
    float min, max;
};

struct dynamic_job {
    const struct dynamic *q;
    const float *x;
    uint8_t *y;
    struct range *ranges;
    float scale, zero;
};

static bool dynamic_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    bool all = n->out_count == 3 && node_out(g, n, 1) != NULL && node_out(g, n, 2) != NULL;
    return (all && dtype_is(node_in(g, n, 0), PEN_DTYPE_F32)) || refuse(ret_reason, "only f32 with all three results");
}

static size_t unit_end(const struct dynamic *q, size_t unit)
{
    return q->count - unit * CHUNK < CHUNK ? q->count : (unit + 1) * CHUNK;
}

static void range_task(void *context, size_t unit)
{
    const struct dynamic_job *j = context;
    const float *x = j->x + unit * CHUNK;
    const size_t n = unit_end(j->q, unit) - unit * CHUNK;
    const float low = isa_own()->fold(FOLD_MIN, x, n), high = isa_own()->fold(FOLD_MAX, x, n);
    struct range r = {fminf(low, 0.0f), fmaxf(high, 0.0f)};
    for (size_t i = unit * CHUNK; (low != low || high != high) && i < unit_end(j->q, unit);
         i++) { /* NaN does not count */
        r.min = j->x[i] < r.min ? j->x[i] : r.min;
        r.max = j->x[i] > r.max ? j->x[i] : r.max;
    }
    j->ranges[unit] = r;
}

/* y = saturate(round(x / scale) + zero), halves to even */
static void bytes_task(void *context, size_t unit)
{
    const struct dynamic_job *j = context;
    const size_t from = unit * CHUNK, n = unit_end(j->q, unit) - from;
    if (j->scale == 0.0f) {
        memset(j->y + from, 0, n);
    } else {
        isa_int()->quantise(j->x + from, j->scale, -j->zero, 255.0f - j->zero, (int32_t)j->zero, j->y + from, n);
    }
}

static enum pen_status dynamic_run(struct step *s, struct run *r)
{
    const struct dynamic *q = s->state;
    struct dynamic_job j = {.q = q, .x = s->in[0], .y = s->out[0], .ranges = s->scratch};
    struct range all = {0.0f, 0.0f};
    parallel(r, range_task, &j, q->units);
    for (size_t i = 0; i < q->units; i++) {
        all.min = j.ranges[i].min < all.min ? j.ranges[i].min : all.min;
        all.max = j.ranges[i].max > all.max ? j.ranges[i].max : all.max;
    }
    j.scale = (all.max - all.min) / 255.0f;
    double zero = j.scale == 0.0f ? 0.0 : nearbyint(-(double)all.min / (double)j.scale);
    j.zero = (float)(zero < 0.0 ? 0.0 : zero > 255.0 ? 255.0 : zero);
    *(float *)s->out[1] = j.scale;
    *(uint8_t *)s->out[2] = (uint8_t)j.zero;
    parallel(r, bytes_task, &j, q->units);
    return PEN_OK;
}

static enum pen_status dynamic_build(struct build *b)
{
    struct dynamic *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->count = (size_t)shape_elements(&build_in(b, 0)->shape);
    q->units = (q->count + CHUNK - 1) / CHUNK;
    b->step->scratch_bytes = (q->units + 1) * sizeof(struct range);
    b->step->state = q;
    b->step->run = dynamic_run;
    return PEN_OK;
}

const struct emitter emit_dynamic_quant = {dynamic_supports, NULL, dynamic_build};
