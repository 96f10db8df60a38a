/* A layer's weights by name: "<layer>/kernel", or deeper inside paths such as "model/<layer>/lstm_cell/kernel". */
#include <string.h>

#include "import/tfjs/layers.h"

static bool part_is(const char *at, size_t bytes, const char *name)
{
    return strlen(name) == bytes && memcmp(at, name, bytes) == 0;
}

/* The path holds `layer` as a component and ends with `suffix`. */
static bool path_fits(const char *path, const char *layer, const char *suffix)
{
    const char *last = strrchr(path, '/'), *at = path;
    size_t end = last ? strcspn(last + 1, ":") : 0;
    if (!last || !part_is(last + 1, end, suffix))
        return false;
    while (at < last) {
        size_t bytes = strcspn(at, "/");
        if (part_is(at, bytes, layer))
            return true;
        at += bytes + 1;
    }
    return false;
}

uint32_t layer_weight(struct kcall *c, const char *suffix)
{
    struct weights *w = &c->l->r->weights;
    for (uint32_t i = 0; i < w->count; i++) {
        if (path_fits(w->items[i].name, c->l->name, suffix))
            return js_weight(c->l->r, c->b, w->items[i].name);
    }
    return VALUE_NONE;
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
