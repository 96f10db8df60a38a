/* What a way to a device costs beside the work there: paces that are given, so that every choice is known; and paces as they are measured. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backend/crossings.h"
#include "backend/partition.h"
#include "backend/reference/evaluate.h"
#include "graph/explain.h"
#include "graph/internal.h"

#define SIDE 100

/* Takes all but Exp. */
static bool device_supports(const struct backend *backend, const struct graph *g, const struct node *n,
                            const char **ret_reason)
{
    (void)backend, (void)g, (void)ret_reason;
    return n->op != OP_Exp;
}

static bool takes_all(const struct backend *backend, const struct graph *g, const struct node *n,
                      const char **ret_reason)
{
    (void)backend, (void)g, (void)n, (void)ret_reason;
    return true;
}

static bool takes_relu(const struct backend *backend, const struct graph *g, const struct node *n,
                       const char **ret_reason)
{
    (void)backend, (void)g, (void)ret_reason;
    return n->op == OP_Relu;
}

static const struct backend_ops device = {.name = "device", .is_device = true, .supports = device_supports},
                                cpu = {.name = "cpu", .supports = takes_all},
                                few = {.name = "few", .supports = takes_relu};

/* x -> MatMul (with a constant) -> Exp -> Relu -> y, each SIDE x SIDE. */
struct world {
    struct graph *g;
    struct fact facts[8];
    struct open_backend backends[3];
    struct paces paces;
    struct crossings c;
    struct placed *steps;
    uint32_t count;
    bool stays[3];
};

static uint32_t chained(struct world *w, enum op op, uint32_t from, uint32_t other)
{
    uint32_t out = 0, node = 0;
    const uint32_t in[2] = {from, other};
    cr_assert_eq(graph_value(w->g, NULL, &out), PEN_OK);
    cr_assert_eq(graph_node(w->g, op, NULL, in, other != VALUE_NONE ? 2 : 1, &out, 1, &node), PEN_OK);
    return out;
}

/* classes: of the three nodes. */
static void world_make(struct world *w, const uint32_t classes[3])
{
    const struct shape square = shape_of(2, (int64_t[]){SIDE, SIDE});
    uint32_t x = 0, k = 0;
    float *data = calloc((size_t)SIDE * SIDE, sizeof *data);
    *w = (struct world){.backends = {{&device, NULL}, {&cpu, NULL}}};
    reference_evaluator_register();
    cr_assert_eq(graph_new(NULL, &w->g), PEN_OK);
    cr_assert_eq(graph_value(w->g, "x", &x), PEN_OK);
    cr_assert_eq(graph_input_add(w->g, x), PEN_OK);
    cr_assert_eq(graph_constant(w->g, "k", PEN_DTYPE_F32, &square, data, (size_t)SIDE * SIDE * sizeof *data, true, &k),
                 PEN_OK);
    free(data);
    uint32_t y = chained(w, OP_Relu, chained(w, OP_Exp, chained(w, OP_MatMul, x, k), VALUE_NONE), VALUE_NONE);
    cr_assert_eq(graph_output_add(w->g, y), PEN_OK);
    for (uint32_t v = 0; v < w->g->value_count; v++) {
        w->facts[v] = (struct fact){.dtype = PEN_DTYPE_F32, .shape = square, .data = w->g->values[v].data};
    }
    memset(w->paces.tried, 1, sizeof w->paces.tried);
    memset(w->paces.known, 1, sizeof w->paces.known);
    w->paces.of[0] = (struct pace){.start_ns = 1000.0, .byte_ns = 0.5};
    w->paces.of[1] = (struct pace){.byte_ns = 0.25, .mac_ns = 0.1};
    w->c = (struct crossings){w->g, w->facts, w->backends, 2, &w->paces};
    cr_assert_eq(partition_cut(w->g, classes, 3, 0, &w->steps, &w->count), PEN_OK);
}

static void world_free(struct world *w)
{
    partition_free(w->steps, w->count);
    graph_free(w->g);
}

#define BYTES ((double)SIDE * SIDE * 4)
#define MACS  ((double)SIDE * SIDE * SIDE)

static const uint32_t around[3] = {0, 1, 0}, all[3] = {0, 0, 0};

Test(crossings, a_part_costs_its_way_on_the_device_and_its_work_on_the_cpu)
{
    struct world w;
    struct crossing cost;
    world_make(&w, around);
    cr_assert_eq(w.count, 3u);
    cr_assert(crossing_cost(&w.c, &w.steps[0].part, &cost));
    cr_expect_float_eq(cost.device_ns, 1000.0 + 0.5 * 2 * BYTES, 1e-6);
    cr_expect_float_eq(cost.cpu_ns, 0.1 * MACS + 0.25 * 2 * BYTES, 1e-6, "a constant is no part of the pass");
    cr_expect_eq(cost.cpu, 1u);
    world_free(&w);
}

/* The product is worth its way; the Relu behind is not: its nodes are marked, the product's are not. */
Test(crossings, a_part_stays_where_its_way_takes_longer)
{
    struct world w;
    struct pen_explain *log = pen_explain_new();
    world_make(&w, around);
    w.g->explain = log;
    cr_expect(crossings_weigh(&w.c, w.steps, w.count, w.stays));
    cr_expect(!w.stays[0] && !w.stays[1] && w.stays[2]);
    world_free(&w);
    pen_explain_free(log);
}

Test(crossings, equal_costs_leave_it_on_the_device)
{
    struct world w;
    world_make(&w, around);
    w.paces.of[0] = (struct pace){.start_ns = 0.25 * 2 * BYTES};
    cr_expect_not(crossings_weigh(&w.c, w.steps, w.count, w.stays));
    w.paces.of[0].start_ns += 1.0;
    cr_expect(crossings_weigh(&w.c, w.steps, w.count, w.stays));
    cr_expect(!w.stays[0] && w.stays[2]);
    world_free(&w);
}

Test(crossings, a_model_that_is_all_the_devices_is_not_weighed)
{
    struct world w;
    world_make(&w, all);
    w.paces.of[0].start_ns = 1e12;
    cr_expect_not(crossings_weigh(&w.c, w.steps, w.count, w.stays));
    world_free(&w);
}

Test(crossings, what_is_not_known_stays_on_the_device)
{
    struct world w;
    struct crossing cost;
    world_make(&w, around);
    w.paces.of[0].start_ns = 1e12;
    for (int i = 0; i < 4; i++) {
        const struct world was = w;
        w.paces.known[0] = i != 0;
        w.paces.known[1] = i != 1;
        w.facts[w.steps[2].part.out[0]].shape.dim[0] = i == 2 ? -1 : SIDE;
        w.backends[1].ops = i == 3 ? &few : &cpu; /* nobody else takes the product */
        cr_expect_not(crossing_cost(&w.c, &w.steps[i == 3 ? 0 : 2].part, &cost), "%d", i);
        w = was;
    }
    w.backends[1].ops = &few;
    w.backends[2].ops = &cpu;
    w.c.backend_count = 3;
    cr_assert(crossing_cost(&w.c, &w.steps[0].part, &cost));
    cr_expect_eq(cost.cpu, 2u, "the first that takes it");
    world_free(&w);
}

/* As measured: a larger run takes longer, a product longer still; a backend that takes no such nodes has no pace, and is not asked again. */
Test(crossings, paces_are_measured_once)
{
    static const struct backend_ops nothing = {.name = "nothing", .supports = takes_relu};
    struct paces paces = {0};
    struct pen_error error = {0};
    const struct backend_config config = {.precision = PEN_PRECISION_F32, .threads = 1};
    struct open_backend backends[1] = {{.ops = backend_find("reference")}};
    reference_evaluator_register();
    cr_assert_not_null(backends[0].ops);
    cr_assert_eq(backends[0].ops->open(&config, &backends[0].self, &error), PEN_OK, "%s", error.text);
    const struct pace *pace = pace_of(&paces, backends, 0);
    cr_assert_not_null(pace);
    cr_expect_gt(pace->start_ns, 0.0);
    cr_expect_gt(pace->byte_ns, 0.0);
    cr_expect_gt(pace->mac_ns, 0.0);
    backends[0].ops->close(backends[0].self);
    backends[0] = (struct open_backend){&nothing, NULL};
    cr_expect_eq(pace_of(&paces, backends, 0), pace, "it is not measured again");
    paces = (struct paces){.tried = {true}};
    cr_expect_null(pace_of(&paces, backends, 0));
}
