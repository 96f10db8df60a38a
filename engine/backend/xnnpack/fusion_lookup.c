#include <math.h>
#include <string.h>

#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/fusion.h"
#include "backend/xnnpack/onehot.h"
#include "backend/xnnpack/window.h"

/*
 * OneHot, perhaps a Reshape, and MatMul by a constant matrix: how Keras writes an embedding of bytes or letters. Zeros and a single one pick a row of the matrix,
 * so the step copies rows out of the packed weights. An index that no row has makes zeros. The matrix must be finite: zero times infinity would be NaN.
 * Exporters ask for the shape of what OneHot gives, too; that is known without it.
 */
#define ASKERS_MAX 4

struct lookup {
    size_t depth, n;             /* rows and columns of the matrix */
    uint32_t askers[ASKERS_MAX]; /* nodes that want to know the shape of OneHot's output */
    uint32_t asker_count;
};

static bool is_zero_and_one(const struct value *v)
{
    static const float want[2] = {0.0f, 1.0f};
    return v != NULL && v->data != NULL && v->dtype == PEN_DTYPE_F32 && v->bytes == sizeof want &&
           memcmp(v->data, want, sizeof want) == 0;
}

static bool all_finite(const struct value *w)
{
    const char *from = w->data; /* it may lie in a file at any byte */
    float sum = 0.0f;           /* NaN as soon as one is not finite */
    for (int64_t i = 0; i < shape_elements(&w->shape); i++) {
        float x;
        memcpy(&x, from + (size_t)i * sizeof x, sizeof x);
        sum += x * 0.0f;
    }
    return !isnan(sum);
}

static bool is_table(const struct value *w)
{
    return w != NULL && w->data != NULL && w->dtype == PEN_DTYPE_F32 && w->shape.rank == 2 && shape_known(&w->shape) &&
           shape_elements(&w->shape) > 0 && all_finite(w);
}

static int64_t width_of(const struct value *v)
{
    return v->shape.rank > 0 ? v->shape.dim[v->shape.rank - 1] : SHAPE_DIM_UNKNOWN;
}

/* The only node that reads what OneHot gives; those that ask for its shape go into q. NULL: others read it, too. */
static const struct node *rows_reader(const struct finder *f, uint32_t value, struct lookup *q)
{
    const struct node *reader = NULL;
    uint32_t reads = 0;
    for (uint32_t i = 0; i < f->g->node_count; i++) {
        const struct node *n = &f->g->nodes[i];
        for (uint32_t k = 0; !n->dead && k < n->in_count; k++) {
            if (n->in[k] != value) {
                continue;
            }
            reads++;
            if (n->op == OP_Shape && q->asker_count < ASKERS_MAX) {
                q->askers[q->asker_count++] = i;
            } else if (reader != NULL || !finder_free(f, n)) {
                return NULL;
            } else {
                reader = n;
            }
        }
    }
    return f->readers[value] == reads ? reader : NULL; /* else it leaves the partition */
}

/* The rows of OneHot go into a product by a constant matrix; by way of a Reshape that leaves them whole. */
static bool product_find(const struct finder *f, const struct node *hot, struct fusion_parts *parts, struct lookup *q)
{
    const struct node *n = rows_reader(f, hot->out[0], q);
    if (n != NULL && n->op == OP_Reshape && n->in[0] == hot->out[0]) {
        parts->members[parts->member_count++] = n;
        n = finder_reader(f, n->out[0]);
    }
    const struct node *before = parts->members[parts->member_count - 1];
    if (n == NULL || n->op != OP_MatMul || n->in[0] != before->out[0] || act_read(n).fn != UNARY_NONE ||
        isfinite(act_read(n).min) || isfinite(act_read(n).max) || !is_table(node_in(f->g, n, 1))) {
        return false;
    }
    parts->members[parts->member_count++] = n;
    return width_of(node_out(f->g, before, 0)) == node_in(f->g, n, 1)->shape.dim[0];
}

static const struct fusion_kind lookup_kind; /* below */

void fusion_lookup_find(struct finder *f, const struct node *hot)
{
    const struct value *x = node_in(f->g, hot, 0), *y = node_out(f->g, hot, 0);
    struct fusion_parts parts = {.members = {hot}, .member_count = 1, .in = {hot->in[0]}, .in_count = 1};
    struct lookup q = {0};
    if (x->data != NULL || x->shape.rank < 0 || y->shape.rank != x->shape.rank + 1 ||
        shape_axis(node_int(hot, ATTR_axis, -1), y->shape.rank) != y->shape.rank - 1 ||
        !is_zero_and_one(node_in(f->g, hot, 2)) || !product_find(f, hot, &parts, &q)) {
        return;
    }
    const struct node *product = parts.members[parts.member_count - 1];
    struct fusion *fusion = finder_fuse(f, &lookup_kind, &parts, sizeof(struct lookup));
    if (fusion != NULL) {
        const struct shape *w = &node_in(f->g, product, 1)->shape;
        q.depth = (size_t)w->dim[0];
        q.n = (size_t)w->dim[1];
        *(struct lookup *)fusion->detail = q;
    }
}

/* A shape that is not known before the run needs the rows themselves. */
static const char *lookup_misfit(const struct fusion *f, const struct graph *g, const struct shape_env *env)
{
    const struct lookup *q = f->detail;
    for (uint32_t i = 0; i < q->asker_count; i++) {
        if (!g->nodes[q->askers[i]].dead && !shape_env_folded(env, &g->nodes[q->askers[i]])) {
            return "the shape of what it makes is not known before the run";
        }
    }
    return NULL;
}

/* ---- running ---- */

struct lookup_step {
    struct lookup q;
    const struct dense_weights *table; /* the product's own: it runs alone where a bucket needs it */
    enum pen_dtype dtype;
    size_t count, unit_rows;
};

struct lookup_job {
    const struct lookup_step *q;
    const void *indices;
    float *y;
};

/* A row of the matrix lies in pieces, one in each panel. */
static void row_copy(const struct dense_weights *table, size_t row, float *y)
{
    for (size_t c = 0; c < table->n; c += table->nr) {
        const size_t width = table->n - c < table->nr ? table->n - c : table->nr;
        memcpy(y + c, table->data + c * table->k + row * table->nr, width * sizeof *y);
    }
}

static void lookup_task(void *context, size_t unit)
{
    const struct lookup_job *j = context;
    const struct lookup_step *s = j->q;
    const size_t n = s->q.n, end = (unit + 1) * s->unit_rows < s->count ? (unit + 1) * s->unit_rows : s->count;
    for (size_t i = unit * s->unit_rows; i < end; i++) {
        const size_t row = one_hot_row(s->dtype, j->indices, i, s->q.depth);
        if (row < s->q.depth) {
            row_copy(s->table, row, j->y + i * n);
        } else {
            memset(j->y + i * n, 0, n * sizeof(float));
        }
    }
}

static enum pen_status lookup_run(struct step *s, struct run *r)
{
    const struct lookup_step *q = s->state;
    struct lookup_job j = {q, s->in[0], s->out[0]};
    parallel(r, lookup_task, &j, (q->count + q->unit_rows - 1) / q->unit_rows);
    return PEN_OK;
}

static enum pen_status lookup_build(struct build *b)
{
    struct lookup_step *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->q = *(const struct lookup *)b->fusion->detail;
    q->dtype = build_in(b, 0)->dtype;
    q->count = (size_t)shape_elements(&build_in(b, 0)->shape);
    q->unit_rows = CHUNK / q->q.n + 1;
    q->table = b->packed;
    if (q->table == NULL || q->table->k != q->q.depth || q->table->n != q->q.n ||
        shape_elements(&build_out(b, 0)->shape) != (int64_t)(q->count * q->q.n)) {
        return build_fail(b, PEN_ERR_SHAPE, "the result has another size");
    }
    b->step->state = q;
    b->step->run = lookup_run;
    return PEN_OK;
}

static const struct fusion_kind lookup_kind = {.kernel = "own lookup",
                                               .why = "a row of zeros and a single one picks a row of the matrix",
                                               .misfit = lookup_misfit,
                                               .build = lookup_build};
