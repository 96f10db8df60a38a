#include "backend/backend.h"

#include <stdlib.h>
#include <string.h>

#include "backend/trial_pins.h"
#include "graph/rules.h"

/* Sizes tried for dynamic dims that are not the batch, until one raises no contradiction; then sides that suit stored positions. */
#define SIZES 8
#define SIDES 8
static const int64_t small_first[SIZES] = {1, 8, 32, 64, 128, 224, 257, 512};
static const int64_t usual_first[SIZES] = {64, 128, 224, 257, 512, 32, 8, 1};

/* "past_sequence_length + sequence_length": as often the size as there are terms. */
static int64_t terms_of(const char *symbol)
{
    int64_t terms = 1;
    for (; symbol != NULL && *symbol != '\0'; symbol++) {
        terms += *symbol == '+';
    }
    return terms;
}

static bool shapes_fill(const struct graph *g, int64_t size, int64_t (*pins)[PEN_MAX_RANK], struct shape *shapes)
{
    bool dynamic = false;
    for (uint32_t i = 0; i < g->input_count; i++) {
        const struct value *v = &g->values[g->inputs[i]];
        shapes[i] = v->shape;
        for (int32_t d = 0; d < shapes[i].rank; d++) {
            if (shapes[i].dim[d] == SHAPE_DIM_UNKNOWN) {
                shapes[i].dim[d] = pins[i][d] > 0 ? pins[i][d] : d == 0 ? 1 : size * terms_of(v->symbol[d]);
                dynamic = true;
            }
        }
    }
    return dynamic;
}

static enum pen_status env_new(const struct graph *g, const int64_t *sizes, struct shape_env **ret_env,
                               struct pen_error *reterr);

/* The node that has the body, and which of its inputs is the body's first; NULL: the graph around it has changed. */
static const struct node *owner_of(const struct graph *body, uint32_t *ret_first)
{
    for (uint32_t i = 0; i < body->parent->node_count; i++) {
        const struct node *n = &body->parent->nodes[i];
        for (uint32_t a = 0; !n->dead && a < n->attr_count; a++) {
            const struct attr *yes = node_attr(n, ATTR_then_branch);
            bool second = n->attrs[a].key == ATTR_else_branch && yes != NULL && yes->type == ATTR_GRAPH;
            if (n->attrs[a].type == ATTR_GRAPH && n->attrs[a].graph == body) {
                *ret_first = n->op != OP_If ? 0 : second ? 1 + yes->graph->input_count : 1;
                return n;
            }
        }
    }
    return NULL;
}

static bool owner_shapes(const struct graph *body, const struct shape_env *around, struct shape *shapes)
{
    uint32_t first = 0;
    const struct node *n = owner_of(body, &first);
    struct fact *in = n != NULL ? calloc((size_t)n->in_count + 1, sizeof *in) : NULL;
    if (in == NULL || first + body->input_count > n->in_count) {
        free(in);
        return false;
    }
    for (uint32_t i = 0; i < n->in_count; i++) {
        in[i] = n->in[i] == VALUE_NONE ? (struct fact){.shape = shape_unknown()} : around->facts[n->in[i]];
    }
    const struct infer c = {.g = body->parent, .n = n, .in = in};
    bool known = n->op == OP_If || control_body_shapes(&c, shapes);
    for (uint32_t i = 0; n->op == OP_If && i < body->input_count; i++) {
        shapes[i] = in[first + i].shape;
    }
    free(in);
    return known;
}

/* A body with the shapes that its node has when the graph around it is tried. */
static struct shape_env *env_within(const struct graph *g, const int64_t *sizes, struct shape *shapes)
{
    struct shape_env *around = NULL, *env = NULL;
    if (env_new(g->parent, sizes, &around, NULL) == PEN_OK && owner_shapes(g, around, shapes) &&
        shape_env_new(g, shapes, NULL, false, &env, NULL) != PEN_OK) {
        env = NULL;
    }
    shape_env_free(around);
    return env;
}

static enum pen_status env_new(const struct graph *g, const int64_t *sizes, struct shape_env **ret_env,
                               struct pen_error *reterr)
{
    struct shape *shapes = calloc((size_t)g->input_count + 1, sizeof *shapes);
    int64_t(*pins)[PEN_MAX_RANK] = calloc((size_t)g->input_count + 1, sizeof *pins), tried[SIZES + SIDES];
    struct shape_env *env = NULL;
    bool dynamic = shapes != NULL && pins != NULL;
    if (dynamic) {
        trial_pins(g, pins);
        memcpy(tried, sizes, SIZES * sizeof *tried);
    }
    size_t count = dynamic ? SIZES + trial_sides(g, tried + SIZES, SIDES) : 0;
    for (size_t i = 0; i < count && dynamic && env == NULL; i++) {
        dynamic = shapes_fill(g, tried[i], pins, shapes);
        if (shape_env_new(g, shapes, NULL, false, &env, NULL) != PEN_OK) {
            env = NULL;
        }
    }
    if (dynamic && env == NULL && g->parent != NULL) {
        env = env_within(g, sizes, shapes);
    }
    enum pen_status status = PEN_OK;
    if (shapes == NULL || pins == NULL) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to try shapes");
    } else if (env == NULL) {
        status = shape_env_new(g, NULL, NULL, false, &env, reterr);
    }
    free(shapes);
    free(pins);
    *ret_env = status == PEN_OK ? env : NULL;
    return status;
}

enum pen_status trial_env_new(const struct graph *g, struct shape_env **ret_env, struct pen_error *reterr)
{
    return env_new(g, small_first, ret_env, reterr);
}

enum pen_status trial_env_usual(const struct graph *g, struct shape_env **ret_env, struct pen_error *reterr)
{
    return env_new(g, usual_first, ret_env, reterr);
}
