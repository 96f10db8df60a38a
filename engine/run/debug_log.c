#include "run/debug_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/element_io.h"
#include "run/deviation.h"

#define ROWS_MAX    20000
#define TEXT_BYTES  ((size_t)64 << 10) /* of one block */
#define F16_LARGEST 65504.0

struct text_block {
    struct text_block *next;
    size_t used;
    char text[TEXT_BYTES];
};

struct debug_log {
    struct pen_debug_row *rows;
    size_t count, room;
    uint64_t lost;
    struct text_block *texts;
};

struct debug_log *debug_log_new(void)
{
    return calloc(1, sizeof(struct debug_log));
}

void debug_log_begin(struct debug_log *log)
{
    while (log->texts != NULL) {
        struct text_block *next = log->texts->next;
        free(log->texts);
        log->texts = next;
    }
    log->count = 0;
    log->lost = 0;
}

void debug_log_free(struct debug_log *log)
{
    if (log != NULL) {
        debug_log_begin(log);
        free(log->rows);
        free(log);
    }
}

const struct pen_debug_row *debug_log_rows(const struct debug_log *log, size_t *ret_count, uint64_t *ret_lost)
{
    *ret_count = log->count;
    *ret_lost = log->lost;
    return log->rows;
}

/* A copy that lives until the next run; "" without memory. */
static const char *text_keep(struct debug_log *log, const char *text)
{
    size_t bytes = strnlen(text, TEXT_BYTES - 1) + 1;
    if (log->texts == NULL || log->texts->used + bytes > TEXT_BYTES) {
        struct text_block *block = malloc(sizeof *block);
        if (block == NULL) {
            return "";
        }
        block->next = log->texts;
        block->used = 0;
        log->texts = block;
    }
    char *to = log->texts->text + log->texts->used;
    memcpy(to, text, bytes - 1);
    to[bytes - 1] = '\0';
    log->texts->used += bytes;
    return to;
}

static struct pen_debug_row *row_new(struct debug_log *log)
{
    if (log->count == log->room && log->room < ROWS_MAX) {
        size_t room = log->room == 0 ? 128 : log->room * 2;
        struct pen_debug_row *rows = realloc(log->rows, room * sizeof *rows);
        log->rows = rows != NULL ? rows : log->rows;
        log->room = rows != NULL ? room : log->room;
    }
    if (log->count == log->room || log->count == ROWS_MAX) {
        log->lost++;
        return NULL;
    }
    struct pen_debug_row *row = &log->rows[log->count++];
    *row = (struct pen_debug_row){.kernel = "", .shapes = "", .note = ""};
    return row;
}

/* ---- one node ---- */

static void shapes_text(const struct node *n, const struct bucket *b, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < n->in_count + n->out_count && used < bytes; i++) {
        bool out = i >= n->in_count;
        uint32_t id = out ? n->out[i - n->in_count] : n->in[i];
        const char *before = i == n->in_count ? (i > 0 ? " -> " : "-> ") : i > 0 ? ", " : "";
        char shape[128] = "-";
        if (id != VALUE_NONE && b->values[id].kind != VALUE_TENSOR) {
            snprintf(shape, sizeof shape, "sequence of %" PRIu32, b->values[id].item_count);
        } else if (id != VALUE_NONE) {
            shape_text(&b->values[id].shape, shape, sizeof shape);
        }
        int more = snprintf(text + used, bytes - used, "%s%s", before, shape);
        used += more > 0 ? (size_t)more : 0;
    }
}

static uint64_t ports_bytes(const struct node *n, const struct bucket *b)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n->in_count + n->out_count; i++) {
        uint32_t id = i < n->in_count ? n->in[i] : n->out[i - n->in_count];
        const struct rt_value *v = id != VALUE_NONE ? &b->values[id] : NULL;
        size_t one = 0;
        if (v != NULL && v->kind == VALUE_TENSOR && v->dtype != PEN_DTYPE_NONE && v->dtype != PEN_DTYPE_STRING &&
            shape_known(&v->shape) && shape_bytes(&v->shape, v->dtype, 0, &one) == PEN_OK) {
            bytes += one;
        }
    }
    return bytes;
}

/* What is wrong with one number. */
static bool bad(double x)
{
    return !isfinite(x);
}

static void element_look(struct pen_debug_row *row, const char *output, int64_t index, double x)
{
    bool wide = isfinite(x) && fabs(x) > F16_LARGEST, first = row->output == NULL;
    if (!bad(x) && !wide) {
        return;
    }
    bool worse = !first && bad(x) && !bad(row->value); /* NaN and infinity are named before what is merely large */
    row->nan += isnan(x) != 0;
    row->infinite += isinf(x) != 0;
    row->beyond_f16 += wide;
    if (first || worse) {
        row->output = output;
        row->index = index;
        row->value = x;
    }
}

static void value_look(struct pen_debug_row *row, const char *name, const struct rt_value *v)
{
    bool floats = v->kind == VALUE_TENSOR && v->data != NULL && v->dtype != PEN_DTYPE_NONE &&
                  (element_class(v->dtype) & ELEMENT_FLOAT) != 0 && shape_known(&v->shape);
    int64_t count = floats ? shape_elements(&v->shape) : 0;
    double block[ELEMENT_BLOCK];
    for (int64_t i = 0; i < count; i += ELEMENT_BLOCK) {
        int64_t some = count - i < ELEMENT_BLOCK ? count - i : ELEMENT_BLOCK;
        load_f64(v->data, v->dtype, i, 1, some, block);
        for (int64_t k = 0; k < some; k++) {
            element_look(row, name, i + k, block[k]);
        }
    }
}

static void compare(struct runner *r, const struct bucket *b, const struct node *n, struct pen_debug_row *row)
{
    struct deviation d = {0};
    struct pen_error error = {0}, *outer = r->context->error;
    r->context->error = &error;
    enum pen_status status = deviation_of(r->context, r->program, b, n, &d);
    r->context->error = outer;
    if (status != PEN_OK) {
        row->note = text_keep(r->context->debug, error.text[0] != '\0' ? error.text : "the reference failed");
        return;
    }
    r->context->compared++;
    row->largest = d.largest;
    row->compared = d.wrong > 0 ? PEN_COMPARED_BEYOND : PEN_COMPARED_WITHIN;
    if (d.wrong > 0) {
        row->deviating = r->program->g->values[n->out[d.output]].name;
        row->deviating_index = d.first;
        row->got = d.got;
        row->expected = d.want;
        row->deviating_count = (uint64_t)d.wrong;
    }
}

struct ran {
    const char *backend, *kernel, *note; /* note: why it is not compared; NULL = it is */
    uint64_t ns;
};

static void node_row(struct runner *r, const struct bucket *b, uint32_t node, const struct ran *ran)
{
    struct debug_log *log = r->context->debug;
    const struct graph *g = r->program->g;
    const struct node *n = &g->nodes[node];
    struct pen_debug_row *row = row_new(log);
    char shapes[600];
    if (row == NULL) {
        return; /* out of memory or too many: a log is a help, no reason to fail */
    }
    row->node = n->name;
    row->op = op_def(n->op)->name;
    row->backend = ran->backend;
    row->kernel = text_keep(log, ran->kernel);
    shapes_text(n, b, shapes, sizeof shapes);
    row->shapes = text_keep(log, shapes);
    row->bytes = ports_bytes(n, b);
    row->ns = ran->ns;
    for (uint32_t o = 0; o < n->out_count; o++) {
        if (n->out[o] != VALUE_NONE) {
            value_look(row, g->values[n->out[o]].name, &b->values[n->out[o]]);
        }
    }
    if (ran->note != NULL) {
        row->note = ran->note;
    } else {
        compare(r, b, n, row);
    }
}

void debug_node(struct runner *r, const struct bucket *b, uint32_t node, uint64_t ns)
{
    bool control = (op_def(r->program->g->nodes[node].op)->traits & OP_CONTROL) != 0;
    node_row(
        r, b, node,
        &(struct ran){.backend = "executor",
                      .kernel = control ? "its subgraphs" : "plain C",
                      .note = control ? "its subgraphs have rows of their own" : "the kernel is the reference's own",
                      .ns = ns});
}

/* ---- a backend's step ---- */

struct told {
    uint64_t *ns;       /* [node_count of the partition] */
    char (*kernel)[96]; /* [node_count] */
    uint32_t count;
};

static void time_told(void *context, uint32_t index, uint64_t ns)
{
    struct told *t = context;
    if (index < t->count) {
        t->ns[index] = ns;
    }
}

static void kernel_told(void *context, uint32_t index, const char *kernel, const char *why)
{
    struct told *t = context;
    (void)why;
    if (index < t->count) {
        snprintf(t->kernel[index], sizeof t->kernel[index], "%s", kernel);
    }
}

static void step_rows(struct runner *r, const struct bucket *b, const struct bucket_step *step, const struct told *t)
{
    const struct partition *part = &step->placed->part;
    const struct backend_ops *ops = r->program->placement->backends[step->placed->backend].ops;
    for (uint32_t i = 0; i < part->node_count; i++) {
        const struct node *n = &r->program->g->nodes[part->nodes[i]];
        if (n->dead || shape_env_folded(b->env, n)) {
            continue;
        }
        const char *note = ops->is_reference                          ? "it ran on the reference"
                           : (op_def(n->op)->traits & OP_RANDOM) != 0 ? "it is random"
                                                                      : NULL;
        node_row(r, b, part->nodes[i],
                 &(struct ran){.backend = ops->name, .kernel = t->kernel[i], .ns = t->ns[i], .note = note});
    }
}

void debug_step(struct runner *r, const struct bucket *b, const struct bucket_step *step)
{
    const struct backend_ops *ops = r->program->placement->backends[step->placed->backend].ops;
    uint32_t count = step->placed->part.node_count;
    struct told t = {calloc((size_t)count + 1, sizeof *t.ns), calloc((size_t)count + 1, sizeof *t.kernel), count};
    if (t.ns != NULL && t.kernel != NULL) {
        if (ops->exec_times != NULL) {
            ops->exec_times(step->exec, time_told, &t);
        }
        if (ops->exec_kernels != NULL) {
            ops->exec_kernels(step->exec, kernel_told, &t);
        }
        step_rows(r, b, step, &t);
    } else {
        r->context->debug->lost += count;
    }
    free(t.ns);
    free(t.kernel);
}
