/*
 * A layer's weights by name: "<layer>/kernel", or deeper inside paths such as "model/<layer>/lstm_cell/kernel". Keras 3 names no layer: its paths count the layers
 * of a kind and the weights of a layer, such as "layers/functional/layers/lstm_1/cell/vars/2".
 */
#include <stdio.h>
#include <string.h>

#include "import/tfjs/layers.h"

bool layer_is_model(const char *kind)
{
    return strcmp(kind, "Model") == 0 || strcmp(kind, "Functional") == 0 || strcmp(kind, "Sequential") == 0;
}

struct klayer layer_of(struct klayer *outer, const cJSON *json)
{
    const char *kind = tfjs_json_text(json, "class_name"),
               *name = tfjs_json_text(tfjs_json_get(json, "config"), "name");
    struct klayer l = {.r = outer->r,
                       .b = outer->b,
                       .config = tfjs_json_get(json, "config"),
                       .depth = outer->depth + 1,
                       .outer = outer->kind ? outer : NULL};
    l.kind = kind ? kind : "?";
    l.name = name ? name : tfjs_json_text(json, "name") ? tfjs_json_text(json, "name") : l.kind;
    return l;
}

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

/* ---- Keras 3 ----------------------------------------------------------------------------------------------------------- */

bool layer_weights_placed(const struct weights *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        if (strstr(w->items[i].name, "/vars/"))
            return true;
    }
    return false;
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

/* "ConvLSTM2D" becomes "conv_lstm2d": words begin at capitals behind or before small letters. */
void layer_place(const char *front, const char *kind, uint32_t count, char *place, size_t room)
{
    size_t n = (size_t)snprintf(place, room, "%.20s", front);
    for (size_t i = 0; kind[i] && n + 14 < room; i++) {
        if (i > 0 && is_upper(kind[i]) && (is_lower(kind[i + 1]) || is_lower(kind[i - 1])))
            place[n++] = '_';
        place[n++] = is_upper(kind[i]) ? (char)(kind[i] + 32) : kind[i];
    }
    place[n] = '\0';
    if (count > 0)
        snprintf(place + n, room - n, "_%u", count);
}

static bool any_of(const char *suffix, const char *const *list, unsigned count, unsigned *ret_index)
{
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(suffix, list[i]) == 0) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

/* Which of the layer's weights it is, in the order in which layers make them; false: it has none of this name. */
static bool number_of(const struct klayer *l, const char *suffix, unsigned *ret)
{
    static const char *const norm[] = {"gamma", "beta", "moving_mean", "moving_variance"};
    static const char *const apart[] = {"depthwise_kernel", "pointwise_kernel", "bias"};
    static const char *const recurrent[] = {"kernel", "recurrent_kernel", "bias"};
    bool scale = tfjs_json_bool(l->config, "scale", true), center = tfjs_json_bool(l->config, "center", true);
    bool separable = strncmp(l->kind, "Separable", 9) == 0;
    bool steps = strstr(l->kind, "LSTM") || strstr(l->kind, "GRU") || strstr(l->kind, "RNN");
    if (any_of(suffix, norm, 4, ret)) {
        if ((*ret == 0 && !scale) || (*ret == 1 && !center))
            return false;
        *ret -= (*ret > 0 && !scale ? 1u : 0u) + (*ret > 1 && !center ? 1u : 0u);
        return true;
    }
    if (separable || steps)
        return any_of(suffix, separable ? apart : recurrent, 3, ret);
    *ret = strcmp(suffix, "bias") == 0;
    return true;
}

static size_t path_of(const struct klayer *l, char *text, size_t room)
{
    size_t n = l->outer ? path_of(l->outer, text, room) : 0;
    if (l->place[0] && n < room)
        n += (size_t)snprintf(text + n, room - n, "%s%s", n > 0 ? "/" : "", l->place);
    return n < room ? n : room - 1;
}

static uint32_t placed_weight(struct kcall *c, const char *suffix)
{
    const char *const inside[] = {"", "/cell", c->l->part_place};
    char path[1000];
    size_t n = path_of(c->l, path, sizeof path);
    unsigned number;
    if (!number_of(c->l, suffix, &number))
        return VALUE_NONE;
    for (size_t i = 0; i < 3; i++) {
        snprintf(path + n, sizeof path - n, "%s/vars/%u", inside[i], number);
        uint32_t value = weights_find(&c->l->r->weights, path) ? js_weight(c->l->r, c->b, path) : VALUE_NONE;
        if (value != VALUE_NONE)
            return value;
    }
    return VALUE_NONE;
}

/* ---- any -------------------------------------------------------------------------------------------------------------- */

uint32_t layer_weight(struct kcall *c, const char *suffix)
{
    if (c->l->r->placed)
        return placed_weight(c, suffix);
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
