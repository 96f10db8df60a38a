#include "backend/backend.h"

#include <stdlib.h>
#include <string.h>

#include "backend/trial_pins.h"

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

static struct shape_env *env_new(const struct graph *g, const int64_t *sizes)
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
    if (shapes != NULL && pins != NULL && env == NULL && shape_env_new(g, NULL, NULL, false, &env, NULL) != PEN_OK) {
        env = NULL;
    }
    free(shapes);
    free(pins);
    return env;
}

struct shape_env *trial_env_new(const struct graph *g)
{
    return env_new(g, small_first);
}

struct shape_env *trial_env_usual(const struct graph *g)
{
    return env_new(g, usual_first);
}
