#include "sample.h"

#include "graph/forest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "backend/reference/element_io.h"
#include "graph/lifetime.h"

static void *block_alloc(struct rt_memory *memory, size_t bytes)
{
    return sample_alloc((struct sample *)(void *)memory, bytes);
}

void *sample_alloc(struct sample *s, size_t bytes)
{
    size_t room = (bytes + LIFETIME_PAD + 63) / 64 * 64;
    void *p = s->block_count < SAMPLE_BLOCKS_MAX && bytes < (size_t)1 << 28 ? aligned_alloc(64, room) : NULL;
    if (p == NULL) {
        fprintf(stderr, "no memory for a sample of %s\n", op_def(s->g->nodes[s->node].op)->name);
        exit(1);
    }
    memset(p, 0xA5, room);
    s->blocks[s->block_count++] = p;
    return p;
}

/* Each sample draws from the same start: a row added does not change the others. */
struct draw {
    uint64_t state;
    double low, high;
};

static double draw_unit(struct draw *d)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(d->state >> 40) * 0x1p-24;
}

static void draw_fill(struct draw *d, struct rt_value *v)
{
    unsigned class = element_class(v->dtype);
    int64_t count = shape_elements(&v->shape);
    for (int64_t i = 0; i < count; i++) {
        double x = d->low + (d->high - d->low) * draw_unit(d);
        if ((class & (ELEMENT_FLOAT | ELEMENT_COMPLEX)) != 0) {
            store_one_f64(v->data, v->dtype, i, x);
        } else if (class == ELEMENT_BOOL) {
            store_one_i64(v->data, v->dtype, i, x > (d->low + d->high) / 2);
        } else { /* integers of small magnitude: no sum of them overflows 8 bits by accident in one backend and not in another */
            double whole = d->low == -1 && d->high == 1 ? x * 7 : x;
            whole = class == ELEMENT_UNSIGNED && whole < 0 ? -whole : whole;
            store_one_i64(v->data, v->dtype, i, (int64_t)whole);
        }
    }
}

static void listed_fill(const char *at, struct rt_value *v)
{
    int64_t count = shape_elements(&v->shape);
    for (int64_t i = 0; i < count; i++) {
        char *end = NULL;
        double x = strtod(at, &end);
        if ((element_class(v->dtype) & ELEMENT_FLOAT) != 0) {
            store_one_f64(v->data, v->dtype, i, x);
        } else {
            store_one_i64(v->data, v->dtype, i, (int64_t)x);
        }
        at = *end == ',' ? end + 1 : at; /* the last one repeats */
    }
}

/* "T[2,3]" and what follows; *at moves behind the bracket. */
static bool head_read(const char **at, enum pen_dtype under_test, struct rt_value *v)
{
    char name[16];
    size_t length = strcspn(*at, "[");
    if (length >= sizeof name || (*at)[length] != '[') {
        return false;
    }
    memcpy(name, *at, length);
    name[length] = '\0';
    *v = (struct rt_value){.kind = VALUE_TENSOR};
    v->dtype = strcmp(name, "T") == 0 ? under_test : pen_dtype_parse(name);
    *at += length + 1;
    while (**at != ']') {
        char *end = NULL;
        v->shape.dim[v->shape.rank++] = strtoll(*at, &end, 10);
        if (end == *at || v->shape.rank == PEN_MAX_RANK) {
            return false;
        }
        *at = *end == ',' ? end + 1 : end;
    }
    (*at)++;
    return v->dtype != PEN_DTYPE_NONE;
}

/* Two trees over three features, two targets: a comparison each way, a second level, not-a-number to the right. */
static enum pen_status forest_read(struct sample *s)
{
    struct rt_value *v = &s->values[s->in_count];
    uint32_t *id = &s->in[s->in_count];
    const struct forest_source source = {
        .nodes = 8,
        .roots = 2,
        .entries = 6,
        .targets = 2,
        .root = (uint32_t[]){0, 5},
        .mode = (uint8_t[]){FOREST_LEQ, FOREST_GT, FOREST_LEAF, FOREST_LEAF, FOREST_LEAF, FOREST_LT, FOREST_LEAF,
                            FOREST_LEAF},
        .feature = (uint32_t[]){0, 2, 0, 0, 0, 1, 0, 0},
        .yes = (uint32_t[]){1, 3, 0, 0, 0, 6, 0, 0},
        .no = (uint32_t[]){2, 4, 0, 0, 0, 7, 0, 0},
        .split = (double[]){0.25, -0.5, 0, 0, 0, 0.125, 0, 0},
        .entry_node = (uint32_t[]){2, 3, 4, 6, 7, 7},
        .entry_target = (uint32_t[]){0, 1, 0, 1, 0, 1},
        .entry_weight = (double[]){0.5, 1.25, -1.0, 2.0, 0.75, -0.25},
    };
    enum pen_status status = forest_new(s->g, &source, "sample", id, NULL);
    if (status == PEN_OK) {
        const struct value *c = &s->g->values[*id];
        *v = (struct rt_value){
            .dtype = c->dtype, .shape = c->shape, .data = sample_alloc(s, c->bytes), .bytes = c->bytes};
        memcpy(v->data, c->data, c->bytes);
        s->in_count++;
    }
    return status;
}

static enum pen_status input_read(struct sample *s, const char *word, enum pen_dtype under_test, struct draw *d)
{
    struct rt_value *v = &s->values[s->in_count];
    uint32_t *id = &s->in[s->in_count];
    *v = (struct rt_value){0};
    *id = VALUE_NONE;
    if (strcmp(word, "-") == 0) {
        s->in_count++;
        return PEN_OK;
    }
    if (s->in_count < SAMPLE_VALUES_MAX && strcmp(word, "forest") == 0) {
        return forest_read(s);
    }
    if (s->in_count == SAMPLE_VALUES_MAX || !head_read(&word, under_test, v) ||
        shape_bytes(&v->shape, v->dtype, 0, &v->bytes) != PEN_OK) {
        return PEN_ERR_INVALID;
    }
    v->data = sample_alloc(s, v->bytes);
    memset(v->data, 0, v->bytes);
    bool constant = *word == 'c';
    word += constant;
    d->low = -1;
    d->high = 1;
    if (*word == '=') {
        constant = true;
        listed_fill(word + 1, v);
    } else {
        if (*word == '@' && sscanf(word, "@%lf:%lf", &d->low, &d->high) != 2) {
            return PEN_ERR_INVALID;
        }
        draw_fill(d, v);
    }
    s->in_count++;
    if (constant) {
        return graph_constant(s->g, NULL, v->dtype, &v->shape, v->data, v->bytes, false, id);
    }
    enum pen_status status = graph_value(s->g, NULL, id);
    if (status == PEN_OK) {
        s->g->values[*id].dtype = v->dtype;
        s->g->values[*id].shape = v->shape;
    }
    return status;
}

/* Also the keys that no file may hold (attr_find leaves them out). */
static enum attr_key key_find(const char *name)
{
    for (enum attr_key key = ATTR_NONE + 1; key < ATTR_COUNT; key++) {
        if (strcmp(attr_name(key), name) == 0) {
            return key;
        }
    }
    return ATTR_NONE;
}

static enum pen_status floats_read(struct sample *s, enum attr_key key, char *at)
{
    struct attr a = {.key = key, .type = ATTR_FLOATS};
    float *items = graph_alloc(s->g, 16 * sizeof *items);
    if (items == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (; *at != ']' && *at != '\0' && a.count < 16; at += *at == ',') {
        items[a.count++] = strtof(at, &at);
    }
    a.floats = items;
    return graph_attr_set(s->g, s->node, &a);
}

static enum pen_status attr_read(struct sample *s, char *word)
{
    char *value = strchr(word, '=');
    if (value == NULL) {
        return PEN_ERR_INVALID;
    }
    *value++ = '\0';
    enum attr_key key = key_find(word);
    int64_t items[16];
    uint32_t count = 0;
    if (key == ATTR_NONE) {
        return PEN_ERR_NOT_FOUND;
    }
    if (*value == '[' && strchr(value, '.') != NULL) {
        return floats_read(s, key, value + 1);
    }
    if (*value == '[') {
        for (char *at = value + 1; *at != ']' && *at != '\0' && count < 16; at += *at == ',') {
            items[count++] = strtoll(at, &at, 10);
        }
        return graph_attr_ints(s->g, s->node, key, items, count);
    }
    char *end = NULL;
    double number = strtod(value, &end);
    if (end == value || *end != '\0') {
        return graph_attr_text(s->g, s->node, key, value);
    }
    return strchr(value, '.') != NULL ? graph_attr_float(s->g, s->node, key, (float)number)
                                      : graph_attr_int(s->g, s->node, key, (int64_t)number);
}

static enum pen_status words_read(struct sample *s, const char *text, enum pen_dtype under_test, struct draw *d)
{
    char copy[512], *rest = NULL;
    enum pen_status status = PEN_OK;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL && status == PEN_OK; word = strtok_r(NULL, " ", &rest)) {
        status = d != NULL ? input_read(s, word, under_test, d) : attr_read(s, word);
    }
    return status;
}

struct sample *sample_new(const struct sample_row *row, enum pen_dtype dtype, struct pen_error *reterr)
{
    struct sample *s = calloc(1, sizeof *s);
    struct draw draw = {.state = 20240521};
    reference_evaluator_register();
    if (s == NULL || graph_new(NULL, &s->g) != PEN_OK) {
        free(s);
        return NULL;
    }
    s->memory.alloc = block_alloc;
    s->out_count = row->outputs;
    enum pen_status status = words_read(s, row->inputs, dtype, &draw);
    for (uint32_t i = 0; i < s->out_count && status == PEN_OK; i++) {
        status = graph_value(s->g, NULL, &s->out[i]);
    }
    if (status == PEN_OK) {
        status = graph_node(s->g, row->op, NULL, s->in, s->in_count, s->out, s->out_count, &s->node);
    }
    if (status == PEN_OK) {
        status = words_read(s, row->attrs, dtype, NULL);
    }
    if (status != PEN_OK) {
        pen_error_set(reterr, status, "the row \"%s\" \"%s\" of %s cannot be read", row->inputs, row->attrs,
                      op_def(row->op)->name);
        sample_free(s);
        return NULL;
    }
    return s;
}

void sample_free(struct sample *s)
{
    if (s != NULL) {
        for (size_t i = 0; i < s->block_count; i++) {
            free(s->blocks[i]);
        }
        graph_free(s->g);
        free(s);
    }
}

enum pen_status sample_reference(struct sample *s, struct pen_error *reterr)
{
    bool wanted[SAMPLE_VALUES_MAX];
    const struct node *n = &s->g->nodes[s->node];
    const char *reason = "no kernel";
    for (uint32_t i = 0; i < s->out_count; i++) {
        wanted[i] = true;
    }
    struct kernel_call k = {
        .g = s->g, .n = n, .in = s->values, .out = s->want, .wanted = wanted, .memory = &s->memory, .error = reterr};
    if (kernel_find(n->op) == NULL || !kernel_supports(s->g, n, &reason)) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "%s", reason);
    }
    enum pen_status status = kernel_run_node(&k);
    for (uint32_t i = 0; i < s->out_count && status == PEN_OK; i++) {
        s->g->values[s->out[i]].dtype = s->want[i].dtype;
        s->g->values[s->out[i]].shape = s->want[i].shape;
    }
    return status;
}

static struct fact *facts_make(const struct graph *g)
{
    struct fact *facts = calloc(g->value_count, sizeof *facts);
    for (uint32_t i = 0; facts != NULL && i < g->value_count; i++) {
        const struct value *v = &g->values[i];
        facts[i] =
            (struct fact){.kind = v->kind, .dtype = v->dtype, .shape = v->shape, .data = v->data, .bytes = v->bytes};
    }
    return facts;
}

static enum pen_status exec_twice(const struct backend_ops *ops, struct exec *exec, const struct buffer_view *in,
                                  const struct buffer_view *out, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (int turn = 0; turn < 2 && status == PEN_OK; turn++) { /* the second finds every buffer as the first left it */
        status = ops->exec_submit(exec, in, out, NULL, reterr);
        status = status == PEN_OK ? ops->exec_wait(exec, reterr) : status;
    }
    return status;
}

enum pen_status sample_run(struct sample *s, const struct backend_ops *ops, struct backend *backend,
                           struct rt_value *ret_out, struct pen_error *reterr)
{
    uint32_t in[SAMPLE_VALUES_MAX], in_count = 0;
    struct buffer_view views[SAMPLE_VALUES_MAX], outs[SAMPLE_VALUES_MAX];
    for (uint32_t i = 0; i < s->in_count; i++) {
        const struct rt_value *v = &s->values[i];
        if (s->in[i] != VALUE_NONE && s->g->values[s->in[i]].data == NULL) {
            views[in_count] =
                (struct buffer_view){.data = v->data, .bytes = v->bytes, .shape = v->shape, .dtype = v->dtype};
            in[in_count++] = s->in[i];
        }
    }
    for (uint32_t i = 0; i < s->out_count; i++) {
        ret_out[i] = s->want[i];
        ret_out[i].data = sample_alloc(s, s->want[i].bytes);
        outs[i] = (struct buffer_view){
            .data = ret_out[i].data, .bytes = s->want[i].bytes, .shape = s->want[i].shape, .dtype = s->want[i].dtype};
    }
    struct partition part = {
        .nodes = &s->node, .node_count = 1, .in = in, .in_count = in_count, .out = s->out, .out_count = s->out_count};
    struct shape_env env = {.g = s->g, .facts = facts_make(s->g)};
    struct plan *plan = NULL;
    struct exec *exec = NULL;
    enum pen_status status = env.facts != NULL ? ops->plan_new(backend, s->g, &part, &plan, reterr) : PEN_ERR_NO_MEMORY;
    if (status == PEN_OK) {
        status = ops->exec_new(plan, &env, &exec, reterr);
    }
    if (status == PEN_OK) {
        status = exec_twice(ops, exec, views, outs, reterr);
        ops->exec_free(exec);
    }
    if (plan != NULL) {
        ops->plan_free(plan);
    }
    for (uint32_t i = 0; i < s->out_count && status == PEN_OK; i++) {
        const uint8_t *behind = (const uint8_t *)ret_out[i].data + ret_out[i].bytes;
        for (size_t k = 0; k < LIFETIME_PAD && status == PEN_OK; k++) {
            status = behind[k] == 0xA5 ? PEN_OK : pen_error_set(reterr, PEN_ERR_INTERNAL, "writes behind output %u", i);
        }
    }
    free(env.facts);
    return status;
}
