/*
 * cases.c - runs official single-graph ONNX cases node by node on the reference kernels: `reference_cases FOLDER [filter]`.
 *
 * Prints one line per case that does not pass and a sum; exit code 0 when every case passed or was skipped for control flow. Sums of more than 64 terms
 * near zero may differ by 1e-5, everything else by 1e-7 + 1e-3 |expected|.
 */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/reference/element_io.h"
#include "backend/reference/evaluate.h"
#include "backend/reference/kernel.h"
#include "backend/reference/scratch.h"
#include "graph/arena.h"
#include "import/importer.h"

#define INPUTS_MAX 64

enum verdict { PASS, FAIL, SKIP };

struct mapped {
    void *data;
    size_t bytes;
};

static bool map_file(const char *path, struct mapped *ret)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *ret = (struct mapped){0};
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size <= 0) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    ret->bytes = (size_t)st.st_size;
    ret->data = mmap(NULL, ret->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    return ret->data != MAP_FAILED;
}

struct run {
    const struct graph *g;
    struct rt_value *values; /* [value_count] */
    struct scratch scratch;
    struct graph_arena *arena;
    double absolute; /* tolerance */
    char why[1400];
};

static struct rt_value value_of(const struct onnx_value *v, struct scratch *s)
{
    struct rt_value r = {
        .kind = v->kind, .dtype = v->dtype, .shape = v->shape, .bytes = v->bytes, .item_count = v->item_count};
    memcpy(&r.data, &v->data, sizeof r.data);
    if (v->item_count > 0) {
        r.items = s->memory.alloc(&s->memory, v->item_count * sizeof *r.items);
        for (uint32_t i = 0; r.items != NULL && i < v->item_count; i++) {
            r.items[i] = value_of(&v->items[i], s);
        }
    }
    return r;
}

/* input_N.pb or output_N.pb of the first data set. */
static bool read_value(struct run *r, const char *folder, const char *what, uint32_t index, enum value_kind kind,
                       struct onnx_value *ret)
{
    char path[1200];
    struct mapped file;
    struct pen_error error = {0};
    snprintf(path, sizeof path, "%s/test_data_set_0/%s_%u.pb", folder, what, index);
    if (!map_file(path, &file)) {
        snprintf(r->why, sizeof r->why, "no %s_%u.pb", what, index);
        return false;
    }
    if (onnx_value_read(file.data, file.bytes, kind, r->arena, ret, &error) != PEN_OK) {
        snprintf(r->why, sizeof r->why, "%s_%u.pb: %s", what, index, error.text);
        return false;
    }
    return true;
}

/* Operators whose results are sums of more than 64 terms: near zero the expected values are noise of single precision. */
static bool sums_widely(const struct graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (g->nodes[i].op == OP_DFT || g->nodes[i].op == OP_STFT) {
            return true;
        }
    }
    return false;
}

static enum verdict run_node(struct run *r, const struct node *n)
{
    struct rt_value in[INPUTS_MAX], out[INPUTS_MAX];
    struct pen_error error = {0};
    if ((op_def(n->op)->traits & OP_CONTROL) != 0 || n->in_count > INPUTS_MAX || n->out_count > INPUTS_MAX) {
        snprintf(r->why, sizeof r->why, "%s is the executor's", op_def(n->op)->name);
        return SKIP;
    }
    memset(in, 0, sizeof in);
    memset(out, 0, sizeof out);
    for (uint32_t i = 0; i < n->in_count; i++) {
        if (n->in[i] != VALUE_NONE) {
            in[i] = r->values[n->in[i]];
        }
    }
    struct kernel_call k = {.g = r->g, .n = n, .in = in, .out = out, .memory = &r->scratch.memory, .error = &error};
    enum pen_status status = kernel_run_node(&k);
    if (status != PEN_OK) {
        snprintf(r->why, sizeof r->why, "%s: %s", pen_status_name(status), error.text);
        return FAIL;
    }
    for (uint32_t i = 0; i < n->out_count; i++) {
        if (n->out[i] != VALUE_NONE) {
            r->values[n->out[i]] = out[i];
        }
    }
    return PASS;
}

static bool texts_equal(const struct rt_value *a, const struct onnx_value *b, int64_t i)
{
    const struct string_view *x = (const struct string_view *)a->data + i, *y = (const struct string_view *)b->data + i;
    return x->bytes == y->bytes && (x->bytes == 0 || memcmp(x->text, y->text, x->bytes) == 0);
}

static bool compare(struct run *r, const struct rt_value *have, const struct onnx_value *want, uint32_t index)
{
    char a[96], b[96];
    if (want->kind != VALUE_TENSOR) {
        bool same = have->item_count == want->item_count;
        for (uint32_t i = 0; i < want->item_count && same; i++) {
            same = compare(r, &have->items[i], &want->items[i], index);
        }
        if (!same && r->why[0] == '\0') {
            snprintf(r->why, sizeof r->why, "output %u has %u items, expected %u", index, have->item_count,
                     want->item_count);
        }
        return same;
    }
    if (have->kind != VALUE_TENSOR || have->dtype != want->dtype || !shape_equal(&have->shape, &want->shape)) {
        snprintf(r->why, sizeof r->why, "output %u is %s %s, expected %s %s", index, pen_dtype_name(have->dtype),
                 shape_text(&have->shape, a, sizeof a), pen_dtype_name(want->dtype),
                 shape_text(&want->shape, b, sizeof b));
        return false;
    }
    for (int64_t i = 0; i < shape_elements(&want->shape); i++) {
        if (want->dtype == PEN_DTYPE_STRING) {
            if (!texts_equal(have, want, i)) {
                const struct string_view *x = (const struct string_view *)have->data + i;
                snprintf(r->why, sizeof r->why, "output %u element %lld is the string \"%.*s\"", index, (long long)i,
                         (int)x->bytes, x->text);
                return false;
            }
            continue;
        }
        double x = load_one_f64(have->data, have->dtype, i), y = load_one_f64(want->data, want->dtype, i);
        bool same = x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= r->absolute + 1e-3 * fabs(y);
        if (!same) {
            snprintf(r->why, sizeof r->why, "output %u element %lld is %.9g, expected %.9g", index, (long long)i, x, y);
            return false;
        }
    }
    return true;
}

static enum verdict run_graph(struct run *r, const char *folder)
{
    const struct graph *g = r->g;
    struct onnx_value v;
    for (uint32_t i = 0; i < g->value_count; i++) {
        const struct value *c = &g->values[i];
        r->values[i] = (struct rt_value){.dtype = PEN_DTYPE_NONE};
        if (c->data != NULL) {
            r->values[i] = (struct rt_value){.dtype = c->dtype, .shape = c->shape, .bytes = c->bytes};
            memcpy(&r->values[i].data, &c->data, sizeof c->data);
        }
    }
    for (uint32_t i = 0; i < g->input_count; i++) {
        if (!read_value(r, folder, "input", i, g->values[g->inputs[i]].kind, &v)) {
            return FAIL;
        }
        r->values[g->inputs[i]] = value_of(&v, &r->scratch);
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        enum verdict verdict = g->nodes[i].dead ? PASS : run_node(r, &g->nodes[i]);
        if (verdict != PASS) {
            return verdict;
        }
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        if (!read_value(r, folder, "output", i, g->values[g->outputs[i]].kind, &v) ||
            !compare(r, &r->values[g->outputs[i]], &v, i)) {
            return FAIL;
        }
    }
    return PASS;
}

static enum verdict run_case(const char *folder, char *why, size_t room)
{
    char path[1200];
    struct mapped model;
    struct graph *g = NULL;
    struct import_extra extra = {0};
    struct pen_error error = {0};
    struct run r = {.arena = arena_new((uint64_t)1 << 32)};
    enum verdict verdict = FAIL;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (!map_file(path, &model) || r.arena == NULL) {
        snprintf(why, room, "no model");
    } else if (onnx_read(model.data, model.bytes, folder, NULL, &g, &extra, &error) != PEN_OK) {
        snprintf(why, room, "read: %s", error.text);
    } else {
        scratch_init(&r.scratch, (uint64_t)1 << 32);
        r.g = g;
        r.absolute = sums_widely(g) ? 1e-5 : 1e-7;
        r.values = calloc((size_t)g->value_count + 1, sizeof *r.values);
        verdict = r.values == NULL ? FAIL : run_graph(&r, folder);
        snprintf(why, room, "%s", r.why);
        free(r.values);
        scratch_fini(&r.scratch);
    }
    graph_free(g);
    import_extra_fini(&extra);
    arena_free(r.arena);
    return verdict;
}

int main(int argc, char **argv)
{
    const char *root = argc > 1 ? argv[1] : PENSTOCK_SHARED "/conformance/onnx/node";
    struct dirent **names = NULL;
    unsigned counts[3] = {0};
    reference_evaluator_register();
    int count = scandir(root, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char folder[1024], why[1400] = "";
        if (names[i]->d_name[0] != '.' && (argc < 3 || strstr(names[i]->d_name, argv[2]) != NULL)) {
            snprintf(folder, sizeof folder, "%s/%s", root, names[i]->d_name);
            enum verdict verdict = run_case(folder, why, sizeof why);
            counts[verdict]++;
            if (verdict != PASS) {
                printf("%s %s: %s\n", verdict == FAIL ? "FAIL" : "SKIP", names[i]->d_name, why);
                fflush(stdout);
            }
        }
        free(names[i]);
    }
    free(names);
    printf("%s: %u passed, %u failed, %u skipped\n", root, counts[PASS], counts[FAIL], counts[SKIP]);
    return counts[FAIL] == 0 ? 0 : 1;
}
