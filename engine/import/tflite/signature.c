/* Entry points: a file may hold several functions, each a subgraph with names of its own for its inputs and outputs. */
#include <stdio.h>
#include <string.h>

#include "import/inventory.h"
#include "import/tflite/reader.h"

#define ENTRIES_MAX 256

enum { SIGNATURE_INPUTS = 0, SIGNATURE_OUTPUTS = 1, SIGNATURE_KEY = 2, SIGNATURE_SUBGRAPH = 4 };

static struct fb_list entries_of(struct reader *r, const struct fb_table *root)
{
    struct fb_list list = fb_vector(root, MODEL_SIGNATURES, 4);
    if (list.count > ENTRIES_MAX)
        r->f->broken = true;
    return list;
}

/* "encode, decode" */
static const char *entries_text(struct reader *r, const struct fb_table *root, char *text, uint32_t room)
{
    struct fb_list list = entries_of(r, root);
    text[0] = '\0';
    for (uint32_t i = 0; i < list.count && !r->f->broken; i++) {
        struct fb_table entry = fb_list_table(&list, i);
        struct fb_text key = fb_string(&entry, SIGNATURE_KEY);
        inventory_append(text, room, "%.*s", (int)(key.bytes < 60 ? key.bytes : 60), key.at);
    }
    return text;
}

void lite_entries_note(struct reader *r, const struct fb_table *root, struct inventory *to)
{
    if (to && entries_of(r, root).count > 1)
        (void)entries_text(r, root, to->entries, sizeof to->entries);
}

enum pen_status lite_entry_find(struct reader *r, const struct fb_table *root, const char *name, uint32_t *ret_subgraph)
{
    static const char suffix[] = "+variables";
    struct fb_list list = entries_of(r, root);
    char text[400];
    size_t bytes = name ? strlen(name) : 0;
    *ret_subgraph = 0;
    r->variables = bytes >= sizeof suffix - 1 && strcmp(name + bytes - (sizeof suffix - 1), suffix) == 0;
    bytes -= r->variables ? sizeof suffix - 1 : 0;
    name = bytes > 0 ? name : NULL;
    for (uint32_t i = 0; name && i < list.count && !r->f->broken; i++) {
        struct fb_table entry = fb_list_table(&list, i);
        struct fb_text key = fb_string(&entry, SIGNATURE_KEY);
        if (key.bytes != bytes || memcmp(key.at, name, key.bytes) != 0)
            continue;
        *ret_subgraph = (uint32_t)fb_uint(&entry, SIGNATURE_SUBGRAPH, 4, 0);
        r->entry = entry;
        r->entered = true;
        return PEN_OK;
    }
    if (!name)
        return PEN_OK;
    (void)entries_text(r, root, text, sizeof text);
    return pen_error_set(r->reterr, PEN_ERR_INVALID, "the model has no entry point '%.*s'%s%s",
                         (int)(bytes < 100 ? bytes : 100), name, text[0] ? "; it has: " : ", and no other", text);
}

struct fb_text lite_port_name(struct reader *r, bool output, int64_t tensor, struct fb_text own)
{
    struct fb_list list = {0};
    if (r->entered)
        list = fb_vector(&r->entry, output ? SIGNATURE_OUTPUTS : SIGNATURE_INPUTS, 4);
    for (uint32_t i = 0; i < list.count && i < ENTRIES_MAX && !r->f->broken; i++) {
        struct fb_table port = fb_list_table(&list, i);
        if ((int64_t)fb_uint(&port, 1, 4, 0) == tensor)
            return fb_string(&port, 0);
    }
    return own;
}
