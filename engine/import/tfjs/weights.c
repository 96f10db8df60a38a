#include "import/tfjs/reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

#define GROUPS_MAX  4096
#define WEIGHTS_MAX 1000000u
#define READ_PAD    64

static enum pen_status broken(struct weights *w, const char *what, const char *name)
{
    return pen_error_set(w->reterr, PEN_ERR_CORRUPT, "weights manifest: %s '%.120s'", what, name ? name : "?");
}

static enum pen_dtype dtype_of(const char *name)
{
    static const struct {
        const char *name;
        enum pen_dtype dtype;
    } list[] = {{"float32", PEN_DTYPE_F32},   {"int32", PEN_DTYPE_I32},    {"bool", PEN_DTYPE_BOOL},
                {"uint8", PEN_DTYPE_U8},      {"uint16", PEN_DTYPE_U16},   {"float16", PEN_DTYPE_F16},
                {"string", PEN_DTYPE_STRING}, {"complex64", PEN_DTYPE_C64}};
    for (size_t i = 0; name && i < sizeof list / sizeof list[0]; i++) {
        if (strcmp(list[i].name, name) == 0)
            return list[i].dtype;
    }
    return PEN_DTYPE_NONE;
}

/* ---- shards ---------------------------------------------------------------------------------------------------------- */

static enum pen_status group_open(struct weights *w, const cJSON *paths, struct shard_group *g)
{
    int count = cJSON_IsArray(paths) ? cJSON_GetArraySize(paths) : 0;
    const cJSON *path;
    g->shards = calloc((size_t)count + 1, sizeof *g->shards);
    if (!g->shards)
        return pen_error_set(w->reterr, PEN_ERR_NO_MEMORY, "no memory for %d shards", count);
    cJSON_ArrayForEach(path, paths)
    {
        const char *name = cJSON_GetStringValue(path);
        if (!name || strchr(name, ':') || !w->external->folder)
            return broken(w, "a shard must be a file beside the model, not", name);
        enum pen_status status = external_file(w->external, name, &g->shards[g->count], w->reterr);
        if (status != PEN_OK)
            return status;
        g->bytes += g->shards[g->count++].size;
    }
    return PEN_OK;
}

/* Copies [offset, offset + bytes) of the shards laid end to end; the caller checked the end. */
static void copy_out(const struct shard_group *g, uint64_t offset, uint64_t bytes, uint8_t *to)
{
    for (uint32_t i = 0; i < g->count && bytes > 0; i++) {
        uint64_t size = g->shards[i].size;
        if (offset >= size) {
            offset -= size;
            continue;
        }
        uint64_t part = bytes < size - offset ? bytes : size - offset;
        memcpy(to, g->shards[i].at + offset, (size_t)part);
        to += part;
        bytes -= part;
        offset = 0;
    }
}

/* The stored bytes in place when they lie in one shard, aligned; NULL otherwise. */
static const uint8_t *in_place(const struct shard_group *g, const struct weight *item, size_t pad)
{
    uint64_t offset = item->offset;
    size_t align = pen_dtype_bits(item->stored) / 8;
    for (uint32_t i = 0; i < g->count; i++) {
        uint64_t size = g->shards[i].size;
        if (offset < size) {
            const uint8_t *at = g->shards[i].at + offset;
            bool fits = item->stored_bytes + pad <= size - offset;
            return fits && (align < 2 || (uintptr_t)at % align == 0) ? at : NULL;
        }
        offset -= size;
    }
    return NULL;
}

/* ---- entries ----------------------------------------------------------------------------------------------------------- */

static enum pen_status shape_read(struct weights *w, const cJSON *json, struct weight *item)
{
    int64_t dims[PEN_MAX_RANK];
    int rank = tfjs_json_ints(tfjs_json_get(json, "shape"), dims, PEN_MAX_RANK, 0);
    if (rank < 0)
        return broken(w, "more than 8 dimensions, or none, for", item->name);
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return broken(w, "a negative dimension for", item->name);
    }
    if (item->dtype == PEN_DTYPE_C64) { /* inside a graph the two parts are a last dimension */
        if (rank == PEN_MAX_RANK)
            return broken(w, "too many dimensions of complex numbers for", item->name);
        dims[rank++] = 2;
        item->dtype = PEN_DTYPE_F32;
    }
    item->shape = shape_of(rank, dims);
    return PEN_OK;
}

static enum pen_status quantisation_read(struct weights *w, const cJSON *json, struct weight *item)
{
    const cJSON *q = tfjs_json_get(json, "quantization");
    item->stored = item->dtype;
    if (!q)
        return PEN_OK;
    item->stored = dtype_of(tfjs_json_text(q, "dtype"));
    bool half = item->stored == PEN_DTYPE_F16, narrow = item->stored == PEN_DTYPE_U8 || item->stored == PEN_DTYPE_U16;
    item->scale = narrow ? tfjs_json_number(q, "scale", 1.0) : 0.0;
    item->min = narrow ? tfjs_json_number(q, "min", 0.0) : 0.0;
    if ((!half && !narrow) || !isfinite(item->scale) || !isfinite(item->min) ||
        (item->dtype != PEN_DTYPE_F32 && item->dtype != PEN_DTYPE_I32))
        return broken(w, "an unknown quantisation for", item->name);
    return PEN_OK;
}

/* Strings are length-prefixed one by one: the size is found by walking. */
static enum pen_status string_bytes(struct weights *w, const struct shard_group *g, struct weight *item)
{
    uint64_t at = item->offset;
    int64_t count = shape_elements(&item->shape);
    for (int64_t i = 0; i < count; i++) {
        uint32_t length;
        if (at + 4 > g->bytes)
            return broken(w, "a string outside its shards in", item->name);
        copy_out(g, at, 4, (uint8_t *)&length);
        at += 4 + (uint64_t)length;
        if (at > g->bytes)
            return broken(w, "a string outside its shards in", item->name);
    }
    item->stored_bytes = at - item->offset;
    return PEN_OK;
}

static enum pen_status entry_read(struct weights *w, const cJSON *json, uint32_t group, uint64_t *offset)
{
    const struct shard_group *g = &w->groups[group];
    struct weight item = {.name = tfjs_json_text(json, "name"), .group = group, .offset = *offset};
    item.dtype = dtype_of(tfjs_json_text(json, "dtype"));
    if (!item.name || !*item.name || item.dtype == PEN_DTYPE_NONE)
        return broken(w, "no name, or an unknown element type, for", item.name);
    enum pen_status status = shape_read(w, json, &item);
    if (status == PEN_OK)
        status = quantisation_read(w, json, &item);
    size_t bytes = 0;
    if (status == PEN_OK && item.dtype == PEN_DTYPE_STRING)
        status = string_bytes(w, g, &item);
    else if (status == PEN_OK && shape_bytes(&item.shape, item.stored, w->g->limits.tensor_bytes, &bytes) != PEN_OK)
        status = pen_error_set(w->reterr, PEN_ERR_TOO_LARGE, "weight '%.120s' exceeds the budget", item.name);
    else
        item.stored_bytes = bytes;
    if (status != PEN_OK)
        return status;
    if (item.stored_bytes > g->bytes || item.offset > g->bytes - item.stored_bytes)
        return broken(w, "its shards are truncated or too few: they end before", item.name);
    *offset += item.stored_bytes;
    if (w->count == w->room) {
        uint32_t room = w->room ? w->room * 2 : 64;
        struct weight *bigger = room <= WEIGHTS_MAX ? realloc(w->items, room * sizeof *bigger) : NULL;
        if (!bigger)
            return pen_error_set(w->reterr, PEN_ERR_NO_MEMORY, "no memory for %u weights", room);
        w->items = bigger;
        w->room = room;
    }
    status = names_put(&w->names, (struct bytes){(const uint8_t *)item.name, strlen(item.name)}, w->count);
    if (status != PEN_OK)
        return status == PEN_ERR_INVALID ? broken(w, "two weights are named", item.name) : status;
    w->items[w->count++] = item;
    return PEN_OK;
}

enum pen_status weights_read(struct weights *w, const cJSON *manifest)
{
    int groups = cJSON_IsArray(manifest) ? cJSON_GetArraySize(manifest) : 0;
    const cJSON *group, *entry;
    if (groups > GROUPS_MAX)
        return pen_error_set(w->reterr, PEN_ERR_TOO_LARGE, "the weights manifest has %d groups", groups);
    w->groups = calloc((size_t)groups + 1, sizeof *w->groups);
    if (!w->groups)
        return pen_error_set(w->reterr, PEN_ERR_NO_MEMORY, "no memory for %d groups of weights", groups);
    enum pen_status status = PEN_OK;
    cJSON_ArrayForEach(group, manifest)
    {
        uint64_t offset = 0;
        uint32_t index = w->group_count++;
        status = group_open(w, tfjs_json_list(group, "paths"), &w->groups[index]);
        cJSON_ArrayForEach(entry, tfjs_json_list(group, "weights"))
        {
            if (status == PEN_OK)
                status = entry_read(w, entry, index, &offset);
        }
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

void weights_fini(struct weights *w)
{
    for (uint32_t i = 0; i < w->group_count; i++)
        free(w->groups[i].shards);
    free(w->groups);
    free(w->items);
    names_fini(&w->names);
}

struct weight *weights_find(const struct weights *w, const char *name)
{
    uint32_t at;
    return names_get(&w->names, (struct bytes){(const uint8_t *)name, strlen(name)}, &at) ? &w->items[at] : NULL;
}

/* ---- loading ---------------------------------------------------------------------------------------------------------------- */

/* value = stored * scale + min in double, as JavaScript computes it */
static void widen(const struct weight *item, const uint8_t *from, size_t count, void *to)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t wide = from[i];
        if (item->stored != PEN_DTYPE_U8)
            memcpy(&wide, from + 2 * i, 2);
        double value = item->stored == PEN_DTYPE_F16 ? (double)pen_f16_to_f32(wide) : wide * item->scale + item->min;
        if (item->dtype == PEN_DTYPE_F32)
            ((float *)to)[i] = (float)value;
        else
            ((int32_t *)to)[i] = value >= 2147483647.0    ? INT32_MAX
                                 : value <= -2147483648.0 ? INT32_MIN
                                                          : (int32_t)lround(value);
    }
}

static enum pen_status strings_load(struct weights *w, struct weight *item, const uint8_t *from)
{
    size_t count = (size_t)shape_elements(&item->shape);
    struct string_view *views = graph_alloc(w->g, (count + 1) * sizeof *views);
    if (!views)
        return pen_error_set(w->reterr, PEN_ERR_NO_MEMORY, "no memory for %zu strings", count);
    for (size_t i = 0; i < count; i++) { /* lengths were walked when the entry was read */
        uint32_t length;
        memcpy(&length, from, 4);
        views[i] = (struct string_view){(const char *)from + 4, length};
        from += 4 + (size_t)length;
    }
    item->data = views;
    item->bytes = count * sizeof *views;
    return PEN_OK;
}

enum pen_status weights_load(struct weights *w, struct weight *item)
{
    const struct shard_group *g = &w->groups[item->group];
    bool plain = item->stored == item->dtype && item->scale == 0.0;
    size_t bytes = 0;
    if (item->data)
        return PEN_OK;
    const uint8_t *from = in_place(g, item, plain ? READ_PAD : 0);
    if (!from) {
        size_t bytes_copied = (size_t)item->stored_bytes + READ_PAD;
        bool texts = item->dtype == PEN_DTYPE_STRING; /* views point into them: they stay */
        uint8_t *copy = texts ? graph_alloc(w->g, bytes_copied) : graph_alloc_data(w->g, bytes_copied);
        if (!copy)
            return pen_error_set(w->reterr, PEN_ERR_NO_MEMORY, "no memory for weight '%.120s'", item->name);
        copy_out(g, item->offset, item->stored_bytes, copy);
        from = copy;
    }
    if (item->dtype == PEN_DTYPE_STRING)
        return strings_load(w, item, from);
    if (shape_bytes(&item->shape, item->dtype, w->g->limits.tensor_bytes, &bytes) != PEN_OK)
        return pen_error_set(w->reterr, PEN_ERR_TOO_LARGE, "weight '%.120s' exceeds the budget", item->name);
    if (!plain) {
        void *wide = graph_alloc_data(w->g, bytes + READ_PAD);
        if (!wide)
            return pen_error_set(w->reterr, PEN_ERR_NO_MEMORY, "no memory for weight '%.120s'", item->name);
        widen(item, from, (size_t)shape_elements(&item->shape), wide);
        from = wide;
    }
    item->data = from;
    item->bytes = bytes;
    return PEN_OK;
}

uint32_t js_weight(struct tfjs *r, struct build *b, const char *name)
{
    struct weight *w = weights_find(&r->weights, name);
    uint32_t id = VALUE_NONE;
    if (!w || b->status != PEN_OK)
        return VALUE_NONE;
    enum pen_status status = weights_load(&r->weights, w);
    if (status != PEN_OK) {
        b->status = status; /* told already */
        return VALUE_NONE;
    }
    if (w->dtype != PEN_DTYPE_STRING)
        return build_const(b, w->dtype, &w->shape, w->data, w->bytes, false);
    if (graph_value(b->g, NULL, &id) != PEN_OK) {
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for a constant");
        return VALUE_NONE;
    }
    struct value *v = &b->g->values[id];
    v->dtype = w->dtype;
    v->shape = w->shape;
    v->data = w->data;
    v->bytes = w->bytes;
    return id;
}
