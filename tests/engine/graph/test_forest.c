/* Forests: what a file may get wrong is a sentence, and branches that share what follows are right. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "backend/forest_walk.h"

/* One tree of five nodes over two features; tests change what they ask about. */
struct lists {
    uint32_t root[1], feature[5], yes[5], no[5], entry_node[3], entry_target[3];
    uint8_t mode[5];
    bool nan_yes[5];
    double split[5], weight[3];
    struct forest_source source;
};

static void lists_init(struct lists *l)
{
    *l = (struct lists){.feature = {0, 1},
                        .yes = {1, 3},
                        .no = {2, 4},
                        .mode = {FOREST_LT, FOREST_EQ, FOREST_LEAF, FOREST_LEAF, FOREST_LEAF},
                        .split = {1.0, 2.0},
                        .entry_node = {2, 3, 4},
                        .weight = {10.0, 20.0, 30.0}};
    l->source = (struct forest_source){.nodes = 5,
                                       .roots = 1,
                                       .entries = 3,
                                       .targets = 1,
                                       .root = l->root,
                                       .mode = l->mode,
                                       .feature = l->feature,
                                       .yes = l->yes,
                                       .no = l->no,
                                       .nan_yes = l->nan_yes,
                                       .split = l->split,
                                       .entry_node = l->entry_node,
                                       .entry_target = l->entry_target,
                                       .entry_weight = l->weight};
}

static enum pen_status build(const struct lists *l, struct graph **ret_graph, uint32_t *ret_value,
                             struct pen_error *error)
{
    struct graph_limits limits = graph_limits_default();
    cr_assert_eq(graph_new(&limits, ret_graph), PEN_OK);
    return forest_new(*ret_graph, &l->source, "t", ret_value, error);
}

static float answer(const struct lists *l, float a, float b)
{
    struct graph *g;
    uint32_t value;
    float x[2] = {a, b}, y = -1.0f;
    cr_assert_eq(build(l, &g, &value, NULL), PEN_OK);
    struct forest_call c = {.f = forest_of(g->values[value].data, g->values[value].bytes),
                            .x = x,
                            .width = 2,
                            .rows = 1,
                            .y = &y,
                            .aggregate = FOREST_SUM};
    cr_assert_not_null(c.f);
    cr_assert_eq(c.f->features, 2);
    forest_rows(&c, 0, 1);
    float rows = y;
    uint32_t leaf;
    forest_leaves(&c, 0, 0, 1, &leaf);
    forest_add(&c, 0, &leaf);
    cr_assert_eq(rows, y, "by rows and by trees");
    graph_free(g);
    return y;
}

static void refused(const struct lists *l, const char *part)
{
    struct graph *g;
    uint32_t value;
    struct pen_error error = {0};
    cr_assert_eq(build(l, &g, &value, &error), PEN_ERR_INVALID);
    cr_assert_not_null(strstr(error.text, part), "%s", error.text);
    graph_free(g);
}

Test(forest, a_comparison_is_exact_at_its_split)
{
    struct lists l;
    lists_init(&l);
    cr_assert_eq(answer(&l, nextafterf(1.0f, 0.0f), 2.0f), 20.0f);
    cr_assert_eq(answer(&l, 1.0f, 2.0f), 10.0f);
    cr_assert_eq(answer(&l, 0.0f, 3.0f), 30.0f);
    l.mode[0] = FOREST_GT;
    cr_assert_eq(answer(&l, 1.0f, 2.0f), 10.0f);
    cr_assert_eq(answer(&l, nextafterf(1.0f, 2.0f), 2.0f), 20.0f);
}

Test(forest, not_a_number_goes_where_the_file_says)
{
    struct lists l;
    lists_init(&l);
    cr_assert_eq(answer(&l, NAN, 2.0f), 10.0f);
    l.nan_yes[0] = true;
    cr_assert_eq(answer(&l, NAN, 2.0f), 20.0f);
    l.mode[0] = FOREST_GTE;
    cr_assert_eq(answer(&l, NAN, 2.0f), 20.0f);
    l.mode[1] = FOREST_NEQ;
    cr_assert_eq(answer(&l, NAN, NAN), 20.0f);
}

Test(forest, branches_may_share_what_follows)
{
    struct lists l;
    lists_init(&l);
    l.no[1] = 2;
    cr_assert_eq(answer(&l, 0.0f, 3.0f), 10.0f);
}

Test(forest, ids_that_lead_nowhere_or_in_circles_are_refused)
{
    struct lists l;
    lists_init(&l);
    l.yes[1] = 7;
    refused(&l, "not there");
    lists_init(&l);
    l.yes[1] = 0;
    refused(&l, "circle");
    lists_init(&l);
    l.entry_target[1] = 1;
    refused(&l, "target");
    lists_init(&l);
    l.source.roots = 0;
    refused(&l, "no trees");
}
