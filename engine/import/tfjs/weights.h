/*
 * weights.h - the weights manifest: names to dense data, from shards beside the model, dequantised where they are stored narrow.
 *
 * Shards are opened only beneath the model's folder: no URLs, no `..`, no links. Data that lies whole and aligned in one shard is borrowed from its
 * mapping; what is quantised or crosses shards is copied when it is first asked for.
 * Threads: one-at-a-time.
 */
#ifndef TFJS_WEIGHTS_H
#define TFJS_WEIGHTS_H

#include "import/onnx/external.h"
#include "import/onnx/names.h"
#include "import/tfjs/json.h"

struct weight {
    const char *name; /* in the JSON */
    enum pen_dtype dtype, stored;
    struct shape shape;
    double scale, min; /* value = stored * scale + min; scale 0 = not quantised */
    uint32_t group;
    uint64_t offset, stored_bytes; /* in the group's shards laid end to end */
    const void *data;              /* NULL until loaded */
    size_t bytes;
};

struct weights {
    struct graph *g; /* memory */
    struct external *external;
    struct pen_error *reterr;
    struct weight *items;
    uint32_t count, room;
    struct names names;
    struct shard_group {
        struct bytes *shards;
        uint32_t count;
        uint64_t bytes;
    } * groups;
    uint32_t group_count;
};

enum pen_status weights_read(struct weights *w, const cJSON *manifest);
void weights_fini(struct weights *w);
struct weight *weights_find(const struct weights *w, const char *name); /* NULL when absent */
enum pen_status weights_load(struct weights *w, struct weight *item);   /* fills data and bytes */

#endif
