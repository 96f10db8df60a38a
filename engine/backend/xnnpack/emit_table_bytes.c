#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"

/* ByteTable: any function from bytes to bytes. */
struct lookup_job {
    const uint8_t *x, *table;
    uint8_t *y;
    size_t count;
};

static bool is_byte(const struct value *v)
{
    return dtype_is(v, PEN_DTYPE_U8) || dtype_is(v, PEN_DTYPE_I8);
}

static bool lookup_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *table = node_in(g, n, 1);
    bool ok = is_byte(node_in(g, n, 0)) && is_byte(table) && shape_known(&table->shape);
    return (ok && shape_elements(&table->shape) == 256) || refuse(ret_reason, "not bytes and a table of 256");
}

#define LOOKUP_CHUNK (4 * CHUNK) /* bytes of one unit */

static void lookup_task(void *context, size_t unit)
{
    const struct lookup_job *j = context;
    size_t from = unit * LOOKUP_CHUNK, left = j->count - from;
    isa_lookup()(j->table, j->x + from, j->y + from, left < LOOKUP_CHUNK ? left : LOOKUP_CHUNK);
}

static enum pen_status lookup_run(struct step *s, struct run *r)
{
    struct lookup_job j = {.x = s->in[0], .table = s->in[1], .y = s->out[0], .count = *(const size_t *)s->state};
    parallel(r, lookup_task, &j, (j.count + LOOKUP_CHUNK - 1) / LOOKUP_CHUNK);
    return PEN_OK;
}

static enum pen_status lookup_build(struct build *b)
{
    size_t *count = build_alloc(b, sizeof *count);
    if (count == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    *count = (size_t)shape_elements(&build_in(b, 0)->shape);
    b->step->state = count;
    b->step->run = lookup_run;
    b->inplace = 1;
    return PEN_OK;
}

const struct emitter emit_byte_table = {lookup_supports, NULL, lookup_build};
