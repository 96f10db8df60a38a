#include "import/inventory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void inventory_fini(struct inventory *i)
{
    free(i->ops);
    free(i->nodes);
    *i = (struct inventory){0};
}

/* One more place; false: no memory, or the list is full. */
static int grown(void **items, uint32_t count, uint32_t *room, uint32_t most, size_t size)
{
    if (count < *room)
        return 1;
    uint32_t more = *room ? 2 * *room : 32;
    void *bigger = count < most ? realloc(*items, more * size) : NULL;
    if (!bigger)
        return 0;
    *items = bigger;
    *room = more;
    return 1;
}

/* Bytes of the well-formed UTF-8 sequence that begins here; 0 = none does. */
static size_t sequence_bytes(const unsigned char *at)
{
    size_t more = at[0] < 0x80 ? 0 : at[0] >> 5 == 6 ? 1 : at[0] >> 4 == 14 ? 2 : at[0] >> 3 == 30 ? 3 : 4;
    for (size_t i = 1; i <= more && more < 4; i++) {
        if (at[i] >> 6 != 2)
            return 0;
    }
    return more < 4 && (more > 0 || (at[0] >= 0x20 && at[0] != 0x7f)) ? more + 1 : 0;
}

/* Names come from files: what is no text becomes '?'. */
static void clean(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at;) {
        size_t bytes = sequence_bytes(at);
        if (bytes == 0)
            *at = '?';
        at += bytes ? bytes : 1;
    }
}

/* Its entry, made when there is none; NULL when there is no place. */
static struct inventory_op *entry_of(struct inventory *i, const char *op)
{
    char name[sizeof i->ops->name];
    snprintf(name, sizeof name, "%s", op);
    clean(name);
    for (uint32_t k = 0; k < i->op_count; k++) {
        if (strcmp(i->ops[k].name, name) == 0)
            return &i->ops[k];
    }
    void *items = i->ops;
    if (!grown(&items, i->op_count, &i->op_room, INVENTORY_OPS_MAX, sizeof *i->ops))
        return NULL;
    i->ops = items;
    i->ops[i->op_count] = (struct inventory_op){.nodes = 0};
    memcpy(i->ops[i->op_count].name, name, sizeof name);
    return &i->ops[i->op_count++];
}

void inventory_note(struct inventory *i, const char *op)
{
    struct inventory_op *entry = i ? entry_of(i, op) : NULL;
    if (entry)
        entry->nodes++;
}

void inventory_miss(struct inventory *i, const char *op, const char *node)
{
    struct inventory_op *entry = i ? entry_of(i, op) : NULL;
    if (!entry)
        return;
    void *items = i->nodes;
    entry->missed++;
    if (!grown(&items, i->node_count, &i->node_room, INVENTORY_NODES_MAX, sizeof *i->nodes))
        return;
    i->nodes = items;
    i->nodes[i->node_count].op = (uint32_t)(entry - i->ops);
    snprintf(i->nodes[i->node_count].name, sizeof i->nodes->name, "%s", node ? node : "?");
    clean(i->nodes[i->node_count].name);
    i->node_count++;
}

void inventory_append(char *text, uint32_t room, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    if (used > 0 && used + 3 < room) {
        memcpy(text + used, ", ", 3);
        used += 2;
    }
    va_start(args, format);
    vsnprintf(text + used, room - used, format, args);
    va_end(args);
    clean(text);
}
