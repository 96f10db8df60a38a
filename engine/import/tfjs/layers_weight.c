/* A layer's weights by name: "<layer>/kernel", or deeper inside paths such as "model/<layer>/lstm_cell/kernel". */
#include <string.h>

#include "import/tfjs/layers.h"

static bool part_is(const char *at, size_t bytes, const char *name)
{
    return strlen(name) == bytes && memcmp(at, name, bytes) == 0;
}

/* The path without its last part has `name` as a component. */
static bool path_holds(const char *path, const char *name)
{
    const char *last = strrchr(path, '/');
    for (const char *at = path; last && name && at < last;) {
        size_t bytes = strcspn(at, "/");
        if (part_is(at, bytes, name))
            return true;
        at += bytes + 1;
    }
    return false;
}

static bool path_ends(const char *path, const char *suffix)
{
    const char *last = strrchr(path, '/');
    return last && part_is(last + 1, strcspn(last + 1, ":"), suffix);
}

/* How well a path fits: 0 = not; names of what the layer lies in count, since layers of two models may share a name. */
static unsigned path_score(const char *path, const struct klayer *l, const char *suffix)
{
    if (!path_ends(path, suffix))
        return 0;
    bool own = path_holds(path, l->name), wrapped = l->wrapper && path_holds(path, l->wrapper);
    if (!own && !wrapped)
        return 0;
    unsigned score = 1 + (own ? 1u : 0u) + (wrapped ? 2u : 0u) + (l->part && path_holds(path, l->part) ? 16u : 0u);
    for (const struct klayer *k = l->outer; k; k = k->outer)
        score += k->name && path_holds(path, k->name) ? 4u : 0u;
    return score;
}

uint32_t layer_weight(struct kcall *c, const char *suffix)
{
    struct weights *w = &c->l->r->weights;
    const char *best = NULL;
    unsigned most = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        unsigned score = path_score(w->items[i].name, c->l, suffix);
        if (score > most) {
            most = score;
            best = w->items[i].name;
        }
    }
    return best ? js_weight(c->l->r, c->b, best) : VALUE_NONE;
}

uint32_t layer_weight_needed(struct kcall *c, const char *suffix)
{
    uint32_t value = layer_weight(c, suffix);
    if (value == VALUE_NONE)
        build_stop(c->b, PEN_ERR_CORRUPT, "the weights manifest has no %s for it", suffix);
    return value;
}

const float *layer_floats(struct kcall *c, uint32_t value, uint32_t *ret_count)
{
    const struct value *v = build_value(c->b, value);
    if (!v || !v->data || v->dtype != PEN_DTYPE_F32 || v->bytes / sizeof(float) > UINT32_MAX)
        return NULL;
    *ret_count = (uint32_t)(v->bytes / sizeof(float));
    return v->data;
}
