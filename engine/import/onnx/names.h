/*
 * names.h - value names of one scope to ids: open addressing over borrowed texts.
 *
 * Threads: one-at-a-time.
 */
#ifndef ONNX_NAMES_H
#define ONNX_NAMES_H

#include "graph/graph.h"
#include "import/onnx/wire.h"

struct names {
    struct name_slot {
        struct bytes name; /* at == NULL: free */
        uint32_t value;
    } * slots;
    uint32_t room, count;
};

void names_fini(struct names *names);
bool names_get(const struct names *names, struct bytes name, uint32_t *ret_value);
/* PEN_ERR_INVALID when the name is there already. */
enum pen_status names_put(struct names *names, struct bytes name, uint32_t value);

#endif
