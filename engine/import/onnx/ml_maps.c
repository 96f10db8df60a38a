/*
 * Maps. An input that is a map comes as two tensors [rows, entries]: its keys and its values. A row is a sample; a single map has one row. A ZipMap gives a
 * table with a row per sample and a column per label. Sources: ONNX-ML; the text "0.f" of an empty cell is onnxruntime's.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"
#include "import/onnx/ml.h"

/* ---- inputs ----------------------------------------------------------------------------------------------------------------------- */

/* An input NAME.PART of the graph. */
static enum pen_status part_add(struct scope *s, const struct pb_type *t, const char *part, enum pen_dtype dtype,
                                uint32_t *ret_value)
{
    size_t part_bytes = strlen(part), bytes = t->name.size + part_bytes;
    char *name = graph_alloc(s->g, bytes + 1);
    if (!name)
        return PEN_ERR_NO_MEMORY;
    memcpy(name, t->name.at, t->name.size);
    memcpy(name + t->name.size, part, part_bytes);
    enum pen_status status = scope_value(s, (struct bytes){(const unsigned char *)name, bytes}, ret_value);
    if (status == PEN_OK)
        status = graph_input_add(s->g, *ret_value);
    if (status != PEN_OK)
        return status;
    struct value *v = &s->g->values[*ret_value];
    v->dtype = dtype;
    v->shape = shape_of(2, (int64_t[]){SHAPE_DIM_UNKNOWN, SHAPE_DIM_UNKNOWN});
    return PEN_OK;
}

enum pen_status map_input_add(struct scope *s, const struct pb_type *t)
{
    struct reader *r = s->r;
    struct map_input map;
    if (s->outer || r->map_count == MAP_INPUTS_MAX || (t->key != PEN_DTYPE_STRING && t->key != PEN_DTYPE_I64))
        return pen_error_set(r->reterr, PEN_ERR_UNSUPPORTED,
                             "input '%.*s' is a map: keys must be texts or int64, in a model's own inputs, at most %d",
                             (int)(t->name.size < 80 ? t->name.size : 80), (const char *)t->name.at, MAP_INPUTS_MAX);
    if (!r->maps)
        r->maps = calloc(MAP_INPUTS_MAX, sizeof *r->maps);
    if (!r->maps)
        return PEN_ERR_NO_MEMORY;
    enum pen_status status = part_add(s, t, ".keys", t->key, &map.keys);
    if (status == PEN_OK)
        status = part_add(s, t, ".values", t->dtype, &map.values);
    if (status == PEN_OK)
        status = names_put(&s->names, t->name, map.values);
    if (status == PEN_OK)
        r->maps[r->map_count++] = map;
    return status;
}

/* The keys of the map that this node reads; VALUE_NONE after an error. */
static uint32_t keys_of(struct call *c)
{
    uint32_t values = call_input(c, 0);
    for (uint32_t i = 0; i < c->r->map_count && !c->g->parent; i++) {
        if (c->r->maps[i].values == values)
            return c->r->maps[i].keys;
    }
    call_fail(c, PEN_ERR_UNSUPPORTED, "node %s (%s) reads a map that is no input of the model", c->name, c->origin);
    return VALUE_NONE;
}

/* ---- maps to rows of columns ------------------------------------------------------------------------------------------------------ */

static uint32_t int_scalar(struct call *c, int64_t value)
{
    return call_i64(c, &value, 1, true);
}

/* What a column without an entry holds, as a scalar of the element type. */
static uint32_t nothing(struct call *c, enum pen_dtype dtype, const char *text)
{
    uint32_t zero = int_scalar(c, 0), id = VALUE_NONE;
    if (dtype != PEN_DTYPE_STRING)
        return ml_cast(c, zero, dtype);
    struct string_view *view = graph_alloc(c->g, sizeof *view);
    struct shape shape = shape_scalar();
    if (!view) {
        c->status = PEN_ERR_NO_MEMORY;
        return id;
    }
    *view = (struct string_view){text, strlen(text)};
    c->status = graph_constant(c->g, NULL, dtype, &shape, view, sizeof *view, false, &id);
    return id;
}

/* output 0 [rows, columns]: values at the columns that `at` [rows, entries] tells, `empty` elsewhere. An entry at `columns` is dropped. */
static void scatter(struct call *c, uint32_t at, uint32_t values, int64_t columns, uint32_t empty)
{
    int64_t width = columns + 1, zero = 0, one = 1;
    uint32_t rows = call_value(c, OP_Shape, &at, 1);
    if (c->status == PEN_OK)
        call_set_int(c, c->g->values[rows].producer, ATTR_end, 1);
    uint32_t shape = call_value_axis(c, OP_Concat, (uint32_t[]){rows, call_i64(c, &width, 1, false)}, 2, 0);
    uint32_t table = call_value(c, OP_Expand, (uint32_t[]){empty, shape}, 2);
    uint32_t filled = call_value_axis(c, OP_ScatterElements, (uint32_t[]){table, at, values}, 3, 1);
    uint32_t cut[] = {filled, call_i64(c, &zero, 1, false), call_i64(c, &columns, 1, false),
                      call_i64(c, &one, 1, false)};
    (void)call_emit(c, OP_Slice, cut, 4, c->out, 1);
}

/* Column i holds the value under key i of the vocabulary. */
void up_dict_vectorizer(struct call *c)
{
    static const char *const names[] = {"string_vocabulary", "int64_vocabulary"};
    uint32_t keys = keys_of(c), values = call_input(c, 0);
    if (c->status != PEN_OK)
        return;
    bool texts = c->g->values[keys].dtype == PEN_DTYPE_STRING;
    const char *list = names[texts ? 0 : 1];
    const struct pb_attr *words = call_attr(c, list);
    if (!words || words->count == 0) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) has no %s", c->name, c->origin, list);
        return;
    }
    uint32_t at = call_value(c, OP_LabelEncoder, &keys, 1);
    uint32_t node = c->status == PEN_OK ? c->g->values[at].producer : NODE_NONE;
    ml_set_list(c, node, texts ? ATTR_keys_strings : ATTR_NONE, texts ? ATTR_NONE : ATTR_keys_int64s, list,
                texts ? NULL : list);
    ml_set_list(c, node, ATTR_NONE, ATTR_values_int64s, list, NULL);
    call_set_int(c, node, ATTR_default_int64, words->count);
    scatter(c, at, values, words->count, nothing(c, c->g->values[values].dtype, ""));
}

/* The values in the order of their keys. */
static uint32_t by_key(struct call *c, uint32_t keys, uint32_t values)
{
    int64_t last = -1;
    uint32_t wide = call_value(c, OP_Shape, &keys, 1), out[2] = {VALUE_NONE, VALUE_NONE};
    if (c->status == PEN_OK)
        call_set_int(c, c->g->values[wide].producer, ATTR_start, last);
    for (int i = 0; i < 2 && c->status == PEN_OK; i++)
        c->status = graph_value(c->g, NULL, &out[i]);
    uint32_t node = call_emit(c, OP_TopK, (uint32_t[]){keys, wide}, 2, out, 2);
    call_set_int(c, node, ATTR_axis, last);
    call_set_int(c, node, ATTR_largest, 0);
    return c->status == PEN_OK ? call_value_axis(c, OP_GatherElements, (uint32_t[]){values, out[1]}, 2, last)
                               : VALUE_NONE;
}

/* The column is the key; a negative key becomes a column that is not there, which the kernel refuses. */
static uint32_t key_columns(struct call *c, uint32_t keys, int64_t columns)
{
    uint32_t most = call_value(c, OP_Min, (uint32_t[]){keys, int_scalar(c, columns)}, 2);
    uint32_t below = call_value(c, OP_Less, (uint32_t[]){keys, int_scalar(c, 0)}, 2);
    return call_value(c, OP_Where, (uint32_t[]){below, int_scalar(c, columns + 1), most}, 3);
}

void up_cast_map(struct call *c)
{
    enum pen_dtype to = call_text_is(c, "cast_to", "TO_INT64")    ? PEN_DTYPE_I64
                        : call_text_is(c, "cast_to", "TO_STRING") ? PEN_DTYPE_STRING
                                                                  : PEN_DTYPE_F32;
    uint32_t keys = keys_of(c), values = call_input(c, 0);
    int64_t columns = call_int(c, "max_map", 1);
    if (c->status == PEN_OK && c->g->values[keys].dtype != PEN_DTYPE_I64)
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) casts a map whose keys are no int64", c->name, c->origin);
    if (c->status != PEN_OK)
        return;
    if (!call_text_is(c, "map_form", "SPARSE"))
        ml_put(c, ml_cast(c, by_key(c, keys, values), to));
    else if (columns < 1 || columns >= INT32_MAX)
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) has max_map %lld; it must be above 0", c->name, c->origin,
                  (long long)columns);
    else
        scatter(c, key_columns(c, keys, columns), ml_cast(c, values, to), columns, nothing(c, to, "0.f"));
}

/* ---- ZipMap ----------------------------------------------------------------------------------------------------------------------- */

/* The scores stay a table: column i belongs to label i of the classifier, whose name the notes have. */
void up_zip_map(struct call *c)
{
    ml_note_labels(c);
    ml_put(c, call_input(c, 0));
}
