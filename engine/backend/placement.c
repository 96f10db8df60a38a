#include "backend/backend.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "backend/crossings.h"
#include "backend/partition.h"
#include "backend/kept_types.h"
#include "graph/askew.h"
#include "graph/evaluator.h"
#include "graph/explain.h"
#include "graph/kept.h"
#include "graph/needs.h"
#include "words.h"

/* Class numbers: 0..count-1 are backends, then the executor's own nodes; shape arithmetic that folds once shapes are concrete is in no step. */
struct chooser {
    const struct graph *g;
    struct placement *p;
    const struct shape_env *trial;
    uint32_t *classes;    /* [node_count] */
    uint32_t *from;       /* [node_count] first backend to ask: raised when a plan was refused */
    const char **reasons; /* [node_count] why backends[0] said no */
    const bool *later;    /* [node_count] the strict rule waits for these; may be NULL */
    struct placement_choice how;
    bool *stays;           /* [node_count] left to the CPU because the way to the device costs more */
    bool *forwarded;       /* [node_count] left to the CPU because it is small */
    const uint32_t *maker; /* [value_count] 1 + node that makes the value, 0 = an input or a constant */
};

/* What a person should know of a step's plan; empty = nothing. */
static void placement_note(const struct placement *p, uint32_t step, char *note, size_t bytes)
{
    const struct placed *s = &p->steps[step];
    const struct backend_ops *ops = s->backend < p->backend_count ? p->backends[s->backend].ops : NULL;
    note[0] = '\0';
    if (ops != NULL && ops->plan_note != NULL && s->plan != NULL) {
        ops->plan_note(s->plan, note, bytes);
    }
}

static uint32_t class_executor(const struct chooser *c)
{
    return c->p->backend_count;
}

/* The executor runs what no partition can hold: subgraphs, sequences, strings, shapes that only the data decides. */
static bool needs_executor(const struct chooser *c, const struct node *n)
{
    if ((op_def(n->op)->traits & (OP_CONTROL | OP_SEQUENCE | OP_DYNAMIC)) != 0) {
        return true;
    }
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct fact *f = n->in[i] == VALUE_NONE ? NULL : &c->trial->facts[n->in[i]];
        if (f != NULL && (f->kind != VALUE_TENSOR || f->dtype == PEN_DTYPE_STRING || !shape_known(&f->shape))) {
            return true;
        }
    }
    for (uint32_t o = 0; o < n->out_count; o++) {
        const struct fact *f = n->out[o] == VALUE_NONE ? NULL : &c->trial->facts[n->out[o]];
        if (f != NULL && (f->kind != VALUE_TENSOR || f->dtype == PEN_DTYPE_STRING || !shape_known(&f->shape))) {
            return true;
        }
    }
    return false;
}

static bool is_text(const struct chooser *c, uint32_t value)
{
    return value != VALUE_NONE && c->trial->facts[value].dtype == PEN_DTYPE_STRING;
}

/* It reads or gives texts, which lie in no backend's memory. */
static bool has_texts(const struct chooser *c, const struct node *n)
{
    bool texts = false;
    for (uint32_t i = 0; !texts && i < n->in_count; i++) {
        texts = is_text(c, n->in[i]);
    }
    for (uint32_t o = 0; !texts && o < n->out_count; o++) {
        texts = is_text(c, n->out[o]);
    }
    return texts;
}

static bool is_small(const struct chooser *c, uint32_t value)
{
    int64_t elements = value == VALUE_NONE ? 0 : shape_elements(&c->trial->facts[value].shape);
    return elements >= 0 && elements <= (int64_t)c->how.forward_max;
}

/* It and all that it needs are small, so nothing of it has been on the device: a graph's beginning may run where its inputs lie, and crosses once. */
static bool forwards(const struct chooser *c, uint32_t node)
{
    const struct node *n = &c->g->nodes[node];
    bool small =
        c->how.forward_max > 0 && !c->how.strict && c->p->backend_count > 1 && c->p->backends[0].ops->is_device;
    for (uint32_t i = 0; small && i < n->in_count; i++) {
        const uint32_t maker = n->in[i] == VALUE_NONE ? 0 : c->maker[n->in[i]];
        small = is_small(c, n->in[i]) &&
                (maker == 0 || c->forwarded[maker - 1] || shape_env_folded(c->trial, &c->g->nodes[maker - 1]));
    }
    for (uint32_t o = 0; small && o < n->out_count; o++) {
        small = is_small(c, n->out[o]);
    }
    return small;
}

static uint32_t class_of(struct chooser *c, uint32_t node)
{
    const struct node *n = &c->g->nodes[node];
    if (shape_env_folded(c->trial, n)) {
        return PARTITION_SKIP;
    }
    if (needs_executor(c, n)) {
        c->reasons[node] = "its shapes depend on data";
        return class_executor(c);
    }
    c->forwarded[node] = forwards(c, node);
    const bool near = c->from[node] == 0 && (c->forwarded[node] || c->stays[node]);
    for (uint32_t b = near ? 1 : c->from[node]; b < c->p->backend_count; b++) {
        const char *reason = NULL;
        if (c->p->backends[b].ops->supports(c->p->backends[b].self, c->g, n, &reason)) {
            return b;
        }
        if (b == 0) {
            c->reasons[node] = reason != NULL ? reason : "not supported";
        }
    }
    return class_executor(c);
}

#define LISTED_MAX 12

static void list_node(char *list, size_t room, size_t *used, uint32_t index, const struct node *n, const char *reason)
{
    if (index < LISTED_MAX && *used < room) {
        int more = snprintf(list + *used, room - *used, "%s%s %s (%s)", index > 0 ? ", " : "", n->origin, n->name,
                            reason != NULL ? reason : "not supported");
        *used += more > 0 ? (size_t)more : 0;
    }
}

/* The line that a node lacks, once for all nodes that lack it. */
static void list_line(char *lines, size_t room, const struct graph *g, const struct node *n)
{
    char line[80], quoted[84];
    size_t used = strlen(lines);
    snprintf(quoted, sizeof quoted, "\"%s\"", kept_line(g, n, line, sizeof line));
    if (strstr(lines, quoted) == NULL && used < room) {
        snprintf(lines + used, room - used, "%s%s", used > 0 ? ", " : "", quoted);
    }
}

/* Nodes that nobody can run are found here, at load, and all named. */
static enum pen_status runnable_check(const struct chooser *c, struct pen_error *reterr)
{
    char list[PEN_ERROR_TEXT_BYTES - 560], lines[400] = "";
    const struct evaluator *kernels = evaluator_get(); /* the executor's are the same */
    size_t used = 0;
    uint32_t bad = 0;
    list[0] = '\0';
    for (uint32_t i = 0; i < c->g->node_count; i++) {
        const struct node *n = &c->g->nodes[i];
        const char *reason = "no kernel in this build";
        bool ours = !n->dead && c->classes[i] == class_executor(c) && (op_def(n->op)->traits & OP_CONTROL) == 0;
        if (ours && (kernels == NULL || !kernels->supports(c->g, n, &reason))) {
            list_node(list, sizeof list, &used, bad++, n, reason);
            list_line(lines, sizeof lines, c->g, n);
        }
    }
    if (bad == 0) {
        return PEN_OK;
    }
    return pen_error_set(
        reterr, PEN_ERR_UNSUPPORTED, "this build cannot run %" PRIu32 " of the model's nodes: %s%s%s%s", bad, list,
        bad > LISTED_MAX ? ", ..." : "",
        KEPT_EVERYTHING ? "" : "; add to the list of -DPENSTOCK_KERNELS: ", KEPT_EVERYTHING ? "" : lines);
}

/* Names the nodes that break the strict rule, at most LISTED_MAX of them. */
static enum pen_status strict_check(const struct chooser *c, struct pen_error *reterr)
{
    char list[PEN_ERROR_TEXT_BYTES - 160];
    size_t used = 0;
    uint32_t bad = 0;
    list[0] = '\0';
    for (uint32_t i = 0; i < c->g->node_count; i++) {
        const struct node *n = &c->g->nodes[i];
        bool fine = n->dead || (c->later != NULL && c->later[i]) || c->classes[i] == 0 ||
                    c->classes[i] == PARTITION_SKIP || (op_def(n->op)->traits & OP_CONTROL) != 0 || has_texts(c, n) ||
                    c->p->backends[0].ops->is_reference;
        if (fine) {
            continue;
        }
        list_node(list, sizeof list, &used, bad++, n, c->reasons[i]);
    }
    if (bad == 0) {
        return PEN_OK;
    }
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                         "backend %s cannot take %" PRIu32
                         " of the model's nodes: %s%s; allow fallback placement or choose another backend",
                         c->p->backends[0].ops->name, bad, list, bad > LISTED_MAX ? ", ..." : "");
}

static void steps_drop(struct placement *p)
{
    for (uint32_t i = 0; i < p->step_count; i++) {
        if (p->steps[i].plan != NULL) {
            p->backends[p->steps[i].backend].ops->plan_free(p->steps[i].plan);
        }
    }
    partition_free(p->steps, p->step_count);
    p->steps = NULL;
    p->step_count = 0;
}

/* Every value of a partition leaves it: its list has room for all of them. */
static void outputs_all(const struct chooser *c)
{
    for (uint32_t i = 0; i < c->p->step_count; i++) {
        struct partition *part = &c->p->steps[i].part;
        uint32_t *out = (uint32_t *)(uintptr_t)part->out;
        part->out_count = 0;
        for (uint32_t k = 0; k < part->node_count; k++) {
            const struct node *n = &c->g->nodes[part->nodes[k]];
            for (uint32_t o = 0; o < n->out_count; o++) {
                if (n->out[o] != VALUE_NONE) {
                    out[part->out_count++] = n->out[o];
                }
            }
        }
    }
}

/* Constants as anybody may read them; false without memory. */
static bool part_align(const struct chooser *c, const struct partition *part)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < part->node_count && status == PEN_OK; i++) {
        status = graph_align_inputs(c->g, &c->g->nodes[part->nodes[i]]);
    }
    return status == PEN_OK;
}

/* Makes the plans. A refusal as UNSUPPORTED moves the partition's nodes to the next backend: *ret_again. */
static enum pen_status plans_make(struct chooser *c, bool *ret_again, struct pen_error *reterr)
{
    struct placement *p = c->p;
    for (uint32_t i = 0; i < p->step_count; i++) {
        struct placed *s = &p->steps[i];
        const bool executor = s->backend >= p->backend_count;
        if ((executor || c->how.watch || !p->backends[s->backend].ops->takes_askew) && !part_align(c, &s->part)) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the model's constants within its budget");
        }
        if (executor) {
            s->backend = PLACED_EXECUTOR;
            continue;
        }
        const struct open_backend *b = &p->backends[s->backend];
        struct pen_error why = {0};
        enum pen_status status = b->ops->plan_new(b->self, c->g, &s->part, &s->plan, &why);
        if (status == PEN_OK) {
            continue;
        }
        if (status != PEN_ERR_UNSUPPORTED || c->how.strict || s->backend + 1 >= p->backend_count) {
            return pen_error_set(reterr, status, "%s",
                                 why.text[0] != '\0' ? why.text : "a backend could not plan its part of the model");
        }
        for (uint32_t k = 0; k < s->part.node_count; k++) {
            c->from[s->part.nodes[k]] = s->backend + 1;
        }
        explain_say(explain_of(c->g), PEN_CHOICE_PLACEMENT, c->g->nodes[s->part.nodes[0]].name, "moved on",
                    "%s could not plan the %" PRIu32 " nodes from here on: %s", b->ops->name, s->part.node_count,
                    why.text);
        *ret_again = true;
        return PEN_OK;
    }
    *ret_again = false;
    return PEN_OK;
}

/* Whose kernel the node needs: the executor's are the reference's. */
static void need_note(const struct chooser *c, uint32_t node)
{
    const struct node *n = &c->g->nodes[node];
    uint32_t class = c->classes[node];
    const struct value *in = n->in_count > 0 ? node_in(c->g, n, 0) : NULL;
    if (class < c->p->backend_count || (class == class_executor(c) && (op_def(n->op)->traits & OP_CONTROL) == 0)) {
        needs_note(class < c->p->backend_count ? c->p->backends[class].ops->name : "reference", n->op,
                   in != NULL ? in->dtype : PEN_DTYPE_NONE);
    }
}

static void count_nodes(struct chooser *c)
{
    struct placement *p = c->p;
    for (uint32_t i = 0; i < c->g->node_count; i++) {
        if (c->g->nodes[i].dead) {
            continue;
        }
        need_note(c, i);
        if (c->classes[i] < p->backend_count) {
            p->nodes[c->classes[i]]++;
            p->macs[c->classes[i]] += node_macs(c->g, &c->g->nodes[i], c->trial->facts);
        } else if (c->classes[i] == class_executor(c)) {
            p->executor_nodes++;
        }
    }
    for (uint32_t i = 0; i < p->step_count; i++) {
        PEN_ASSERT((p->steps[i].plan != NULL) == (p->steps[i].backend != PLACED_EXECUTOR),
                   "a step has a plan of its backend, or the executor runs it");
    }
    for (uint32_t i = 1; i < p->step_count; i++) {
        p->crossings += p->steps[i].backend != p->steps[i - 1].backend;
    }
}

/* Before any plan is made. True: some steps stay off the device, and the graph is cut anew. */
static bool steps_weigh(struct chooser *c)
{
    const struct crossings crossings = {c->g, c->trial->facts, c->p->backends, c->p->backend_count, c->how.paces};
    bool weighed =
        c->how.paces != NULL && !c->how.strict && c->p->backend_count > 1 && c->p->backends[0].ops->is_device;
    if (!weighed || !crossings_weigh(&crossings, c->p->steps, c->p->step_count, c->stays)) {
        return false;
    }
    steps_drop(c->p);
    return true;
}

static enum pen_status place(struct chooser *c, struct pen_error *reterr)
{
    for (;;) {
        for (uint32_t i = 0; i < c->g->node_count; i++) {
            c->classes[i] = c->g->nodes[i].dead ? PARTITION_SKIP : class_of(c, i);
        }
        enum pen_status status = c->how.strict ? strict_check(c, reterr) : PEN_OK;
        if (status == PEN_OK) {
            status = runnable_check(c, reterr);
        }
        if (status == PEN_OK) {
            status =
                partition_cut(c->g, c->classes, c->p->backend_count + 1,
                              c->p->backends[0].ops->is_device ? 0 : PARTITION_SKIP, &c->p->steps, &c->p->step_count);
        }
        bool again = false;
        if (status == PEN_OK && steps_weigh(c)) {
            continue;
        }
        if (status == PEN_OK && c->how.watch) {
            outputs_all(c);
        }
        if (status == PEN_OK) {
            status = plans_make(c, &again, reterr);
        }
        if (status != PEN_OK || !again) {
            return status;
        }
        steps_drop(c->p);
    }
}

static void step_precision_explain(const struct placement *p, uint32_t step, struct pen_explain *log)
{
    char note[400];
    placement_note(p, step, note, sizeof note);
    if (note[0] != '\0') {
        explain_say(log, PEN_CHOICE_PRECISION, p->backends[p->steps[step].backend].ops->name, "mixed", "%s", note);
    }
}

/* "vulkan: no kernel; xnnpack: only f32; " of the backends that were asked before `end`. */
static void refusals_text(const struct chooser *c, uint32_t node, uint32_t end, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t b = 0; b < end && b < c->p->backend_count && used < bytes; b++) {
        const struct open_backend *asked = &c->p->backends[b];
        const char *reason = NULL;
        bool takes = asked->ops->supports(asked->self, c->g, &c->g->nodes[node], &reason);
        int more = snprintf(text + used, bytes - used, "%s%s: %s", used > 0 ? "; " : "", asked->ops->name,
                            takes            ? "its plan with it failed"
                            : reason != NULL ? reason
                                             : "not supported");
        used += more > 0 ? (size_t)more : 0;
    }
}

static void node_explain(const struct chooser *c, uint32_t node)
{
    struct pen_explain *log = explain_of(c->g);
    const struct node *n = &c->g->nodes[node];
    uint32_t class = c->classes[node];
    char subject[320], no[800];
    snprintf(subject, sizeof subject, "%.200s (%s)", n->name, op_def(n->op)->name);
    if (class == PARTITION_SKIP) {
        explain_say(log, PEN_CHOICE_PLACEMENT, subject, "folded", "it is known once shapes are: nobody runs it");
        return;
    }
    if (class == class_executor(c) && needs_executor(c, n)) {
        explain_say(log, PEN_CHOICE_PLACEMENT, subject, "executor",
                    (op_def(n->op)->traits & OP_CONTROL) != 0
                        ? "it has subgraphs, which no backend runs"
                        : "its shapes depend on data, or it has texts or sequences: no backend plans those");
        return;
    }
    if (c->forwarded != NULL && c->forwarded[node]) {
        explain_say(log, PEN_CHOICE_PLACEMENT, subject,
                    class < c->p->backend_count ? c->p->backends[class].ops->name : "executor",
                    "it is small and stands at the start: cpu_forward keeps it off the device");
        return;
    }
    if (c->stays != NULL && c->stays[node]) {
        explain_say(log, PEN_CHOICE_PLACEMENT, subject,
                    class < c->p->backend_count ? c->p->backends[class].ops->name : "executor",
                    "its part of the model is not worth the way to the device");
        return;
    }
    refusals_text(c, node, class, no, sizeof no);
    explain_say(log, PEN_CHOICE_PLACEMENT, subject,
                class < c->p->backend_count ? c->p->backends[class].ops->name : "executor", "%s%s",
                no[0] != '\0' ? no : "the first backend takes it",
                class >= c->p->backend_count ? "; the reference's kernel runs it by itself" : "");
}

/* Each node's backend and why not another, and what the plans keep in another precision. */
static void placement_explain(const struct chooser *c)
{
    if (explain_of(c->g) == NULL) {
        return;
    }
    for (uint32_t i = 0; i < c->g->node_count; i++) {
        if (!c->g->nodes[i].dead) {
            node_explain(c, i);
        }
    }
    for (uint32_t i = 0; i < c->p->step_count; i++) {
        step_precision_explain(c->p, i, explain_of(c->g));
    }
}

/* 1 + the node that makes each value; nodes are in topological order. NULL without memory. */
static uint32_t *makers_of(const struct graph *g)
{
    uint32_t *maker = calloc((size_t)g->value_count + 1, sizeof *maker);
    for (uint32_t i = 0; maker != NULL && i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        for (uint32_t o = 0; !n->dead && o < n->out_count; o++) {
            if (n->out[o] != VALUE_NONE) {
                maker[n->out[o]] = i + 1;
            }
        }
    }
    return maker;
}

enum pen_status placement_new(const struct open_backend *backends, uint32_t count, const struct graph *g,
                              struct placement_choice how, const bool *later, struct placement **ret_placement,
                              struct pen_error *reterr)
{
    struct placement *p = calloc(1, sizeof *p);
    struct chooser c = {.g = g, .p = p, .later = later, .how = how};
    struct shape_env *trial = NULL;
    enum pen_status status = trial_env_new(g, &trial, reterr);
    c.trial = trial;
    c.classes = calloc((size_t)g->node_count + 1, sizeof *c.classes);
    c.from = calloc((size_t)g->node_count + 1, sizeof *c.from);
    c.reasons = calloc((size_t)g->node_count + 1, sizeof *c.reasons);
    c.forwarded = calloc((size_t)g->node_count + 1, sizeof *c.forwarded);
    c.stays = calloc((size_t)g->node_count + 1, sizeof *c.stays);
    uint32_t *maker = makers_of(g);
    c.maker = maker;
    if (status != PEN_OK) {
        goto out;
    }
    if (p == NULL || c.forwarded == NULL || c.stays == NULL || maker == NULL || c.classes == NULL || c.from == NULL ||
        c.reasons == NULL) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to place %" PRIu32 " nodes", g->node_count);
        goto out;
    }
    PEN_ASSERT(count <= BACKENDS_MAX, "a placement has room for all open backends");
    p->backend_count = count;
    memcpy(p->backends, backends, count * sizeof *backends);
    status = place(&c, reterr);
    if (status == PEN_OK) {
        count_nodes(&c);
        placement_explain(&c);
        *ret_placement = p;
        p = NULL;
    }
out:
    placement_free(p);
    shape_env_free(trial);
    free(c.classes);
    free(c.from);
    free(c.forwarded);
    free(c.stays);
    free(maker);
    free((void *)c.reasons);
    return status;
}

void placement_free(struct placement *p)
{
    if (p != NULL) {
        steps_drop(p);
        free(p);
    }
}

void placement_add(struct placement *a, const struct placement *b)
{
    for (uint32_t i = 0; i < a->backend_count && i < b->backend_count; i++) {
        a->nodes[i] += b->nodes[i];
        a->macs[i] += b->macs[i];
    }
    a->executor_nodes += b->executor_nodes;
    a->crossings += b->crossings;
}

void placement_text(const struct placement *p, char *text, size_t bytes)
{
    uint32_t nodes = p->executor_nodes;
    uint64_t macs = 0;
    for (uint32_t i = 0; i < p->backend_count; i++) {
        nodes += p->nodes[i];
        macs += p->macs[i];
    }
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < p->backend_count && used < bytes; i++) {
        if (p->nodes[i] == 0) {
            continue;
        }
        int more = snprintf(text + used, bytes - used, "%s%s %" PRIu32 "/%" PRIu32 " nodes", used > 0 ? "; " : "",
                            p->backends[i].ops->name, p->nodes[i], nodes);
        used += more > 0 ? (size_t)more : 0;
        if (macs > 0 && used < bytes) {
            more = snprintf(text + used, bytes - used, " %.1f %% of MACs", 100.0 * (double)p->macs[i] / (double)macs);
            used += more > 0 ? (size_t)more : 0;
        }
    }
    if (p->executor_nodes > 0 && used < bytes) {
        int more = snprintf(text + used, bytes - used, "%sexecutor %" PRIu32 "/%" PRIu32 " nodes", used > 0 ? "; " : "",
                            p->executor_nodes, nodes);
        used += more > 0 ? (size_t)more : 0;
    }
    if (p->crossings > 0 && used < bytes) {
        snprintf(text + used, bytes - used, "; %" PRIu32 " %s", p->crossings,
                 words_plural(p->crossings, "crossing", "crossings"));
    }
    for (uint32_t i = 0; i < p->step_count; i++) {
        char note[400];
        placement_note(p, i, note, sizeof note);
        used = strlen(text);
        if (note[0] != '\0' && used < bytes) {
            snprintf(text + used, bytes - used, "; %s", note);
        }
    }
}
