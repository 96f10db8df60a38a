/*
 * Regions of TensorFlow 1's control flow. A frame (Enter, Merge, Switch, NextIteration, Exit) is a loop; Switch and Merge outside a frame's own are a pair of
 * branches. Each is written into a graph of its own by looking at the same nodes again, with what it reads from outside captured.
 */
#include <stdlib.h>
#include <string.h>

#include "import/tfjs/flow.h"

#define COPIED_MAX 20000000u /* nodes that regions may look at again, all together */

const char *js_input_at(const struct gnode *n, int index)
{
    return cJSON_GetStringValue(cJSON_GetArrayItem(tfjs_json_list(n->json, "input"), index));
}

struct gnode *js_node_of(const struct scope *s, const char *reference)
{
    const char *output;
    size_t name, bytes;
    uint32_t index;
    if (!reference || !js_reference(reference, &name, &output, &bytes, &index))
        return NULL;
    return js_scope_node(s, reference, name);
}

struct gnode *js_node_in(const struct scope *s, const struct gnode *n, int index)
{
    return js_node_of(s, js_input_at(n, index));
}

bool js_is(const struct gnode *n, const char *op)
{
    return n && strcmp(n->op, op) == 0;
}

const char *js_frame_name(const struct gnode *enter, char *text, size_t bytes)
{
    struct call c = {.attrs = tfjs_json_get(enter->json, "attr")};
    return js_attr_text(&c, "frame_name", text, bytes);
}

static enum pen_dtype type_of(const struct gnode *n)
{
    struct call c = {.attrs = tfjs_json_get(n->json, "attr")};
    return js_attr_dtype(&c, "T", PEN_DTYPE_NONE);
}

int js_merge_back(const struct scope *s, const struct gnode *merge)
{
    for (int i = 0; i < 2; i++) {
        if (js_is(js_node_in(s, merge, i), "NextIteration"))
            return i;
    }
    return -1;
}

/* ---- scopes of regions ------------------------------------------------------------------------------------------------------- */

bool js_scope_region(struct scope *inner, struct scope *outer, struct build *b, struct region *region)
{
    struct tfjs *r = outer->r;
    *inner = (struct scope){.r = r,
                            .b = b,
                            .count = outer->count,
                            .names = outer->names,
                            .depth = outer->depth + 1,
                            .outer = outer,
                            .region = region};
    r->copied += outer->count;
    if (inner->depth > b->g->limits.depth || r->copied > COPIED_MAX) {
        build_stop(b, PEN_ERR_TOO_LARGE, "control flow is nested too deep or used too often");
        return false;
    }
    inner->nodes = malloc(((size_t)outer->count + 1) * sizeof *inner->nodes);
    if (!inner->nodes) {
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for a region of %u nodes", outer->count);
        return false;
    }
    for (uint32_t i = 0; i < outer->count; i++) {
        const struct gnode *n = &outer->nodes[i];
        inner->nodes[i] = (struct gnode){.json = n->json, .name = n->name, .op = n->op};
    }
    return true;
}

void js_scope_region_fini(struct scope *inner)
{
    free(inner->nodes);
}

struct gnode *js_twin(const struct scope *inner, const struct scope *outer, const struct gnode *n)
{
    return &inner->nodes[n - outer->nodes];
}

void js_preset(struct scope *s, struct gnode *n, uint32_t value, uint32_t outs)
{
    struct call c = {.s = s, .b = s->b, .n = n};
    for (uint32_t i = 0; i < outs; i++)
        js_give(&c, i, value);
    n->state = NODE_DONE;
}

/* ---- captures ----------------------------------------------------------------------------------------------------------------- */

uint32_t js_capture(struct scope *s, uint32_t value, enum pen_dtype type)
{
    struct captures *k = s->region->captures;
    const struct value *v = build_value(s->outer->b, value);
    struct shape shape = shape_unknown();
    if (!v || s->b->status != PEN_OK || s->b->g == s->outer->b->g)
        return s->b->status == PEN_OK ? value : VALUE_NONE;
    for (uint32_t i = 0; i < k->count; i++) {
        if (k->outer[i] == value)
            return k->inner[i];
    }
    if (v->data && v->dtype != PEN_DTYPE_STRING)
        return build_const(s->b, v->dtype, &v->shape, v->data, v->bytes, false);
    if (k->count == k->room) {
        uint32_t room = k->room ? 2 * k->room : 16;
        uint32_t *ids = room <= CALL_INPUTS_MAX ? graph_alloc(s->b->g, 2 * (size_t)room * sizeof *ids) : NULL;
        if (!ids) {
            build_stop(s->b, PEN_ERR_TOO_LARGE, "a loop or branch reads %u values from outside", k->count);
            return VALUE_NONE;
        }
        memcpy(ids, k->count ? k->outer : ids, k->count * sizeof *ids);
        memcpy(ids + room, k->count ? k->inner : ids, k->count * sizeof *ids);
        k->outer = ids;
        k->inner = ids + room;
        k->room = room;
    }
    enum pen_dtype dtype = build_dtype(s->outer->b, value);
    if (dtype == PEN_DTYPE_NONE)
        dtype = type == PEN_DTYPE_NONE ? PEN_DTYPE_F32 : type;
    uint32_t id = build_input(s->b, "captured", 8, dtype, &shape);
    if (id == VALUE_NONE)
        return id;
    s->b->g->values[id].kind = s->outer->b->g->values[value].kind;
    k->outer[k->count] = value;
    k->inner[k->count++] = id;
    return id;
}

static bool branch_switch(const struct scope *s, const struct gnode *n)
{
    const char *pred = js_is(n, "Switch") ? js_input_at(n, 1) : NULL;
    return pred && s->region->pred && strcmp(pred, s->region->pred) == 0;
}

bool js_region_outside(const struct scope *s, const struct gnode *n)
{
    const struct region *r = s->region;
    if (!r || n->state == NODE_DONE)
        return false;
    if (r->inside)
        return !r->inside[n - s->nodes] || branch_switch(s, n);
    return js_is(n, "Enter") || js_is(n, "Placeholder");
}

uint32_t js_region_value(struct scope *s, const struct gnode *n, const char *reference)
{
    char name[200];
    enum pen_dtype type = n ? type_of(n) : PEN_DTYPE_NONE;
    bool door =
        n &&
        ((s->region->inside && branch_switch(s, n)) ||
         (s->region->frame && js_is(n, "Enter") && strcmp(js_frame_name(n, name, sizeof name), s->region->frame) == 0));
    return js_capture(s, js_scope_value(s->outer, door ? js_input_at(n, 0) : reference), type);
}

/* ---- what must be there first ------------------------------------------------------------------------------------------------------ */

struct search {
    struct scope *s;
    struct gnode **stack;
    uint32_t depth;
    bool *seen;
    struct needs *needs;
};

static bool search_init(struct search *q, struct scope *s)
{
    *q = (struct search){.s = s};
    q->stack = malloc(((size_t)s->count + 1) * sizeof *q->stack);
    q->seen = calloc((size_t)s->count + 1, 1);
    q->needs = graph_alloc(s->b->g, sizeof *q->needs);
    if (q->needs)
        q->needs->nodes = graph_alloc(s->b->g, ((size_t)s->count + 1) * sizeof *q->needs->nodes);
    s->r->copied += s->count;
    if (!q->stack || !q->seen || !q->needs || !q->needs->nodes)
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory to look through %u nodes", s->count);
    if (s->r->copied > COPIED_MAX)
        build_stop(s->b, PEN_ERR_TOO_LARGE, "too much control flow");
    return s->b->status == PEN_OK;
}

static void search_push(struct search *q, struct gnode *n)
{
    if (n && !q->seen[n - q->s->nodes]) {
        q->seen[n - q->s->nodes] = true;
        q->stack[q->depth++] = n;
    }
}

static void search_need(struct search *q, struct gnode *n)
{
    for (uint32_t i = 0; n && i < q->needs->count; i++) {
        if (q->needs->nodes[i] == n)
            return;
    }
    if (n)
        q->needs->nodes[q->needs->count++] = n;
}

static void search_inputs(struct search *q, const struct gnode *n)
{
    const cJSON *input;
    cJSON_ArrayForEach(input, tfjs_json_list(n->json, "input"))
    {
        search_push(q, js_node_of(q->s, cJSON_GetStringValue(input)));
    }
}

/* Backwards from an Exit to what enters its frame. */
static void frame_search(struct search *q, struct gnode *exit, const char *frame)
{
    char name[200];
    search_push(q, exit);
    while (q->depth > 0) {
        struct gnode *n = q->stack[--q->depth];
        if (js_is(n, "Enter") && strcmp(js_frame_name(n, name, sizeof name), frame) == 0)
            search_need(q, js_node_in(q->s, n, 0));
        else if (js_is(n, "Placeholder"))
            search_need(q, n);
        else
            search_inputs(q, n);
    }
}

static void branch_search(struct search *q, struct gnode *merge, struct region *r)
{
    search_inputs(q, merge);
    while (q->depth > 0) {
        struct gnode *n = q->stack[--q->depth];
        const char *pred = js_is(n, "Switch") ? js_input_at(n, 1) : NULL;
        if (pred && strcmp(pred, r->pred) == 0) {
            search_need(q, js_node_in(q->s, n, 0));
            search_need(q, js_node_in(q->s, n, 1));
        } else if (!r->inside[n - q->s->nodes]) {
            search_need(q, n);
        } else {
            search_inputs(q, n);
        }
    }
}

struct needs *js_needs(struct scope *s, struct gnode *n)
{
    struct search q;
    struct region r = {0};
    struct loop_of loop;
    if (search_init(&q, s)) {
        if (js_is(n, "Exit") && js_loop_find(s, n, &loop))
            frame_search(&q, n, loop.frame);
        else if (js_is(n, "Merge") && js_branch_find(s, n, &r, NULL))
            branch_search(&q, n, &r);
    }
    free(q.stack);
    free(q.seen);
    free(r.inside);
    return q.needs;
}

/* ---- loops ------------------------------------------------------------------------------------------------------------------------- */

bool js_loop_find(const struct scope *s, const struct gnode *exit, struct loop_of *ret)
{
    const struct gnode *sw = js_node_in(s, exit, 0), *merge = js_is(sw, "Switch") ? js_node_in(s, sw, 0) : NULL;
    *ret = (struct loop_of){.cond = sw ? js_node_in(s, sw, 1) : NULL};
    int back = js_is(merge, "Merge") ? js_merge_back(s, merge) : -1;
    const struct gnode *enter = back < 0 ? NULL : js_node_in(s, merge, 1 - back);
    if (!js_is(ret->cond, "LoopCond") || !js_is(enter, "Enter"))
        return false;
    (void)js_frame_name(enter, ret->frame, sizeof ret->frame);
    return true;
}

/* ---- branches ------------------------------------------------------------------------------------------------------------------------ */

/* The Switch that decides about a Merge's input: the first one backwards that no inner Merge closes. How it is read: 1 = when true, 0 = when false. */
struct door {
    const struct gnode *sw;
    bool when;
};

/* `control`: also by what must have run before a node. Constants of a branch have nothing else. */
static struct door door_find(const struct scope *s, const struct gnode *merge, int input, bool control)
{
    struct step {
        const char *reference;
        uint32_t depth;
    } *stack = calloc((size_t)s->count + 2, sizeof *stack);
    bool *seen = calloc((size_t)s->count + 1, 1);
    struct door found = {NULL, false};
    uint32_t n = 0;
    if (stack && seen && js_input_at(merge, input))
        stack[n++] = (struct step){js_input_at(merge, input), 0};
    while (n > 0 && !found.sw) {
        struct step at = stack[--n];
        const struct gnode *node = js_node_of(s, at.reference);
        const char *output;
        size_t name, bytes;
        uint32_t index = 0;
        if (!node || seen[node - s->nodes])
            continue;
        seen[node - s->nodes] = true;
        (void)js_reference(at.reference, &name, &output, &bytes, &index);
        bool loop = js_is(node, "Merge") && js_merge_back(s, node) >= 0,
             inner = js_is(node, "Switch") && !js_is(js_node_in(s, node, 1), "LoopCond");
        if (inner && at.depth == 0) {
            bool named = output && bytes == 11 && memcmp(output, "output_true", 11) == 0;
            found = (struct door){node, index == 1 || named};
            break;
        }
        uint32_t depth = inner ? at.depth - 1 : js_is(node, "Merge") && !loop ? at.depth + 1 : at.depth;
        const cJSON *list = tfjs_json_list(node->json, "input");
        for (int i = 0; i < cJSON_GetArraySize(list) && n < s->count + 1; i++) {
            const char *next = cJSON_GetStringValue(cJSON_GetArrayItem(list, i));
            const char *from = next && control && next[0] == '^' ? next + 1 : next;
            if (from && from[0] != '^' && !(loop && js_is(js_node_of(s, from), "NextIteration")) && !(inner && i == 1))
                stack[n++] = (struct step){from, depth};
        }
    }
    free(stack);
    free(seen);
    return found;
}

/* All of a loop is inside where a part of it is, even what begins with constants. */
static bool frame_inside(const struct scope *s, const struct gnode *n, bool *inside)
{
    const struct gnode *cond = js_is(n, "Switch") ? js_node_in(s, n, 1) : NULL;
    const struct gnode *merge = js_is(cond, "LoopCond") ? js_node_in(s, n, 0) : NULL;
    if (!inside[n - s->nodes] || !js_is(merge, "Merge") || (inside[cond - s->nodes] && inside[merge - s->nodes]))
        return false;
    inside[cond - s->nodes] = inside[merge - s->nodes] = true;
    return true;
}

/* Forward from the Switches, by rounds over the nodes until nothing is added. */
static bool *inside_find(const struct scope *s, const char *pred)
{
    bool *inside = calloc((size_t)s->count + 1, 1), changed = inside != NULL;
    for (uint32_t i = 0; inside && i < s->count; i++) {
        const char *by = js_is(&s->nodes[i], "Switch") ? js_input_at(&s->nodes[i], 1) : NULL;
        inside[i] = by && strcmp(by, pred) == 0;
    }
    while (changed) {
        changed = false;
        s->r->copied += s->count;
        for (uint32_t i = 0; i < s->count && s->r->copied <= COPIED_MAX; i++) {
            const cJSON *input;
            const cJSON *inputs = inside[i] ? NULL : tfjs_json_list(s->nodes[i].json, "input");
            cJSON_ArrayForEach(input, inputs)
            {
                const struct gnode *from = js_node_of(s, cJSON_GetStringValue(input));
                if (from && inside[from - s->nodes] && !inside[i])
                    inside[i] = changed = true;
            }
            changed |= frame_inside(s, &s->nodes[i], inside);
        }
    }
    return inside;
}

bool js_branch_find(struct scope *s, const struct gnode *merge, struct region *ret, int *ret_yes)
{
    const cJSON *list = tfjs_json_list(merge->json, "input");
    struct door first = door_find(s, merge, 0, false), second = first.sw ? first : door_find(s, merge, 1, false);
    if (!second.sw)
        second = first = door_find(s, merge, 0, true);
    if (!second.sw || !js_input_at(second.sw, 1) || cJSON_GetArraySize(list) < 2)
        return false;
    if (ret_yes)
        *ret_yes = first.sw ? !first.when : second.when;
    *ret = (struct region){.pred = js_input_at(second.sw, 1)};
    ret->inside = inside_find(s, ret->pred);
    if (!ret->inside)
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for a branch");
    return ret->inside != NULL;
}
