#include <criterion/criterion.h>
#include <string.h>

#include "build.h"
#include "graph/pass.h"

/* ---- chains drawn at random ------------------------------------------------------------------------------------------------ */

static uint32_t seed;

static int64_t pick(int64_t low, int64_t high)
{
    seed = seed * 1664525u + 1013904223u;
    return low + (int64_t)(seed >> 8) % (high - low + 1);
}

static uint32_t random_transpose(struct graph *g, uint32_t x, struct shape *s)
{
    int64_t perm[PEN_MAX_RANK];
    const struct shape from = *s;
    for (int32_t i = 0; i < s->rank; i++)
        perm[i] = i;
    for (int32_t i = s->rank - 1; i > 0; i--) {
        const int64_t k = pick(0, i), kept = perm[i];
        perm[i] = perm[k];
        perm[k] = kept;
    }
    for (int32_t i = 0; i < s->rank; i++)
        s->dim[i] = from.dim[perm[i]];
    uint32_t y = build_node(g, OP_Transpose, IDS(x));
    cr_assert_eq(graph_attr_ints(g, maker(g, y), ATTR_perm, perm, (uint32_t)s->rank), PEN_OK);
    return y;
}

/* The prime factors of the dims in their order, some of them multiplied again, and ones in between. */
static uint32_t random_reshape(struct graph *g, uint32_t x, struct shape *s)
{
    struct shape to = {.rank = 0};
    for (int32_t d = 0; d < s->rank; d++) {
        for (int64_t left = s->dim[d], factor; left > 1; left /= factor) {
            factor = left % 2 == 0 ? 2 : left % 3 == 0 ? 3 : left;
            if (to.rank > 0 && (to.rank == 6 || pick(0, 1) == 0))
                to.dim[to.rank - 1] *= factor;
            else
                to.dim[to.rank++] = factor;
        }
        if (to.rank < 6 && pick(0, 5) == 0)
            to.dim[to.rank++] = 1;
    }
    if (to.rank == 0)
        to.dim[to.rank++] = 1;
    *s = to;
    return build_node(g, OP_Reshape, IDS(x, build_list(g, to.rank, to.dim)));
}

static uint32_t shuffles(struct graph *g)
{
    uint32_t count = 0;
    struct pen_error error;
    cr_assert_eq(pass_shuffle(g, &count, &error), PEN_OK);
    return count;
}

Test(shuffle, chains_of_any_kind_keep_their_elements)
{
    uint32_t joined = 0;
    for (seed = 1; seed < 20000000u; seed += 40009u) {
        const uint32_t kept = seed;
        struct graph *g = build_graph();
        struct shape s = {.rank = (int32_t)pick(1, 4)};
        for (int32_t d = 0; d < s.rank; d++)
            s.dim[d] = (int64_t[]){1, 2, 3, 4, 6, 12}[pick(0, 5)];
        uint32_t x = build_node(g, OP_Neg, IDS(build_input(g, "x", s.rank, s.dim)));
        for (int64_t n = pick(2, 7); n > 0; n--)
            x = pick(0, 1) ? random_transpose(g, x, &s) : random_reshape(g, x, &s);
        build_output(g, x);
        struct shape_env *before = run_graph(g);
        const uint32_t transposes = count_op(g, OP_Transpose), done = shuffles(g);
        struct shape_env *after = run_graph(g);
        cr_assert_eq(compare_outputs(before, after), 0.0, "seed %u", kept);
        cr_assert(done == 0 ? count_op(g, OP_Transpose) == transposes : count_op(g, OP_Transpose) <= 1, "seed %u",
                  kept);
        cr_assert_eq(shuffles(g), 0u, "seed %u", kept);
        joined += done;
        shape_env_free(before);
        shape_env_free(after);
        graph_free(g);
        seed = kept;
    }
    cr_assert_gt(joined, 100u);
}

/* ---- with an open batch ------------------------------------------------------------------------------------------------------- */

static uint32_t turned(struct graph *g, uint32_t x, uint32_t count, const int64_t *perm)
{
    uint32_t y = build_node(g, OP_Transpose, IDS(x));
    cr_assert_eq(graph_attr_ints(g, maker(g, y), ATTR_perm, perm, count), PEN_OK);
    return y;
}

static uint32_t shaped(struct graph *g, uint32_t x, int32_t count, const int64_t *dims)
{
    return build_node(g, OP_Reshape, IDS(x, build_list(g, count, dims)));
}

#define PERM(...)                                                                                                      \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                                  \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* Blocks of 4 along dim 1 into the batch, and back. */
static uint32_t into_batch(struct graph *g, uint32_t x)
{
    x = shaped(g, turned(g, x, PERM(0, 2, 1)), DIMS(0, 0, -1, 4));
    x = shaped(g, turned(g, x, PERM(2, 1, 3, 0)), DIMS(0, 0, -1));
    return turned(g, x, PERM(2, 0, 1));
}

static uint32_t out_of_batch(struct graph *g, uint32_t x)
{
    x = shaped(g, turned(g, x, PERM(1, 2, 0)), DIMS(0, 0, 4, -1));
    x = shaped(g, turned(g, x, PERM(1, 3, 0, 2)), DIMS(0, 0, -1));
    return turned(g, x, PERM(1, 2, 0));
}

/* The graph for a batch of `n`; -1: open, and only made, joined and given for the shapes of what is known. */
static struct graph *blocks(int64_t n)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(n, 12, 5));
    x = build_node(g, OP_Relu, IDS(into_batch(g, x)));
    build_output(g, out_of_batch(g, x));
    return g;
}

Test(shuffle, blocks_in_an_open_batch)
{
    struct graph *open = blocks(-1), *known = blocks(3);
    struct shape_env *before = run_graph(known);
    cr_assert_eq(shuffles(open), 2u);
    cr_assert_eq(count_op(open, OP_Transpose), 2u);
    cr_assert_leq(count_op(open, OP_Reshape), 4u);
    open->values[open->inputs[0]].shape.dim[0] = 3;
    struct shape_env *after = run_graph(open);
    cr_assert_eq(compare_outputs(before, after), 0.0);
    shape_env_free(before);
    shape_env_free(after);
    graph_free(open);
    graph_free(known);
}

/* What others read too, and a size that is open and cut in a way that nobody knows, stay. */
Test(shuffle, chains_that_stay)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(4, 6)), middle = turned(g, x, PERM(1, 0));
    build_output(g, turned(g, shaped(g, middle, DIMS(3, 8)), PERM(1, 0)));
    build_output(g, build_node(g, OP_Relu, IDS(middle)));
    cr_assert_eq(shuffles(g), 0u);
    graph_free(g);
    g = build_graph();
    x = build_input(g, "x", DIMS(-1, -1, 4));
    build_output(g, turned(g, shaped(g, turned(g, x, PERM(1, 0, 2)), DIMS(0, -1)), PERM(1, 0)));
    cr_assert_eq(shuffles(g), 0u);
    graph_free(g);
}

/* pass_run has it among its passes, by its name. */
Test(shuffle, it_runs_unless_it_is_left_out)
{
    for (int left_out = 0; left_out < 2; left_out++) {
        struct graph *g = blocks(3);
        const struct pass_options options = {
            .fold = true, .fuse = true, .off = left_out ? 1u << pass_find("shuffle") : 0};
        struct pass_report report = {0};
        cr_assert_eq(pass_run(g, &options, &report, NULL), PEN_OK);
        cr_assert_eq(report.shuffles, left_out ? 0u : 2u);
        cr_assert_eq(count_op(g, OP_Transpose), left_out ? 6u : 2u);
        graph_free(g);
    }
}
