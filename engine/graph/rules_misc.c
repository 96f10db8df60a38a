/* Signals, losses, strings, and ai.onnx.ml. */
#include <string.h>

#include "graph/infer_util.h"
#include "graph/rules.h"

/* ---- signals ---------------------------------------------------------------------------------------------------------- */

/* x [..., length, 1 or 2]; onesided keeps half the spectrum (real result of an inverse). */
enum pen_status infer_dft(struct infer *c, struct pen_error *reterr)
{
    struct shape y = *infer_shape_of(c, 0);
    int64_t axis = -2, length;
    bool onesided = node_int(c->n, ATTR_onesided, 0) != 0, inverse = node_int(c->n, ATTR_inverse, 0) != 0;
    int got_axis = infer_has(c, 2) ? infer_int(c, 2, &axis) : 1, got = infer_int(c, 1, &length);
    if (y.rank >= 0) {
        int32_t at = got_axis == 1 ? shape_axis(axis, y.rank) : -1;
        if (y.rank < 2 || got < 0 || (got_axis == 1 && (at < 0 || at == y.rank - 1)) || (got == 1 && length < 1))
            return infer_fail(c, reterr, "the axis or the length is out of range");
        if (at < 0) {
            y = infer_unknown_of_rank(y.rank);
        } else {
            if (infer_has(c, 1))
                y.dim[at] = got == 1 ? length : SHAPE_DIM_UNKNOWN;
            else if (onesided && inverse)
                y.dim[at] = y.dim[at] < 0 ? SHAPE_DIM_UNKNOWN : (y.dim[at] - 1) * 2;
            if (onesided && !inverse && y.dim[at] >= 0)
                y.dim[at] = y.dim[at] / 2 + 1;
        }
        y.dim[y.rank - 1] = onesided && inverse ? 1 : 2;
        if (at >= 0 && y.dim[at] < SHAPE_DIM_UNKNOWN)
            return infer_fail(c, reterr, "the result would have a negative length");
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

/* signal [batch, length, 1 or 2] -> [batch, frames, bins, 2] */
enum pen_status infer_stft(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *window = infer_shape_of(c, 2);
    struct shape y = infer_unknown_of_rank(4);
    int64_t step, frame = SHAPE_DIM_UNKNOWN;
    int got_step = infer_int(c, 1, &step), got_frame = infer_has(c, 3) ? infer_int(c, 3, &frame) : 0;
    if ((x->rank >= 0 && x->rank != 3) || got_step < 0 || got_frame < 0 || (got_step == 1 && step < 1))
        return infer_fail(c, reterr, "the signal needs 3 dimensions, the step and the frame one positive number each");
    if (!infer_has(c, 3) && window->rank == 1)
        frame = window->dim[0];
    else if (got_frame == 0)
        frame = SHAPE_DIM_UNKNOWN;
    if (x->rank == 3) {
        y.dim[0] = x->dim[0];
        if (got_step == 1 && frame > 0 && x->dim[1] >= 0)
            y.dim[1] = x->dim[1] >= frame ? (x->dim[1] - frame) / step + 1 : 0;
    }
    if (frame > 0)
        y.dim[2] = node_int(c->n, ATTR_onesided, 1) ? frame / 2 + 1 : frame;
    y.dim[3] = 2;
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

/* ---- losses and optimisers ------------------------------------------------------------------------------------------------ */

static struct shape loss_shape(const struct infer *c)
{
    return node_text_is(c->n, ATTR_reduction, "none", false) ? *infer_shape_of(c, 1) : shape_scalar();
}

enum pen_status infer_nll_loss(struct infer *c, struct pen_error *reterr)
{
    struct shape y = loss_shape(c);
    (void)reterr;
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_ce_loss(struct infer *c, struct pen_error *reterr)
{
    enum pen_status status = infer_nll_loss(c, reterr);
    infer_put(c, 1, infer_dtype_of(c, 0), infer_shape_of(c, 0));
    return status;
}

/* R, T, then groups of as many tensors as are optimised: X, G, state...; results are new X, new state. */
enum pen_status infer_optimizer(struct infer *c, struct pen_error *reterr)
{
    uint32_t per = c->n->op == OP_Adam ? 4 : 3, states = per - 1, count = (c->n->in_count - 2) / per;
    if (c->n->in_count != 2 + count * per || c->n->out_count != count * states)
        return infer_fail(c, reterr, "inputs and outputs do not come in complete groups");
    for (uint32_t i = 0; i < c->n->out_count; i++) {
        uint32_t group = i / count, from = 2 + (group == 0 ? 0 : group + 1) * count + i % count;
        infer_put(c, i, infer_dtype_of(c, from), infer_shape_of(c, from));
    }
    return PEN_OK;
}

/* ---- strings ------------------------------------------------------------------------------------------------------------------ */

enum pen_status infer_string_normalizer(struct infer *c, struct pen_error *reterr)
{
    struct shape y = *infer_shape_of(c, 0);
    (void)reterr;
    if (y.rank > 0)
        y.dim[y.rank - 1] = SHAPE_DIM_UNKNOWN;
    infer_put(c, 0, PEN_DTYPE_STRING, &y);
    return PEN_OK;
}

enum pen_status infer_string_split(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = *x;
    if (x->rank >= PEN_MAX_RANK)
        return infer_fail(c, reterr, "the result would have more than %d dimensions", PEN_MAX_RANK);
    if (y.rank >= 0)
        y.dim[y.rank++] = SHAPE_DIM_UNKNOWN;
    infer_put(c, 0, PEN_DTYPE_STRING, &y);
    infer_put(c, 1, PEN_DTYPE_I64, x);
    return PEN_OK;
}

enum pen_status infer_text_hash(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put(c, 0, PEN_DTYPE_I64, infer_shape_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_text_replace(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put(c, 0, PEN_DTYPE_STRING, infer_shape_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_text_split(struct infer *c, struct pen_error *reterr)
{
    struct shape indices = infer_unknown_of_rank(2), values = infer_unknown_of_rank(1),
                 dense = shape_of(1, (const int64_t[]){2});
    (void)reterr;
    indices.dim[1] = 2;
    infer_put(c, 0, PEN_DTYPE_I64, &indices);
    infer_put(c, 1, PEN_DTYPE_STRING, &values);
    infer_put(c, 2, PEN_DTYPE_I64, &dense);
    return PEN_OK;
}

enum pen_status infer_text_ngrams(struct infer *c, struct pen_error *reterr)
{
    struct shape grams = infer_unknown_of_rank(1);
    (void)reterr;
    infer_put(c, 0, PEN_DTYPE_STRING, &grams);
    infer_put(c, 1, PEN_DTYPE_I64, infer_shape_of(c, 1));
    return PEN_OK;
}

enum pen_status infer_tokenizer(struct infer *c, struct pen_error *reterr)
{
    struct shape y = *infer_shape_of(c, 0);
    if (y.rank >= PEN_MAX_RANK)
        return infer_fail(c, reterr, "the result would have more than %d dimensions", PEN_MAX_RANK);
    if (y.rank >= 0)
        y.dim[y.rank++] = SHAPE_DIM_UNKNOWN;
    infer_put(c, 0, PEN_DTYPE_STRING, &y);
    return PEN_OK;
}

enum pen_status infer_tfidf(struct infer *c, struct pen_error *reterr)
{
    struct shape y = *infer_shape_of(c, 0);
    uint32_t count;
    const int64_t *indexes = node_ints(c->n, ATTR_ngram_indexes, &count);
    int64_t last = -1;
    for (uint32_t i = 0; i < count; i++)
        last = indexes[i] > last ? indexes[i] : last;
    if (y.rank > 2 || last < 0 || last >= INT32_MAX)
        return infer_fail(c, reterr, "the input has more than 2 dimensions, or ngram_indexes are out of range");
    if (y.rank >= 0) {
        y.dim[y.rank == 2 ? 1 : 0] = last + 1;
        y.rank = y.rank == 2 ? 2 : 1;
    }
    infer_put(c, 0, PEN_DTYPE_F32, &y);
    return PEN_OK;
}

/* ---- ai.onnx.ml ------------------------------------------------------------------------------------------------------------------ */

enum pen_status infer_array_feature_extractor(struct infer *c, struct pen_error *reterr)
{
    struct shape y = *infer_shape_of(c, 0);
    (void)reterr;
    if (y.rank == 1) {
        y.rank = 2;
        y.dim[0] = 1;
    }
    if (y.rank > 0)
        y.dim[y.rank - 1] = shape_elements(infer_shape_of(c, 1));
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

static enum pen_dtype values_dtype(const struct infer *c)
{
    static const struct {
        enum attr_key key;
        enum pen_dtype dtype;
    } lists[] = {{ATTR_values_strings, PEN_DTYPE_STRING},
                 {ATTR_values_int64s, PEN_DTYPE_I64},
                 {ATTR_values_floats, PEN_DTYPE_F32}};
    const struct attr *tensor = node_attr(c->n, ATTR_values_tensor);
    if (tensor && tensor->type == ATTR_TENSOR && tensor->value < c->g->value_count)
        return c->g->values[tensor->value].dtype;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (node_attr(c->n, lists[i].key))
            return lists[i].dtype;
    }
    return infer_dtype_of(c, 0) == PEN_DTYPE_STRING ? PEN_DTYPE_I64 : PEN_DTYPE_STRING;
}

enum pen_status infer_label_encoder(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put(c, 0, values_dtype(c), infer_shape_of(c, 0));
    return PEN_OK;
}

static int64_t rows_of(const struct infer *c)
{
    const struct shape *x = infer_shape_of(c, 0);
    return x->rank == 2 ? x->dim[0] : x->rank == 1 ? 1 : SHAPE_DIM_UNKNOWN;
}

/* Indices [rows], scores [rows, columns]. */
static void put_classes(struct infer *c, int64_t columns)
{
    struct shape index = shape_of(1, (int64_t[]){rows_of(c)}), scores = shape_of(2, (int64_t[]){rows_of(c), columns});
    infer_put(c, 0, PEN_DTYPE_I64, &index);
    infer_put(c, 1, PEN_DTYPE_F32, &scores);
}

enum pen_status infer_class_scores(struct infer *c, struct pen_error *reterr)
{
    int64_t classes = node_int(c->n, ATTR_classes, 0);
    if (classes < 1)
        return infer_fail(c, reterr, "there are no classes");
    put_classes(c, classes);
    return PEN_OK;
}

/* Without probabilities more than two classes have a score per pair. */
enum pen_status infer_svm_classifier(struct infer *c, struct pen_error *reterr)
{
    int64_t classes = node_int(c->n, ATTR_classes, 0);
    uint32_t vectors = 0;
    const struct attr *probabilities = node_attr(c->n, ATTR_prob_a);
    const int64_t *per_class = node_ints(c->n, ATTR_vectors_per_class, &vectors);
    int64_t total = 0;
    for (uint32_t i = 0; i < vectors; i++)
        total += per_class[i] != 0;
    if (classes < 1 || classes > UINT16_MAX)
        return infer_fail(c, reterr, "there are no classes, or more than 65535");
    bool pairs = total > 0 && classes > 2 && (probabilities == NULL || probabilities->count == 0);
    put_classes(c, pairs ? classes * (classes - 1) / 2 : classes);
    return PEN_OK;
}

enum pen_status infer_svm_regressor(struct infer *c, struct pen_error *reterr)
{
    struct shape y = shape_of(2, (int64_t[]){rows_of(c), 1});
    (void)reterr;
    infer_put(c, 0, PEN_DTYPE_F32, &y);
    return PEN_OK;
}

enum pen_status infer_tree_ensemble(struct infer *c, struct pen_error *reterr)
{
    struct shape y = shape_of(2, (int64_t[]){rows_of(c), node_int(c->n, ATTR_n_targets, 1)});
    if (y.dim[1] < 1)
        return infer_fail(c, reterr, "there are no targets");
    infer_put(c, 0, infer_dtype_of(c, 0) == PEN_DTYPE_F64 ? PEN_DTYPE_F64 : PEN_DTYPE_F32, &y);
    return PEN_OK;
}

enum pen_status infer_one_hot_encoder(struct infer *c, struct pen_error *reterr)
{
    const struct attr *ints = node_attr(c->n, ATTR_cats_int64s), *texts = node_attr(c->n, ATTR_cats_strings);
    struct shape y = *infer_shape_of(c, 0);
    if (y.rank >= PEN_MAX_RANK || (!ints && !texts))
        return infer_fail(c, reterr, "there are no categories, or too many dimensions");
    if (y.rank >= 0)
        y.dim[y.rank++] = ints ? ints->count : texts->count;
    infer_put(c, 0, PEN_DTYPE_F32, &y);
    return PEN_OK;
}
