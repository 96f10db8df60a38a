#include "graph/pass.h"

#include "graph/annotate.h"
#include "graph/kept.h"
#include "graph/explain.h"
#include "graph/pass_explain.h"
#include "graph/pass_internal.h"
#include "graph/release.h"

#include <stdio.h>

static uint32_t live_nodes(const struct graph *g)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        live += !g->nodes[i].dead;
    return live;
}

static bool wanted(const struct pass_options *options, enum pass_id pass)
{
    return (options->off & 1u << pass) == 0;
}

static enum pen_status run_fold(struct graph *g, const struct pass_options *options, struct pass_report *report,
                                struct pen_error *reterr)
{
    enum pen_status status = wanted(options, PASS_DEAD) ? pass_dead(g, &report->dead) : PEN_OK;
    if (status == PEN_OK && wanted(options, PASS_FOLD))
        status = pass_fold(g, &report->folded, reterr);
    if (status == PEN_OK && wanted(options, PASS_COMMON))
        status = pass_common(g, &report->common);
    return status == PEN_OK && wanted(options, PASS_DEAD) ? pass_dead(g, &report->dead) : status;
}

/* What the last pass replaced; a subgraph's share is found with its root's. */
static enum pen_status trim(struct graph *g)
{
    return g->parent ? PEN_OK : graph_trim(g);
}

static enum pen_status run_all(struct graph *g, const struct pass_options *options, struct pass_report *report,
                               struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    if (options->fold)
        status = run_fold(g, options, report, reterr);
    if (status == PEN_OK && options->fuse)
        status = pass_fuse(g, options->off, report, reterr);
    if (status == PEN_OK)
        status = trim(g);
    bool nhwc = options->nhwc && wanted(options, PASS_LAYOUT);
    if (status == PEN_OK && nhwc)
        status = pass_layout(g, report, reterr);
    if (status == PEN_OK && options->fuse && nhwc)
        status = pass_fuse(g, options->off, report, reterr); /* transposes may have stood between neighbours */
    if (status == PEN_OK && options->fold)
        status = run_fold(g, options, report, reterr);
    if (status == PEN_OK && options->fuse && wanted(options, PASS_SHUFFLE))
        status = pass_shuffle(g, &report->shuffles, reterr); /* behind the layout: its transposes are in chains, too */
    return status == PEN_OK ? trim(g) : status;
}

/* Taking a branch, or writing the turns of a loop, may make the condition of the next known; so may lists whose items are known one by one. */
static enum pen_status run_branches(struct graph *g, const struct pass_options *options, struct pass_report *report,
                                    struct pen_error *reterr)
{
    bool any = false;
    for (uint32_t i = 0; i < g->node_count; i++)
        any = any || (!g->nodes[i].dead && (g->nodes[i].op == OP_If || g->nodes[i].op == OP_Loop));
    enum pen_status status = PEN_OK;
    for (uint32_t before = UINT32_MAX; any && status == PEN_OK && before != report->branches + report->unrolled;) {
        before = report->branches + report->unrolled;
        status = pass_fold(g, &report->folded, reterr);
        if (status == PEN_OK && wanted(options, PASS_BRANCH))
            status = pass_branch(g, &report->branches, reterr);
        if (status == PEN_OK && wanted(options, PASS_UNROLL))
            status = pass_unroll(g, &report->unrolled, reterr);
        if (status == PEN_OK && report->unrolled > 0 && wanted(options, PASS_DEAD))
            status = pass_dead(g, &report->dead);
    }
    return status;
}

/* The rows of a subgraph stand under the name of its node. */
static void child_explain(const struct graph *child, const struct node *n, const struct pass_options *options,
                          const struct pass_census *before, const struct pass_report *report)
{
    struct pen_explain *log = explain_of(child);
    char outer[200], scope[200];
    if (!log)
        return;
    snprintf(outer, sizeof outer, "%s", explain_scope_now(log));
    snprintf(scope, sizeof scope, "in %.190s", n->name);
    explain_scope(log, scope);
    pass_explain(child, options, before, report);
    explain_scope(log, outer);
}

/* Bodies of control flow first: what they hold is part of the model too. */
static enum pen_status run_children(struct graph *g, const struct pass_options *options, struct pass_report *report,
                                    struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        for (uint32_t k = 0; k < g->nodes[i].attr_count && status == PEN_OK && !g->nodes[i].dead; k++) {
            struct pass_report inner = {0};
            if (g->nodes[i].attrs[k].type != ATTR_GRAPH)
                continue;
            struct graph *child = g->nodes[i].attrs[k].graph;
            struct pass_census before;
            pass_count(child, &before);
            status = run_children(child, options, report, reterr);
            /* A branch that can never run may hold contradictions: it is left as it is. */
            if (status == PEN_OK && run_all(child, options, &inner, NULL) == PEN_ERR_NO_MEMORY)
                status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to optimise a subgraph");
            if (status == PEN_OK)
                status = graph_compact(child);
            if (status == PEN_OK)
                child_explain(child, &g->nodes[i], options, &before, &inner);
        }
    }
    return status;
}

enum pen_status pass_run(struct graph *g, const struct pass_options *options, struct pass_report *ret_report,
                         struct pen_error *reterr)
{
    struct pass_report report = {.nodes_before = live_nodes(g)};
    struct pass_census before;
    pass_count(g, &before);
    const bool quantised = KEPT(graph_QuantizeLinear) || KEPT(graph_DequantizeLinear);
    enum pen_status status = quantised && options->fuse && wanted(options, PASS_QUANTISE)
                                 ? pass_qdq(g, &report.quantised, reterr)
                                 : PEN_OK; /* before weights fold */
    if (status == PEN_OK && options->fold)
        status = run_branches(g, options, &report, reterr);
    if (status == PEN_OK)
        status = run_children(g, options, &report, reterr);
    if (status == PEN_OK)
        status = run_all(g, options, &report, reterr);
    if (status == PEN_OK)
        status = graph_compact(g);
    if (status == PEN_OK)
        status = graph_annotate(g, reterr);
    if (status != PEN_OK)
        return status;
    report.nodes_after = live_nodes(g);
    pass_explain(g, options, &before, &report);
    if (ret_report)
        *ret_report = report;
    return PEN_OK;
}
