/*
 * Lookup tables: constants that a node of the same graph, or of the model's initialiser, puts into them. The value of a table says nothing; its id finds the node
 * that made it, also behind identities and inside of functions.
 */
#include <string.h>

#include "graph/internal.h"
#include "import/build/build.h"
#include "import/tfjs/reader.h"

#define TABLES_MAX 4096

static void table(struct call *c)
{
    struct tfjs *r = c->s->r;
    uint32_t handle = build_scalar(c->b, PEN_DTYPE_I32, 0);
    if (r->table_count == r->table_room && c->b->status == PEN_OK) {
        uint32_t room = r->table_room ? 2 * r->table_room : 8;
        struct table_made *more = room <= TABLES_MAX ? graph_alloc(c->b->g, room * sizeof *more) : NULL;
        if (!more) {
            build_stop(c->b, PEN_ERR_TOO_LARGE, "there are more than %d tables, or no memory", TABLES_MAX);
            return;
        }
        memcpy(more, r->table_count ? r->tables : more, r->table_count * sizeof *more);
        r->tables = more;
        r->table_room = room;
    }
    if (c->b->status == PEN_OK)
        r->tables[r->table_count++] = (struct table_made){.b = c->b, .scope = c->s, .value = handle};
    js_give(c, 0, handle);
}

static bool fills(const struct gnode *n)
{
    return strncmp(n->op, "LookupTableImport", 17) == 0 || strncmp(n->op, "InitializeTable", 15) == 0;
}

static const char *input_name(const struct gnode *n, int index)
{
    return cJSON_GetStringValue(cJSON_GetArrayItem(tfjs_json_get(n->json, "input"), index));
}

/* The node that fills the table: its first input is the table. */
static const struct gnode *filler_of(const struct table_made *t)
{
    for (uint32_t i = 0; i < t->scope->count && t->b->status == PEN_OK; i++) {
        const struct gnode *n = &t->scope->nodes[i];
        const char *to = fills(n) ? input_name(n, 0) : NULL;
        if (to && js_scope_value(t->scope, to) == t->value)
            return n;
    }
    return NULL;
}

static const struct gnode *filled_by(struct call *c, struct scope **ret_scope)
{
    const struct tfjs *r = c->s->r;
    for (uint32_t i = 0; i < r->table_count; i++) {
        if (r->tables[i].scope && r->tables[i].b == c->b && r->tables[i].value == js_in(c, 0)) {
            *ret_scope = r->tables[i].scope;
            return filler_of(&r->tables[i]);
        }
    }
    return NULL;
}

static bool table_items(struct call *c, uint32_t *ret_keys, uint32_t *ret_values)
{
    struct scope *s = NULL;
    const struct gnode *n = filled_by(c, &s);
    const char *keys = n ? input_name(n, 1) : NULL, *values = n ? input_name(n, 2) : NULL;
    if (!keys || !values) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "nothing fills its table");
        return false;
    }
    *ret_keys = js_scope_value(s, keys);
    *ret_values = js_scope_value(s, values);
    const struct value *k = build_value(c->b, *ret_keys), *v = build_value(c->b, *ret_values);
    if (!k || !v || !k->data || !v->data || shape_elements(&k->shape) != shape_elements(&v->shape)) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its table is not filled with constants");
        return false;
    }
    return true;
}

static void tensor_attr(struct build *b, enum attr_key key, uint32_t value)
{
    struct attr attr = {.key = key, .type = ATTR_TENSOR, .value = value};
    if (b->status == PEN_OK && graph_attr_set(b->g, b->node, &attr) != PEN_OK)
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for an attribute");
}

/* table, keys, default */
static void find(struct call *c)
{
    uint32_t keys, values, none = js_in(c, 2);
    const struct value *d = build_value(c->b, none);
    if (!table_items(c, &keys, &values))
        return;
    if (!d || !d->data) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its default must be constant");
        return;
    }
    uint32_t y = build_1(c->b, OP_LabelEncoder, js_in(c, 1));
    tensor_attr(c->b, ATTR_keys_tensor, keys);
    tensor_attr(c->b, ATTR_values_tensor, values);
    tensor_attr(c->b, ATTR_default_tensor, none);
    js_give(c, 0, y);
}

static void table_size(struct call *c)
{
    uint32_t keys, values;
    if (table_items(c, &keys, &values))
        js_give(c, 0, build_cast(c->b, build_1(c->b, OP_Size, keys), PEN_DTYPE_I32));
}

static void nothing(struct call *c)
{
    (void)c;
}

const struct tfjs_row js_rows_table[] = {
    JS_ROW(HashTable, table, 0),
    JS_ROW(HashTableV2, table, 0),
    JS_ROW(InitializeTable, nothing, 0),
    JS_ROW(InitializeTableV2, nothing, 0),
    JS_ROW(LookupTableFind, find, 0),
    JS_ROW(LookupTableFindV2, find, 0),
    JS_ROW(LookupTableImport, nothing, 0),
    JS_ROW(LookupTableImportV2, nothing, 0),
    JS_ROW(LookupTableSize, table_size, 0),
    JS_ROW(LookupTableSizeV2, table_size, 0),
    {NULL, NULL, 0},
};
