/* Memory of constants goes back when nobody needs them, and only then. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "graph/arena.h"
#include "graph/internal.h"
#include "graph/release.h"

#define ITEMS 8192 /* 32 KiB: a block of its own */

static struct graph *g;

static void setup(void)
{
    cr_assert_eq(graph_new(NULL, &g), PEN_OK);
}

static void teardown(void)
{
    graph_free(g);
}

static uint32_t constant(const char *name, float item)
{
    float *items = graph_alloc_data(g, ITEMS * sizeof *items);
    uint32_t id;
    cr_assert_not_null(items);
    for (int i = 0; i < ITEMS; i++)
        items[i] = item;
    struct shape s = shape_of(1, (int64_t[]){ITEMS});
    cr_assert_eq(graph_constant(g, name, PEN_DTYPE_F32, &s, items, ITEMS * sizeof *items, false, &id), PEN_OK);
    return id;
}

/* The same bytes under another name, as folded views have them. */
static uint32_t view(const char *name, uint32_t of)
{
    struct shape s = shape_of(2, (int64_t[]){2, ITEMS / 2});
    uint32_t id;
    cr_assert_eq(graph_constant(g, name, PEN_DTYPE_F32, &s, g->values[of].data, g->values[of].bytes, false, &id),
                 PEN_OK);
    return id;
}

/* Appends y = a + b and makes y an output. */
static uint32_t add(const char *name, uint32_t a, uint32_t b)
{
    uint32_t y;
    cr_assert_eq(graph_value(g, name, &y), PEN_OK);
    cr_assert_eq(graph_node(g, OP_Add, name, (uint32_t[]){a, b}, 2, &y, 1, NULL), PEN_OK);
    cr_assert_eq(graph_output_add(g, y), PEN_OK);
    return y;
}

static uint32_t input(const char *name)
{
    uint32_t x;
    cr_assert_eq(graph_value(g, name, &x), PEN_OK);
    cr_assert_eq(graph_input_add(g, x), PEN_OK);
    return x;
}

static bool nobody(void *context, const struct graph *graph, uint32_t node, uint32_t in)
{
    (void)context, (void)graph, (void)node, (void)in;
    return false;
}

/* Node `*context` reads, the others have copies. */
static bool one_node(void *context, const struct graph *graph, uint32_t node, uint32_t in)
{
    (void)graph, (void)in;
    return node == *(const uint32_t *)context;
}

TestSuite(release, .init = setup, .fini = teardown);

Test(release, trimming_frees_what_no_live_node_uses)
{
    uint32_t used = constant("used", 1.0f), replaced = constant("replaced", 2.0f);
    add("y", input("x"), used);
    uint64_t before = arena_bytes(g->arena);
    cr_assert_eq(graph_trim(g), PEN_OK);
    cr_assert_eq(before - arena_bytes(g->arena), ITEMS * sizeof(float));
    cr_assert_null(g->values[replaced].data);
    cr_assert_float_eq(((const float *)g->values[used].data)[ITEMS - 1], 1.0f, 0.0f);
}

Test(release, trimming_keeps_a_block_that_another_constant_views)
{
    uint32_t base = constant("base", 3.0f), other = view("view", base);
    add("y", input("x"), other);
    cr_assert_eq(graph_trim(g), PEN_OK);
    cr_assert_float_eq(((const float *)g->values[other].data)[0], 3.0f, 0.0f);
}

Test(release, tensor_attributes_and_outputs_are_always_read)
{
    uint32_t attribute = constant("attribute", 1.0f), output = constant("output", 2.0f), node;
    uint32_t y = add("y", input("x"), input("z"));
    node = g->values[y].producer;
    struct attr a = {.key = ATTR_value, .type = ATTR_TENSOR, .value = attribute};
    cr_assert_eq(graph_attr_set(g, node, &a), PEN_OK);
    cr_assert_eq(graph_output_add(g, output), PEN_OK);
    struct release_sums sums;
    cr_assert_eq(graph_release(g, nobody, NULL, &sums), PEN_OK);
    cr_assert(!g->values[attribute].released && !g->values[output].released);
    cr_assert_eq(sums.kept_bytes, 2 * ITEMS * sizeof(float));
}

Test(release, a_copied_constant_goes_unless_somebody_else_reads_it)
{
    uint32_t copied = constant("copied", 1.0f), shared = constant("shared", 2.0f), x = input("x");
    add("a", x, copied);
    add("b", x, shared);
    uint32_t reader = g->values[add("c", x, shared)].producer;
    struct release_sums sums;
    uint64_t before = arena_bytes(g->arena);
    cr_assert_eq(graph_release(g, one_node, &reader, &sums), PEN_OK);
    cr_assert(g->values[copied].released);
    cr_assert_not_null(g->values[copied].data, "it is a constant still");
    cr_assert(!g->values[shared].released);
    cr_assert_eq(sums.weights_bytes, 2 * ITEMS * sizeof(float));
    cr_assert_eq(sums.kept_bytes, ITEMS * sizeof(float));
    cr_assert_eq(before - arena_bytes(g->arena), ITEMS * sizeof(float));
}

static void build_same(void)
{
    uint32_t x = input("x"), w = constant("w", 5.0f), v = view("v", w);
    add("a", x, w);
    add("b", x, v);
}

Test(release, contents_come_back_from_the_same_graph_and_from_no_other)
{
    build_same();
    struct graph *first = g;
    struct release_sums sums;
    cr_assert_eq(graph_release(first, nobody, NULL, &sums), PEN_OK);
    cr_assert_eq(graph_new(NULL, &g), PEN_OK);
    build_same();
    cr_assert_eq(graph_restore(first, g), PEN_OK);
    for (uint32_t i = 0; i < first->value_count; i++) {
        const float *items = first->values[i].data;
        cr_assert(items == NULL || (items[0] == 5.0f && items[ITEMS - 1] == 5.0f));
    }
    input("one_more");
    cr_assert_eq(graph_restore(first, g), PEN_ERR_CORRUPT);
    graph_free(first);
}
