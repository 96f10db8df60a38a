/* Partitions: every node once, in an order that can run, convex, with exact boundaries. Over seeded random graphs and small hand-made ones. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "backend/partition.h"
#include "graph/internal.h"

#define NODES_MAX 60

static uint64_t state;

static uint32_t below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

/* A random DAG of Add nodes: each reads two earlier values. */
static struct graph *random_graph(uint32_t nodes)
{
    struct graph_limits limits = graph_limits_default();
    struct graph *g = NULL;
    reference_evaluator_register();
    cr_assert_eq(graph_new(&limits, &g), PEN_OK);
    uint32_t values[NODES_MAX + 1];
    uint32_t count = 0;
    cr_assert_eq(graph_value(g, "x", &values[count++]), PEN_OK);
    cr_assert_eq(graph_input_add(g, values[0]), PEN_OK);
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t in[2] = {values[below(count)], values[below(count)]};
        uint32_t out = 0;
        uint32_t node = 0;
        cr_assert_eq(graph_value(g, NULL, &out), PEN_OK);
        cr_assert_eq(graph_node(g, OP_Add, NULL, in, 2, &out, 1, &node), PEN_OK);
        values[count++] = out;
    }
    cr_assert_eq(graph_output_add(g, values[count - 1]), PEN_OK);
    return g;
}

static bool listed(const uint32_t *ids, uint32_t count, uint32_t id)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* Runs the steps in order on paper: everything a step reads is an input, a constant or made before. */
static void check_steps(const struct graph *g, const uint32_t *classes, const struct placed *steps, uint32_t count)
{
    bool made[NODES_MAX + 1] = {false};
    uint32_t runs[NODES_MAX] = {0};
    for (uint32_t s = 0; s < count; s++) {
        const struct partition *p = &steps[s].part;
        cr_assert(p->node_count > 0);
        for (uint32_t i = 0; i < p->in_count; i++) {
            uint32_t producer = g->values[p->in[i]].producer;
            cr_assert(producer == NODE_NONE || made[producer] || classes[producer] == PARTITION_SKIP,
                      "an input is not there yet");
            cr_assert(producer == NODE_NONE || !listed(p->nodes, p->node_count, producer), "an input is made inside");
        }
        for (uint32_t k = 0; k < p->node_count; k++) {
            const struct node *n = &g->nodes[p->nodes[k]];
            cr_assert_eq(classes[p->nodes[k]], steps[s].backend);
            runs[p->nodes[k]]++;
            for (uint32_t i = 0; i < n->in_count; i++) {
                uint32_t producer = g->values[n->in[i]].producer;
                bool inside = producer != NODE_NONE && listed(p->nodes, k, producer);
                cr_assert(inside || listed(p->in, p->in_count, n->in[i]),
                          "an operand is neither made before nor an input");
            }
        }
        for (uint32_t k = 0; k < p->node_count; k++) {
            made[p->nodes[k]] = true;
        }
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        cr_assert_eq(runs[n], classes[n] == PARTITION_SKIP ? 0u : 1u);
    }
}

static void check_outputs(const struct graph *g, const struct placed *steps, uint32_t count)
{
    for (uint32_t s = 0; s < count; s++) {
        for (uint32_t t = 0; t < count; t++) {
            for (uint32_t i = 0; s != t && i < steps[t].part.in_count; i++) {
                uint32_t v = steps[t].part.in[i];
                bool here = g->values[v].producer != NODE_NONE &&
                            listed(steps[s].part.nodes, steps[s].part.node_count, g->values[v].producer);
                cr_assert(!here || listed(steps[s].part.out, steps[s].part.out_count, v),
                          "a value read elsewhere is no output");
            }
        }
    }
    uint32_t last = g->outputs[0];
    bool given = g->values[last].producer == NODE_NONE;
    for (uint32_t s = 0; s < count; s++) {
        given = given || listed(steps[s].part.out, steps[s].part.out_count, last);
    }
    cr_assert(given, "the graph's output is no partition's output");
}

Test(partition, random_graphs_are_cut_so_that_they_can_run)
{
    for (uint32_t seed = 1; seed <= 300; seed++) {
        state = seed;
        struct graph *g = random_graph(1 + below(NODES_MAX - 1));
        uint32_t classes[NODES_MAX];
        for (uint32_t n = 0; n < g->node_count; n++) {
            classes[n] = below(3);
        }
        struct placed *steps = NULL;
        uint32_t count = 0, device = seed % 4 < 3 ? seed % 4 : PARTITION_SKIP;
        cr_assert_eq(partition_cut(g, classes, 3, device, &steps, &count), PEN_OK);
        check_steps(g, classes, steps, count);
        check_outputs(g, steps, count);
        partition_free(steps, count);
        graph_free(g);
    }
}

Test(partition, one_class_is_one_partition)
{
    state = 7;
    struct graph *g = random_graph(20);
    uint32_t classes[NODES_MAX] = {0};
    struct placed *steps = NULL;
    uint32_t count = 0;
    cr_assert_eq(partition_cut(g, classes, 1, PARTITION_SKIP, &steps, &count), PEN_OK);
    cr_assert_eq(count, 1u);
    cr_assert_eq(steps[0].part.node_count, 20u);
    partition_free(steps, count);
    graph_free(g);
}

Test(partition, skipped_nodes_order_nothing)
{
    state = 11;
    struct graph *g = random_graph(12);
    uint32_t classes[NODES_MAX] = {0};
    classes[3] = PARTITION_SKIP;
    struct placed *steps = NULL;
    uint32_t count = 0;
    cr_assert_eq(partition_cut(g, classes, 1, PARTITION_SKIP, &steps, &count), PEN_OK);
    cr_assert_eq(count, 1u);
    check_steps(g, classes, steps, count);
    partition_free(steps, count);
    graph_free(g);
}

/* Two nodes of x, one of the first, and one of both: whatever the file's order, the device begins and what does not read its result comes before what does. */
static void beside(bool device_first, uint32_t device, const uint32_t *expected, uint32_t expected_count)
{
    struct graph_limits limits = graph_limits_default();
    struct graph *g = NULL;
    struct placed *steps = NULL;
    uint32_t x = 0, v[4] = {0}, node = 0, count = 0;
    const uint32_t ours = device_first ? 0 : 1, other = 1 - ours;
    uint32_t classes[4] = {device_first ? 0 : 1, device_first ? 1 : 0, 1, 0};
    cr_assert_eq(graph_new(&limits, &g), PEN_OK);
    cr_assert_eq(graph_value(g, "x", &x), PEN_OK);
    cr_assert_eq(graph_input_add(g, x), PEN_OK);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(graph_value(g, NULL, &v[i]), PEN_OK);
        const uint32_t in[2] = {i < 2 ? x : v[i == 2 ? ours : other], i < 2 ? x : v[i == 2 ? ours : 2]};
        cr_assert_eq(graph_node(g, OP_Add, NULL, in, 2, &v[i], 1, &node), PEN_OK);
    }
    cr_assert_eq(graph_output_add(g, v[3]), PEN_OK);
    cr_assert_eq(partition_cut(g, classes, 2, device, &steps, &count), PEN_OK);
    check_steps(g, classes, steps, count);
    cr_assert_eq(count, expected_count);
    for (uint32_t s = 0; s < count; s++) {
        cr_expect_eq(steps[s].part.nodes[0], expected[s], "step %u begins with node %u", s, steps[s].part.nodes[0]);
        cr_expect(device == PARTITION_SKIP || partition_reads(&steps[s].part, &steps[0].part) == (s == 2));
    }
    partition_free(steps, count);
    graph_free(g);
}

Test(partition, a_device_begins_and_others_have_something_to_do_beside_it)
{
    beside(true, 0, (uint32_t[]){0, 1, 2, 3}, 4);
    beside(false, 0, (uint32_t[]){1, 0, 2, 3}, 4);
    beside(true, PARTITION_SKIP, (uint32_t[]){0, 1, 3}, 3);
}
