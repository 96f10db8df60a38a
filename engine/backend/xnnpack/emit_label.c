/* LabelEncoder between numbers: keys are sorted once per model, each element is found by halving. The last of equal keys wins. Source: ONNX-ML. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/element_io.h"
#include "backend/xnnpack/emitters.h"

/* A list of the node, from whichever attribute holds it. */
struct list {
    enum pen_dtype dtype; /* I64, F32 or that of the tensor; NONE = absent or texts */
    const void *items;
    int64_t count;
};

struct entry {
    double real;
    int64_t whole;
    uint32_t at;
};

struct table {
    size_t count, value_bytes, nan; /* nan: which value NaN has, `none` without one */
    size_t none;                    /* the default's place among the values, behind all others */
    bool real;
    const uint8_t *values;
    struct entry entries[];
};

struct label_job {
    const struct table *t;
    enum pen_dtype dtype;
    const void *x;
    uint8_t *y;
    size_t n;
};

static struct list list_of(const struct graph *g, const struct node *n, enum attr_key ints, enum attr_key floats,
                           enum attr_key tensor)
{
    const struct attr *i = node_attr(n, ints), *f = node_attr(n, floats), *t = node_attr(n, tensor);
    if (i != NULL) {
        return (struct list){PEN_DTYPE_I64, i->type == ATTR_INT ? &i->i : i->ints, i->type == ATTR_INT ? 1 : i->count};
    }
    if (f != NULL) {
        return (struct list){PEN_DTYPE_F32, f->type == ATTR_FLOAT ? (const void *)&f->f : f->floats,
                             f->type == ATTR_FLOAT ? 1 : f->count};
    }
    if (t != NULL && t->type == ATTR_TENSOR && t->value < g->value_count) {
        const struct value *v = &g->values[t->value];
        return (struct list){v->dtype, v->data, shape_elements(&v->shape)};
    }
    return (struct list){PEN_DTYPE_NONE, NULL, 0};
}

static struct list keys_of(const struct graph *g, const struct node *n)
{
    return list_of(g, n, ATTR_keys_int64s, ATTR_keys_floats, ATTR_keys_tensor);
}

static struct list values_of(const struct graph *g, const struct node *n)
{
    return list_of(g, n, ATTR_values_int64s, ATTR_values_floats, ATTR_values_tensor);
}

/* -1 or -0 where the node says nothing. */
static struct list default_of(const struct graph *g, const struct node *n, enum pen_dtype dtype)
{
    static const int64_t minus_one = -1;
    static const float minus_zero = -0.0f;
    bool real = element_class(dtype) == ELEMENT_FLOAT;
    struct list d = list_of(g, n, real ? ATTR_NONE : ATTR_default_int64, real ? ATTR_default_float : ATTR_NONE,
                            ATTR_default_tensor);
    return d.items != NULL ? d
           : real          ? (struct list){PEN_DTYPE_F32, &minus_zero, 1}
                           : (struct list){PEN_DTYPE_I64, &minus_one, 1};
}

static bool is_number(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_F32 || dtype == PEN_DTYPE_F64 || dtype == PEN_DTYPE_I64 || dtype == PEN_DTYPE_I32;
}

static bool label_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    struct list keys = keys_of(g, n), values = values_of(g, n);
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    bool fits = x != NULL && y != NULL && is_number(x->dtype) && is_number(keys.dtype) && is_number(values.dtype) &&
                keys.items != NULL && values.items != NULL && keys.count == values.count && keys.count < UINT32_MAX &&
                y->dtype == values.dtype && default_of(g, n, values.dtype).count >= 1 &&
                (element_class(x->dtype) == ELEMENT_FLOAT) == (element_class(keys.dtype) == ELEMENT_FLOAT);
    return fits || refuse(ret_reason, "not from integers or floats to such");
}

static int by_key(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int real = (x->real > y->real) - (x->real < y->real), whole = (x->whole > y->whole) - (x->whole < y->whole);
    return real != 0 ? real : whole != 0 ? whole : (x->at > y->at) - (x->at < y->at);
}

static bool same_key(const struct entry *a, const struct entry *b)
{
    return a->real == b->real && a->whole == b->whole;
}

static void entries_fill(struct table *t, const struct list *keys)
{
    size_t used = 0;
    for (int64_t i = 0; i < keys->count; i++) {
        struct entry e = {.at = (uint32_t)i};
        if (t->real) {
            e.real = load_one_f64(keys->items, keys->dtype, i);
        } else {
            e.whole = load_one_i64(keys->items, keys->dtype, i);
        }
        if (isnan(e.real)) {
            t->nan = (size_t)i;
        } else {
            t->entries[t->count++] = e;
        }
    }
    qsort(t->entries, t->count, sizeof t->entries[0], by_key);
    for (size_t i = 0; i < t->count; i++) { /* the last of equal keys */
        if (i + 1 == t->count || !same_key(&t->entries[i], &t->entries[i + 1])) {
            t->entries[used++] = t->entries[i];
        }
    }
    t->count = used;
}

static void value_put(uint8_t *to, enum pen_dtype dtype, const struct list *from, int64_t i)
{
    if (element_class(dtype) == ELEMENT_FLOAT) {
        store_one_f64(to, dtype, 0, load_one_f64(from->items, from->dtype, i));
    } else {
        store_one_i64(to, dtype, 0, load_one_i64(from->items, from->dtype, i));
    }
}

static enum pen_status label_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                  struct pen_error *reterr)
{
    struct list keys = keys_of(g, n), values = values_of(g, n), other = default_of(g, n, values.dtype);
    size_t count = (size_t)keys.count, each = pen_dtype_bits(values.dtype) / 8;
    size_t bytes = sizeof(struct table) + count * sizeof(struct entry) + (count + 1) * each;
    struct table *t = packed_alloc(bytes);
    if (t == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a table of %zu labels", count);
    }
    uint8_t *to = (uint8_t *)(t->entries + count);
    *t = (struct table){.value_bytes = each, .nan = count, .none = count, .values = to};
    t->real = element_class(keys.dtype) == ELEMENT_FLOAT;
    entries_fill(t, &keys);
    for (size_t i = 0; i < count; i++) {
        value_put(to + i * each, values.dtype, &values, (int64_t)i);
    }
    value_put(to + count * each, values.dtype, &other, 0);
    *ret_packed = t;
    *ret_bytes = bytes;
    return PEN_OK;
}

static size_t find(const struct table *t, double real, int64_t whole)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct entry *e = &t->entries[middle];
        bool before = t->real ? e->real < real : e->whole < whole;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    bool hit = low < t->count && (t->real ? t->entries[low].real == real : t->entries[low].whole == whole);
    return hit ? t->entries[low].at : isnan(real) ? t->nan : t->none;
}

static void label_task(void *context, size_t unit)
{
    const struct label_job *j = context;
    const struct table *t = j->t;
    size_t end = (unit + 1) * CHUNK < j->n ? (unit + 1) * CHUNK : j->n;
    for (size_t i = unit * CHUNK; i < end; i++) {
        size_t at = t->real ? find(t, load_one_f64(j->x, j->dtype, (int64_t)i), 0)
                            : find(t, 0.0, load_one_i64(j->x, j->dtype, (int64_t)i));
        memcpy(j->y + i * t->value_bytes, t->values + at * t->value_bytes, t->value_bytes);
    }
}

static enum pen_status label_run(struct step *s, struct run *r)
{
    struct label_job j = *(const struct label_job *)s->state;
    j.x = s->in[0];
    j.y = s->out[0];
    parallel(r, label_task, &j, (j.n + CHUNK - 1) / CHUNK);
    return PEN_OK;
}

static enum pen_status label_build(struct build *b)
{
    struct label_job *j = build_alloc(b, sizeof *j);
    if (j == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    j->t = b->packed;
    j->dtype = build_in(b, 0)->dtype;
    j->n = (size_t)shape_elements(&build_in(b, 0)->shape);
    b->step->state = j;
    b->step->run = label_run;
    return PEN_OK;
}

const struct emitter emit_label = {label_supports, label_pack, label_build};
