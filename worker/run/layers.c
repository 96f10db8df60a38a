/* layers.c - the engine's profile of one run as protobuf rows. */
#include "layers.h"

#include <string.h>

#define TEXT_BYTES 63u /* of a name: 256 of them must leave room in the meta */

void layers_begin(struct pen_session *session)
{
    pen_session_profile(session, true);
}

static void *take(struct meta_arena *arena, size_t bytes)
{
    return arena->allocator.alloc(arena->allocator.allocator_data, bytes);
}

static char *text(struct meta_arena *arena, const char *from)
{
    size_t bytes = from ? strnlen(from, TEXT_BYTES) : 0;
    char *copy = take(arena, bytes + 1);
    if (!copy)
        return (char *)(uintptr_t) "";
    if (bytes)
        memcpy(copy, from, bytes);
    copy[bytes] = '\0';
    return copy;
}

void layers_end(struct pen_session *session, struct meta_arena *arena, struct layers *ret_layers)
{
    size_t count = 0;
    const struct pen_profile_row *rows = pen_session_profile_rows(session, &count);
    *ret_layers = (struct layers){.count = 0};
    count = !rows ? 0 : count < LAYERS_MAX ? count : LAYERS_MAX;
    Penstock__LayerTime **pointers = count ? take(arena, count * sizeof *pointers) : NULL;
    Penstock__LayerTime *layers = pointers ? take(arena, count * sizeof *layers) : NULL;
    for (size_t i = 0; layers && i < count; i++) {
        uint64_t us = rows[i].total_ns / 1000;
        penstock__layer_time__init(&layers[i]);
        layers[i].name = text(arena, rows[i].node);
        layers[i].op = text(arena, rows[i].op);
        layers[i].backend = text(arena, rows[i].backend);
        layers[i].us = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
        pointers[i] = &layers[i];
    }
    if (layers)
        *ret_layers = (struct layers){.rows = pointers, .count = count};
    pen_session_profile(session, false);
}
