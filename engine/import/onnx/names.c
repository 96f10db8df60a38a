#include "import/onnx/names.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash(struct bytes name)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < name.size; i++)
        h = (h ^ name.at[i]) * 16777619u;
    return h ^ (h >> 15);
}

static bool same(struct bytes a, struct bytes b)
{
    return a.size == b.size && memcmp(a.at, b.at, a.size) == 0;
}

/* The slot that holds the name, or the free one where it would go. room is a power of two and never full. */
static struct name_slot *probe(const struct names *names, struct bytes name)
{
    uint32_t at = hash(name) & (names->room - 1);
    while (names->slots[at].name.at && !same(names->slots[at].name, name))
        at = (at + 1) & (names->room - 1);
    return &names->slots[at];
}

void names_fini(struct names *names)
{
    free(names->slots);
    *names = (struct names){0};
}

bool names_get(const struct names *names, struct bytes name, uint32_t *ret_value)
{
    if (names->count == 0 || name.size == 0)
        return false;
    const struct name_slot *slot = probe(names, name);
    if (!slot->name.at)
        return false;
    *ret_value = slot->value;
    return true;
}

static enum pen_status names_grow(struct names *names)
{
    struct names bigger = {.room = names->room ? names->room * 2 : 64, .count = names->count};
    bigger.slots = calloc(bigger.room, sizeof *bigger.slots);
    if (!bigger.slots)
        return PEN_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < names->room; i++) {
        if (names->slots[i].name.at)
            *probe(&bigger, names->slots[i].name) = names->slots[i];
    }
    free(names->slots);
    *names = bigger;
    return PEN_OK;
}

enum pen_status names_put(struct names *names, struct bytes name, uint32_t value)
{
    if (names->count * 2 >= names->room) {
        enum pen_status status = names_grow(names);
        if (status != PEN_OK)
            return status;
    }
    struct name_slot *slot = probe(names, name);
    if (slot->name.at)
        return PEN_ERR_INVALID;
    *slot = (struct name_slot){name, value};
    names->count++;
    return PEN_OK;
}
