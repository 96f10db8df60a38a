/* Attention that exporters spell out as nodes becomes one step. */
#include "sketch.h"

struct form {
    int64_t heads, queries, keys, size, value;
    bool scaled, mask, heads_last, scale_sides, hidden;
};
static struct form form;

static const char *side(struct sketch *s, int64_t length, int64_t size, const int64_t *perm)
{
    if (form.heads_last) { /* [batch, length, heads, size] as projections give it */
        return sketch_turned(s, sketch_input(s, 4, WRITTEN_DIMS(2, length, form.heads, size)), 4, perm);
    }
    const char *x = sketch_input(s, 4, WRITTEN_DIMS(2, form.heads, length, size));
    return perm[3] == 1 ? sketch_turned(s, x, 4, WRITTEN_DIMS(0, 1, 3, 2)) : x;
}

static void draw_attention(struct sketch *s)
{
    const char *q = side(s, form.queries, form.size, WRITTEN_DIMS(0, 2, 1, 3));
    const char *k = side(s, form.keys, form.size, WRITTEN_DIMS(0, 2, 3, 1));
    const char *v = side(s, form.keys, form.value, WRITTEN_DIMS(0, 2, 1, 3));
    if (form.scale_sides) {
        q = sketch_pair(s, "Mul", q, sketch_scalar(s, "sq", 0.6f));
        k = sketch_pair(s, "Mul", k, sketch_scalar(s, "sk", 0.6f));
    }
    const char *scores = sketch_pair(s, "MatMul", q, k);
    scores = form.scaled ? sketch_pair(s, "Div", scores, sketch_scalar(s, "by", 2.5f)) : scores;
    if (form.hidden) { /* of a few queries every key */
        const char *mask = sketch_input(s, 4, WRITTEN_DIMS(2, 1, form.queries, form.keys));
        const char *seen = sketch_pair(s, "Greater", mask, sketch_scalar(s, "bound", form.keys < 3 ? 0.9f : -0.2f));
        scores = onnx_writer_step(s->w, "Where", ONNX_LIST(seen, scores, sketch_scalar(s, "low", -INFINITY)), NULL);
    } else if (form.mask) {
        scores = sketch_pair(s, "Add", sketch_input(s, 4, WRITTEN_DIMS(2, 1, 1, form.keys)), scores);
    }
    const char *shares = sketch_softmax(s, scores, -1);
    if (form.hidden) {
        shares = onnx_writer_step(
            s->w, "Where", ONNX_LIST(sketch_one(s, "IsNaN", shares), sketch_scalar(s, "zero", 0.0f), shares), NULL);
    }
    const char *y = sketch_pair(s, "MatMul", shares, v);
    sketch_output(s, form.heads_last ? sketch_turned(s, y, 4, WRITTEN_DIMS(0, 2, 1, 3)) : y, 4);
}

Test(fusion, attention_as_exporters_spell_it_out)
{
    static const struct {
        struct form form;
        size_t joined;
    } cases[] = {
        {{3, 13, 29, 8, 8, .scaled = true, .mask = true, .heads_last = true}, 8},
        {{2, 5, 300, 7, 9, .scaled = true}, 4},
        {{1, 70, 257, 33, 40, .mask = true, .heads_last = true}, 7},
        {{4, 1, 19, 16, 16, .scale_sides = true, .heads_last = true}, 8},
        {{2, 17, 31, 5, 3, .scale_sides = true, .scaled = true, .mask = true}, 7},
        {{2, 9, 20, 6, 6, .hidden = true, .heads_last = true}, 9},
        {{2, 40, 2, 6, 6, .hidden = true}, 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        form = cases[i].form;
        sketch_check(draw_attention, cases[i].joined);
        sketch_expect_reason("joined from the nodes that spell it out");
        if (i % 2 == 0) { /* the other cases are other sizes */
            sketch_check_gpu(draw_attention, cases[i].joined);
        }
    }
}

static void draw_three_dims(struct sketch *s)
{
    const char *q = sketch_input(s, 3, WRITTEN_DIMS(6, 11, 12)), *k = sketch_input(s, 3, WRITTEN_DIMS(6, 14, 12));
    const char *v = sketch_input(s, 3, WRITTEN_DIMS(6, 14, 10));
    const char *scores = sketch_pair(s, "MatMul", q, sketch_turned(s, k, 3, WRITTEN_DIMS(0, 2, 1)));
    sketch_output(s, sketch_pair(s, "MatMul", sketch_softmax(s, scores, 2), v), 3);
}

Test(fusion, attention_of_three_dimensions)
{
    sketch_check(draw_three_dims, 3);
    sketch_check_gpu(draw_three_dims, 3);
}

static void draw_shared_keys(struct sketch *s)
{
    const char *q = sketch_input(s, 4, WRITTEN_DIMS(2, 4, 11, 12)), *k = sketch_input(s, 4, WRITTEN_DIMS(2, 1, 12, 14));
    const char *v = sketch_input(s, 4, WRITTEN_DIMS(2, 1, 14, 10));
    sketch_output(s, sketch_pair(s, "MatMul", sketch_softmax(s, sketch_pair(s, "MatMul", q, k), -1), v), 4);
}

Test(fusion, heads_that_share_keys_and_values)
{
    sketch_check(draw_shared_keys, 2);
    sketch_check_gpu(draw_shared_keys, 2);
}

static int64_t mask_batch, mask_rows, query_rows;

static void draw_wide_mask(struct sketch *s)
{
    const char *q = sketch_input(s, 4, WRITTEN_DIMS(1, 2, query_rows, 6)),
               *k = sketch_input(s, 4, WRITTEN_DIMS(1, 2, 6, 7));
    const char *v = sketch_input(s, 4, WRITTEN_DIMS(1, 2, 7, 4)),
               *mask = sketch_input(s, 4, WRITTEN_DIMS(mask_batch, 1, mask_rows, 7));
    sketch_output(
        s,
        sketch_pair(s, "MatMul", sketch_softmax(s, sketch_pair(s, "Add", sketch_pair(s, "MatMul", q, k), mask), -1), v),
        4);
}

Test(fusion, a_mask_may_have_more_batches_than_the_scores)
{
    mask_batch = 3, mask_rows = query_rows = 5;
    sketch_check(draw_wide_mask, 3);
}

Test(fusion, a_mask_with_more_rows_leaves_the_nodes_alone_and_says_so)
{
    mask_batch = query_rows = 1, mask_rows = 5;
    sketch_check(draw_wide_mask, 0);
    sketch_expect_reason("do not fit each other");
}

static void draw_factor_behind(struct sketch *s)
{
    const char *q = sketch_input(s, 4, WRITTEN_DIMS(1, 2, 5, 6)), *k = sketch_input(s, 4, WRITTEN_DIMS(1, 2, 6, 7));
    const char *v = sketch_input(s, 4, WRITTEN_DIMS(1, 2, 7, 4)), *mask = sketch_input(s, 4, WRITTEN_DIMS(1, 1, 5, 7));
    const char *masked = sketch_pair(s, "Add", sketch_pair(s, "MatMul", q, k), mask);
    sketch_output(
        s,
        sketch_pair(s, "MatMul", sketch_softmax(s, sketch_pair(s, "Mul", masked, sketch_scalar(s, "by", 3.0f)), -1), v),
        4);
}

Test(fusion, a_factor_behind_a_mask_is_not_taken_for_one_of_the_scores)
{
    sketch_check(draw_factor_behind, 0);
    sketch_expect_reason("is no factor and no mask");
    sketch_check_gpu(draw_factor_behind, 0);
}

static void draw_seen_shares(struct sketch *s)
{
    const char *q = sketch_input(s, 4, WRITTEN_DIMS(1, 2, 5, 6)), *k = sketch_input(s, 4, WRITTEN_DIMS(1, 2, 6, 5));
    const char *v = sketch_input(s, 4, WRITTEN_DIMS(1, 2, 5, 5)),
               *shares = sketch_softmax(s, sketch_pair(s, "MatMul", q, k), -1);
    sketch_output(s, sketch_pair(s, "Add", sketch_pair(s, "MatMul", shares, v), shares), 4);
}

Test(fusion, shares_that_somebody_reads_stay)
{
    sketch_check(draw_seen_shares, 0);
    sketch_expect_reason("the shares go elsewhere");
    sketch_check_gpu(draw_seen_shares, 0);
}
