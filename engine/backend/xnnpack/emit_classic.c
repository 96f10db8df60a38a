#include <string.h>

#include "backend/forest_walk.h"
#include "backend/scores.h"
#include "backend/svm.h"
#include "backend/xnnpack/emitters.h"

/*
 * Classical models: TreeEnsemble, ClassScores, SVMClassifier, SVMRegressor on rows of f32, ArrayFeatureExtractor. What the reference computes, in blocks of rows over the threads; where
 * there are few rows, in blocks of trees. The sums are taken in the order of the trees either way.
 */
#define ROWS_MANY  16 /* from here on rows are shared out, below it trees */
#define CLASS_ROWS 64

static bool rows_f32(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    return (dtype_is(x, PEN_DTYPE_F32) && (x->shape.rank == 1 || x->shape.rank == 2)) ||
           refuse(ret_reason, "only rows of f32");
}

/* ---- trees ---------------------------------------------------------------------------------------------------------------- */

struct trees {
    struct forest_call call;
    enum post_transform post;
    uint32_t *leaf; /* [rows, trees] where trees are shared out, else NULL */
};

static bool trees_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *block = node_in(g, n, 1);
    const struct forest *f = block != NULL && block->data != NULL ? forest_of(block->data, block->bytes) : NULL;
    if (f == NULL || f->wide) {
        return refuse(ret_reason, "only trees over f32");
    }
    return rows_f32(g, n, ret_reason);
}

static void rows_task(void *context, size_t unit)
{
    const struct trees *q = context;
    size_t from = unit * FOREST_ROWS, left = q->call.rows - from;
    forest_rows(&q->call, from, left < FOREST_ROWS ? left : FOREST_ROWS);
}

static void leaves_task(void *context, size_t unit)
{
    const struct trees *q = context;
    size_t trees = q->call.f->roots, units = (trees + FOREST_TREES - 1) / FOREST_TREES;
    size_t row = unit / units, from = unit % units * FOREST_TREES, left = trees - from;
    forest_leaves(&q->call, row, from, left < FOREST_TREES ? left : FOREST_TREES, q->leaf + row * trees + from);
}

static enum pen_status trees_run(struct step *s, struct run *r)
{
    struct trees *q = s->state;
    q->call.x = s->in[0];
    q->call.y = s->out[0];
    size_t trees = q->call.f->roots, targets = q->call.f->targets;
    if (q->leaf == NULL) {
        parallel(r, rows_task, q, (q->call.rows + FOREST_ROWS - 1) / FOREST_ROWS);
    } else {
        parallel(r, leaves_task, q, q->call.rows * ((trees + FOREST_TREES - 1) / FOREST_TREES));
        for (size_t i = 0; i < q->call.rows; i++) {
            forest_add(&q->call, i, q->leaf + i * trees);
        }
    }
    for (size_t i = 0; q->post != POST_NONE && i < q->call.rows; i++) {
        post_transform_row(q->post, (float *)s->out[0] + i * targets, targets);
    }
    return PEN_OK;
}

static enum pen_status trees_build(struct build *b)
{
    struct trees *q = build_alloc(b, sizeof *q);
    const struct value *block = node_in(b->g, b->n, 1);
    const char *reason;
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    if (!forest_call_of(b->n, block->data, block->bytes, &build_in(b, 0)->shape, &q->call, &reason)) {
        return build_fail(b, PEN_ERR_SHAPE, reason);
    }
    q->post = post_transform_of(b->n);
    if (q->call.rows < ROWS_MANY) {
        q->leaf = build_alloc(b, q->call.rows * q->call.f->roots * sizeof *q->leaf + 1);
        if (q->leaf == NULL) {
            return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
        }
    }
    b->step->state = q;
    b->step->run = trees_run;
    return PEN_OK;
}

const struct emitter emit_trees = {trees_supports, NULL, trees_build};

/* ---- scores and support vectors --------------------------------------------------------------------------------------------- */

struct classes {
    struct class_scores scores;
    struct svm svm;
    bool votes, regress;
    size_t rows, width, columns, scratch; /* scratch: floats of a unit */
    const float *x;
    int64_t *index;
    float *y, *memory; /* [units, scratch] */
};

static void classes_task(void *context, size_t unit)
{
    const struct classes *q = context;
    size_t to = (unit + 1) * CLASS_ROWS < q->rows ? (unit + 1) * CLASS_ROWS : q->rows;
    for (size_t i = unit * CLASS_ROWS; i < to; i++) {
        const float *x = q->x + i * q->width;
        float *y = q->y + i * q->columns;
        if (q->regress) {
            *y = svm_regress(&q->svm, x);
        } else {
            q->index[i] = q->votes ? svm_classify(&q->svm, x, y, q->memory + unit * q->scratch)
                                   : class_scores_row(&q->scores, x, y);
        }
    }
}

static enum pen_status classes_run(struct step *s, struct run *r)
{
    struct classes *q = s->state;
    q->x = s->in[0];
    q->index = q->regress ? NULL : s->out[0];
    q->y = s->out[q->regress ? 0 : 1];
    parallel(r, classes_task, q, (q->rows + CLASS_ROWS - 1) / CLASS_ROWS);
    return PEN_OK;
}

static bool classes_read(struct build *b, struct classes *q, const char **ret_reason)
{
    q->regress = b->n->op == OP_SVMRegressor;
    q->votes = b->n->op == OP_SVMClassifier;
    if (q->regress || q->votes) {
        bool fits = svm_of(b->n, q->width, &q->svm, ret_reason);
        q->columns = q->regress ? 1 : fits ? svm_scores(&q->svm) : 0;
        q->scratch = fits && q->votes ? svm_scratch(&q->svm) : 0;
        return fits;
    }
    class_scores_of(b->n, q->width, &q->scores);
    q->columns = q->scores.classes;
    *ret_reason = "the scores do not suit the classes";
    return class_scores_fit(&q->scores);
}

static enum pen_status classes_build(struct build *b)
{
    struct classes *q = build_alloc(b, sizeof *q);
    const struct shape *x = &build_in(b, 0)->shape;
    const char *reason = NULL;
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->rows = x->rank > 1 ? (size_t)x->dim[0] : 1;
    q->width = (size_t)x->dim[x->rank - 1];
    if (!classes_read(b, q, &reason)) {
        return build_fail(b, PEN_ERR_SHAPE, reason);
    }
    q->memory = build_alloc(b, ((q->rows + CLASS_ROWS - 1) / CLASS_ROWS) * q->scratch * sizeof(float) + 1);
    if (q->memory == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    b->step->state = q;
    b->step->run = classes_run;
    return PEN_OK;
}

const struct emitter emit_classes = {rows_f32, NULL, classes_build};

/* ---- columns ------------------------------------------------------------------------------------------------------------------ */

struct pick {
    size_t rows, width, count, size; /* size: bytes of an element */
};

static bool pick_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *index = node_in(g, n, 1);
    size_t one = 0;
    return (pen_dtype_bytes(x->dtype, 8, &one) == 0 && one >= 8 && x->shape.rank > 0 &&
            dtype_is(index, PEN_DTYPE_I64)) ||
           refuse(ret_reason, "only elements of whole bytes, and indices of i64");
}

static enum pen_status pick_run(struct step *s, struct run *r)
{
    const struct pick *q = s->state;
    const int64_t *index = s->in[1];
    const unsigned char *x = s->in[0];
    unsigned char *y = s->out[0];
    for (size_t i = 0; i < q->count; i++) {
        if (index[i] < 0 || (size_t)index[i] >= q->width) {
            return pen_error_set(r->error, PEN_ERR_INVALID, "xnnpack: node %s: column %lld of %zu", s->n->name,
                                 (long long)index[i], q->width);
        }
    }
    for (size_t row = 0; row < q->rows; row++) {
        for (size_t i = 0; i < q->count; i++) {
            memcpy(y + (row * q->count + i) * q->size, x + (row * q->width + (size_t)index[i]) * q->size, q->size);
        }
    }
    return PEN_OK;
}

static enum pen_status pick_build(struct build *b)
{
    struct pick *q = build_alloc(b, sizeof *q);
    const struct fact *x = build_in(b, 0);
    size_t eight = 0;
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    (void)pen_dtype_bytes(x->dtype, 8, &eight);
    q->size = eight / 8;
    q->width = (size_t)x->shape.dim[x->shape.rank - 1];
    q->count = (size_t)shape_elements(&build_in(b, 1)->shape);
    q->rows = q->width > 0 ? (size_t)shape_elements(&x->shape) / q->width : 0;
    b->step->state = q;
    b->step->run = pick_run;
    return PEN_OK;
}

const struct emitter emit_pick = {pick_supports, NULL, pick_build};
