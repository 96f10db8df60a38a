/* A described TFLite model (peer/lite.py says how) as a flatbuffer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case_model.h"
#include "case_tensor.h"
#include "flat_writer.h"
#include "folder.h"

static const cJSON *field(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static int64_t number(const cJSON *object, const char *name, int64_t def)
{
    const cJSON *item = field(object, name);
    return item ? (int64_t)item->valuedouble : def;
}

static int type_of(const char *name)
{
    static const struct {
        const char *name;
        int type;
    } list[] = {{"float32", 0}, {"float16", 1},   {"int32", 2}, {"uint8", 3},   {"int64", 4},   {"bool", 6},
                {"int16", 7},   {"complex64", 8}, {"int8", 9},  {"uint32", 15}, {"uint16", 16}, {"resource", 13}};
    for (size_t i = 0; name && i < sizeof list / sizeof list[0]; i++) {
        if (strcmp(list[i].name, name) == 0)
            return list[i].type;
    }
    fprintf(stderr, "case file: element type '%s'\n", name ? name : "?");
    exit(2);
}

/* A JSON list as a vector of integers or floats of so many bytes. */
static size_t vector_put(struct flat *f, const cJSON *list, unsigned bytes, bool real)
{
    uint8_t items[8192];
    const cJSON *item;
    uint32_t count = 0;
    cJSON_ArrayForEach(item, list)
    {
        float narrow = (float)item->valuedouble;
        int64_t whole = real ? 0 : (int64_t)item->valuedouble;
        if ((count + 1) * bytes > sizeof items)
            exit(2);
        memcpy(items + count++ * bytes, real ? (const void *)&narrow : &whole, bytes);
    }
    return flat_vector(f, items, count, bytes);
}

static size_t text_put(struct flat *f, const char *text)
{
    return flat_vector(f, text, (uint32_t)strlen(text), 1);
}

/* Buffer 0 is empty; constants follow in the order of their tensors. */
static uint32_t constants_of(const cJSON *subgraphs)
{
    const cJSON *sub, *t;
    uint32_t count = 1;
    cJSON_ArrayForEach(sub, subgraphs)
    {
        cJSON_ArrayForEach(t, field(sub, "t"))
        {
            count += field(t, "d") ? 1 : 0;
        }
    }
    return count;
}

static void buffer_put(struct flat *f, size_t table, const cJSON *t)
{
    struct case_tensor value;
    cJSON *as_case = cJSON_CreateArray();
    cJSON_AddItemToArray(as_case, cJSON_CreateString("c"));
    cJSON_AddItemToArray(as_case, cJSON_Duplicate(field(t, "t"), 1));
    cJSON_AddItemToArray(as_case, cJSON_Duplicate(field(t, "s"), 1));
    cJSON_AddItemToArray(as_case, cJSON_Duplicate(field(t, "d"), 1));
    case_tensor_init(&value, as_case);
    flat_ref(f, table, 0, flat_vector(f, value.tensor.data, (uint32_t)value.tensor.bytes, 1));
    case_tensor_fini(&value);
    cJSON_Delete(as_case);
}

static void tensor_put(struct flat *f, size_t table, const cJSON *t, uint32_t buffer)
{
    const cJSON *q = field(t, "q");
    flat_int(f, table, 1, type_of(cJSON_GetStringValue(field(t, "t"))));
    flat_int(f, table, 2, buffer);
    if (number(t, "v", 0))
        flat_int(f, table, 5, 1);
    flat_ref(f, table, 0, vector_put(f, field(t, "s"), 4, false));
    flat_ref(f, table, 3, text_put(f, cJSON_GetStringValue(field(t, "n"))));
    if (q) {
        size_t quant = flat_table(f, 7);
        flat_ref(f, table, 4, quant);
        flat_int(f, quant, 6, (int64_t)cJSON_GetArrayItem(q, 2)->valuedouble);
        flat_ref(f, quant, 2, vector_put(f, cJSON_GetArrayItem(q, 0), 4, true));
        flat_ref(f, quant, 3, vector_put(f, cJSON_GetArrayItem(q, 1), 8, false));
    }
}

static void options_put(struct flat *f, size_t table, const cJSON *list)
{
    const cJSON *option;
    cJSON_ArrayForEach(option, list)
    {
        unsigned slot = (unsigned)cJSON_GetArrayItem(option, 0)->valuedouble;
        const char *kind = cJSON_GetStringValue(cJSON_GetArrayItem(option, 1));
        const cJSON *value = cJSON_GetArrayItem(option, 2);
        if (strcmp(kind, "list") == 0)
            flat_ref(f, table, slot, vector_put(f, value, 4, false));
        else if (strcmp(kind, "floats") == 0)
            flat_ref(f, table, slot, vector_put(f, value, 4, true));
        else if (strcmp(kind, "text") == 0)
            flat_ref(f, table, slot, text_put(f, cJSON_GetStringValue(value)));
        else if (strcmp(kind, "float32") == 0)
            flat_float(f, table, slot, (float)value->valuedouble);
        else
            flat_int(f, table, slot, (int64_t)value->valuedouble);
    }
}

static void op_put(struct flat *f, size_t table, const cJSON *o)
{
    flat_int(f, table, 0, number(o, "c", 0));
    flat_ref(f, table, 1, vector_put(f, field(o, "i"), 4, false));
    flat_ref(f, table, 2, vector_put(f, field(o, "o"), 4, false));
    if (field(o, "f")) {
        size_t options = flat_table(f, 16);
        flat_int(f, table, 3, number(o, "ot", 0));
        flat_ref(f, table, 4, options);
        options_put(f, options, field(o, "f"));
    }
    if (field(o, "x"))
        flat_ref(f, table, 5, vector_put(f, field(o, "x"), 1, false));
    if (field(o, "b"))
        flat_ref(f, table, 8, vector_put(f, field(o, "b"), 4, false));
}

static void codes_put(struct flat *f, size_t model, const cJSON *codes)
{
    size_t list = flat_tables(f, (uint32_t)cJSON_GetArraySize(codes));
    flat_ref(f, model, 1, list);
    for (int i = 0; i < cJSON_GetArraySize(codes); i++) {
        const cJSON *row = cJSON_GetArrayItem(codes, i);
        int64_t code = (int64_t)cJSON_GetArrayItem(row, 0)->valuedouble;
        const char *custom = cJSON_GetStringValue(cJSON_GetArrayItem(row, 1));
        size_t table = flat_table(f, 4);
        flat_tables_set(f, list, (uint32_t)i, table);
        flat_int(f, table, 0, code < 127 ? code : 127);
        flat_int(f, table, 3, code);
        if (cJSON_GetArraySize(row) > 2)
            flat_int(f, table, 2, (int64_t)cJSON_GetArrayItem(row, 2)->valuedouble);
        if (custom)
            flat_ref(f, table, 1, text_put(f, custom));
    }
}

static void subgraph_put(struct flat *f, size_t table, const cJSON *sub, size_t buffers, uint32_t *next)
{
    const cJSON *tensors = field(sub, "t"), *ops = field(sub, "ops");
    flat_ref(f, table, 1, vector_put(f, field(sub, "i"), 4, false));
    flat_ref(f, table, 2, vector_put(f, field(sub, "o"), 4, false));
    size_t list = flat_tables(f, (uint32_t)cJSON_GetArraySize(tensors));
    flat_ref(f, table, 0, list);
    for (int i = 0; i < cJSON_GetArraySize(tensors); i++) {
        const cJSON *t = cJSON_GetArrayItem(tensors, i);
        size_t at = flat_table(f, 8);
        flat_tables_set(f, list, (uint32_t)i, at);
        tensor_put(f, at, t, field(t, "d") ? *next : 0);
        if (field(t, "d")) {
            size_t buffer = flat_table(f, 1);
            flat_tables_set(f, buffers, (*next)++, buffer);
            buffer_put(f, buffer, t);
        }
    }
    size_t operators = flat_tables(f, (uint32_t)cJSON_GetArraySize(ops));
    flat_ref(f, table, 3, operators);
    for (int i = 0; i < cJSON_GetArraySize(ops); i++) {
        size_t at = flat_table(f, 9);
        flat_tables_set(f, operators, (uint32_t)i, at);
        op_put(f, at, cJSON_GetArrayItem(ops, i));
    }
}

void case_lite_write(const cJSON *line, const char *path, bool open)
{
    static struct flat f;
    const cJSON *subs = field(line, "sub");
    uint32_t next = 1;
    (void)open;
    flat_init(&f);
    size_t model = flat_table(&f, 5);
    flat_root(&f, model);
    flat_int(&f, model, 0, 3);
    codes_put(&f, model, field(line, "codes"));
    size_t list = flat_tables(&f, (uint32_t)cJSON_GetArraySize(subs));
    flat_ref(&f, model, 2, list);
    size_t buffers = flat_tables(&f, constants_of(subs));
    flat_ref(&f, model, 4, buffers);
    flat_tables_set(&f, buffers, 0, flat_table(&f, 1));
    for (int i = 0; i < cJSON_GetArraySize(subs); i++) {
        size_t at = flat_table(&f, 4);
        flat_tables_set(&f, list, (uint32_t)i, at);
        subgraph_put(&f, at, cJSON_GetArrayItem(subs, i), buffers, &next);
    }
    file_write(path, f.bytes, f.size);
}
