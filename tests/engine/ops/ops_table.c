/*
 * ops_table - runs every sample on every backend that claims it, compares with the reference, and keeps engine/OPS.md.
 *
 *     ops_table --check engine/OPS.md      fails on a wrong answer and where the file says something else than the code
 *     ops_table --write engine/OPS.md      writes the file
 *     ops_table --answers                  fails on a wrong answer; vulkan is asked for f32 alone (a sanitizer makes each compilation of a shader slow, and the
 *                                          other dtypes go the same way through our code). No file is read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"
#include "tools/case.h"

static const enum pen_dtype dtypes[] = {
    PEN_DTYPE_F32, PEN_DTYPE_F64, PEN_DTYPE_F16, PEN_DTYPE_BF16, PEN_DTYPE_I8,
    PEN_DTYPE_I16, PEN_DTYPE_I32, PEN_DTYPE_I64, PEN_DTYPE_U8,   PEN_DTYPE_U16,
    PEN_DTYPE_U32, PEN_DTYPE_U64, PEN_DTYPE_I4,  PEN_DTYPE_U4,   PEN_DTYPE_BOOL,
};
#define DTYPES (sizeof dtypes / sizeof dtypes[0])

/* Bits by position in `dtypes`. */
struct cell {
    uint32_t some, all; /* at least one sample ran; none was refused that the reference takes */
};

struct column {
    const struct backend_ops *ops;
    struct backend *self; /* NULL: not open on this host */
    char library[96];
    struct cell cells[OP_COUNT];
};

struct table {
    struct column columns[BACKENDS_MAX];
    size_t column_count;
    bool answers; /* --answers */
    unsigned long long compared, wrong;
};

static bool quantised(enum op op)
{
    return strncmp(op_def(op)->name, "QLinear", 7) == 0 || op == OP_QGemm || op == OP_QuantizeLinear ||
           op == OP_DynamicQuantizeLinear;
}

static void wrong(struct table *t, const struct column *c, const struct sample_row *row, enum pen_dtype dtype,
                  const char *why)
{
    t->wrong++;
    printf("  wrong: %s on %s, T = %s, \"%s\" \"%s\": %s\n", op_def(row->op)->name, c->ops->name, pen_dtype_name(dtype),
           row->inputs, row->attrs, why);
}

static void compare(struct table *t, const struct column *c, const struct sample_row *row, enum pen_dtype dtype,
                    const struct sample *s, const struct rt_value *got)
{
    bool narrow = dtype == PEN_DTYPE_F16 || dtype == PEN_DTYPE_BF16;
    struct tolerance tolerance =
        tolerance_operator(narrow ? PEN_PRECISION_F16_STORAGE : PEN_PRECISION_F32, quantised(row->op));
    for (uint32_t i = 0; i < s->out_count && (op_def(row->op)->traits & OP_RANDOM) == 0; i++) {
        struct comparison found = {0};
        if (!compare_value(&got[i], &s->want[i], &tolerance, 0, 0, "of this operator", &found)) {
            wrong(t, c, row, dtype, found.reason);
            return;
        }
    }
}

/* Whether this run asks the backend for that dtype. */
static bool asked(const struct table *t, const struct column *c, size_t dtype)
{
    return !t->answers || dtypes[dtype] == PEN_DTYPE_F32 || strcmp(c->ops->name, "vulkan") != 0;
}

static void backend_try(struct table *t, struct column *c, const struct sample_row *row, size_t dtype, struct sample *s)
{
    struct rt_value got[SAMPLE_VALUES_MAX];
    struct pen_error error = {0};
    struct cell *cell = &c->cells[row->op];
    if (c->self == NULL || !c->ops->supports(c->self, s->g, &s->g->nodes[s->node], NULL)) {
        cell->all &= ~(1u << dtype);
        return;
    }
    cell->some |= 1u << dtype;
    t->compared++;
    if (sample_run(s, c->ops, c->self, got, &error) != PEN_OK) {
        wrong(t, c, row, dtypes[dtype], error.text);
    } else {
        compare(t, c, row, dtypes[dtype], s, got);
    }
}

static int row_try(struct table *t, const struct sample_row *row, size_t dtype)
{
    struct pen_error error = {0};
    struct sample *s = sample_new(row, dtypes[dtype], &error);
    if (s == NULL) {
        printf("  %s\n", error.text);
        return -1;
    }
    bool known = sample_reference(s, &error) == PEN_OK;
    if (getenv("OPS_VERBOSE") != NULL && !known) {
        printf("  not in reference: %s %s \"%s\": %s\n", op_def(row->op)->name, pen_dtype_name(dtypes[dtype]),
               row->inputs, error.text);
    }
    for (size_t i = 0; known && i < t->column_count; i++) {
        struct column *c = &t->columns[i];
        if (strcmp(c->ops->name, "reference") ==
            0) { /* the executor runs these kernels too, where the backend's plan cannot */
            c->cells[row->op].some |= 1u << dtype;
        } else if (asked(t, c, dtype)) {
            backend_try(t, c, row, dtype, s);
        }
    }
    for (size_t i = 0; !known && i < t->column_count; i++) {
        if (strcmp(t->columns[i].ops->name, "reference") == 0) {
            t->columns[i].cells[row->op].all &= ~(1u << dtype);
        }
    }
    sample_free(s);
    return 0;
}

static int columns_open(struct table *t)
{
    size_t count = 0;
    const struct backend_ops *const *backends = backend_table(&count);
    struct pen_error error = {0};
    for (size_t i = 0; i < count && i < BACKENDS_MAX; i++) {
        struct column *c = &t->columns[t->column_count++];
        struct backend_config config = {
            .precision = PEN_PRECISION_F32,
            .threads = 1,
            .vulkan = {.allow_software = true, .validate = getenv("OPS_NO_VALIDATION") == NULL}};
        struct backend_caps caps = {0};
        c->ops = backends[i];
        for (size_t op = 0; op < OP_COUNT; op++) {
            c->cells[op].all = UINT32_MAX;
        }
        if (c->ops->probe(&config, &caps) == PEN_OK && caps.available) {
            snprintf(c->library, sizeof c->library, "%.*s", (int)strcspn(caps.library, " "), caps.library);
            if (c->ops->open(&config, &c->self, &error) != PEN_OK) {
                printf("backend %s does not open: %s\n", c->ops->name, error.text);
                return -1;
            }
        }
    }
    return 0;
}

static void columns_close(struct table *t)
{
    for (size_t i = 0; i < t->column_count; i++) {
        t->columns[i].ops->close(t->columns[i].self);
    }
}

static void cell_print(FILE *f, const struct cell *cell)
{
    static const struct {
        const char *name;
        uint32_t mask;
    } groups[] = {{"float", 0xF}, {"int", 0xF0}, {"uint", 0xF00}};
    const char *between = "";
    uint32_t left = cell->some;
    for (size_t i = 0; i < 3; i++) {
        if ((left & groups[i].mask) == groups[i].mask && (cell->all & groups[i].mask) == groups[i].mask) {
            fprintf(f, "%s%s", between, groups[i].name);
            between = " ";
            left &= ~groups[i].mask;
        }
    }
    for (size_t i = 0; i < DTYPES; i++) {
        if ((left & 1u << i) != 0) {
            fprintf(f, "%s%s%s", between, pen_dtype_name(dtypes[i]), (cell->all & 1u << i) != 0 ? "" : "*");
            between = " ";
        }
    }
}

static void row_print(FILE *f, const struct table *t, enum op op)
{
    uint32_t traits = op_def(op)->traits;
    fprintf(f, "| %s |", op_def(op)->name);
    for (size_t i = t->column_count; i-- > 0;) {
        const struct cell *cell = &t->columns[i].cells[op];
        bool reference = strcmp(t->columns[i].ops->name, "reference") == 0;
        fputc(' ', f);
        if (cell->some != 0) {
            cell_print(f, cell);
        } else if (reference && (traits & OP_CONTROL) != 0) {
            fputs("executor", f);
        } else {
            fputs(reference && kernel_find(op) != NULL ? "kernel" : "-", f);
        }
        fputs(" |", f);
    }
    fputc('\n', f);
}

static void table_print(FILE *f, const struct table *t)
{
    fputs("# Operators, backends, dtypes\n"
          "Written by `cmake --build build --target ops_table` from `tests/engine/ops`: every operator of "
          "`graph/op.def` with a sample there is run with each "
          "dtype; what a\nbackend claims is run on it and compared with the reference. A test fails where this file "
          "and the code differ. The "
          "reference itself is held by the official\ncases and by NumPy (`tests/engine/tools/numpy_check.py`).\n\n"
          "- `float` = f32 f64 f16 bf16, `int` = i8 i16 i32 i64, `uint` = u8 u16 u32 u64; the dtype is that of the "
          "main input.\n"
          "- `*`: some of the samples only (an attribute, a constant weight, a layout: a model is turned into the one "
          "that its backend takes).\n"
          "- `kernel`: no sample here (strings, sequences, trees, optimisers); the official cases run it. `executor`: "
          "control flow. `-`: not there.\n\n",
          f);
    fputs("| operator |", f);
    for (size_t i = t->column_count; i-- > 0;) {
        bool open = t->columns[i].self != NULL;
        fprintf(f, " %s |", open ? t->columns[i].library : "not on this host");
    }
    fputs("\n|---|", f);
    for (size_t i = 0; i < t->column_count; i++) {
        fputs("---|", f);
    }
    fputc('\n', f);
    for (enum op op = OP_NONE + 1; op < OP_COUNT; op++) {
        row_print(f, t, op);
    }
}

/* 1 when the file holds another text; 0 when equal, or when it was made with other libraries (said). */
static int file_check(const char *path, const char *text)
{
    char line[512], want[512];
    FILE *f = fopen(path, "r");
    unsigned number = 0;
    if (f == NULL) {
        printf("  %s is missing: build the target ops_table\n", path);
        return 1;
    }
    for (; fgets(line, sizeof line, f) != NULL; number++) {
        size_t length = strcspn(text, "\n") + 1;
        snprintf(want, sizeof want, "%.*s", (int)length, text);
        if (strcmp(line, want) != 0) {
            fclose(f);
            if (strncmp(line, "| operator |", 12) == 0) {
                printf("[SKIP] %s was made with other libraries: %s", path, line);
                return 0;
            }
            printf("  %s:%u says\n    %s  the code says\n    %s  build the target ops_table to write it anew\n", path,
                   number + 1, line, want);
            return 1;
        }
        text += strlen(want);
    }
    fclose(f);
    if (*text != '\0') {
        printf("  %s ends too early: build the target ops_table\n", path);
    }
    return *text != '\0';
}

/* A backend that has kernels for an operator runs one of its samples: a cell without a dtype would say that it has none. */
static void claims_check(struct table *t)
{
    for (size_t i = 0; i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        bool asked = c->self != NULL && strcmp(c->ops->name, "reference") != 0; /* "kernel" says it there */
        for (enum op op = OP_NONE + 1; asked && op < OP_COUNT; op++) {
            if (c->ops->claims(op) && c->cells[op].some == 0) {
                t->wrong++;
                printf("  wrong: %s has kernels for %s, and no row of samples.def that they take: add one\n",
                       c->ops->name, op_def(op)->name);
            }
        }
    }
}

static int file_keep(const struct table *t, bool write, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory == NULL) {
        return 1;
    }
    table_print(memory, t);
    fclose(memory);
    int failed = 0;
    if (write) {
        FILE *f = fopen(path, "w");
        failed = f == NULL || fwrite(text, 1, bytes, f) != bytes;
        failed = (f != NULL && fclose(f) != 0) || failed;
    } else {
        failed = file_check(path, text);
    }
    free(text);
    return failed;
}

int main(int argc, char **argv)
{
    static struct table t;
    t.answers = argc == 2 && strcmp(argv[1], "--answers") == 0;
    if (!t.answers && (argc != 3 || (strcmp(argv[1], "--check") != 0 && strcmp(argv[1], "--write") != 0))) {
        fprintf(stderr, "usage: ops_table --check FILE | --write FILE | --answers\n");
        return 2;
    }
    int broken = columns_open(&t);
    for (const struct sample_row *row = sample_rows(); row->op != OP_NONE && broken == 0; row++) {
        for (size_t i = 0; i < DTYPES && broken == 0; i++) {
            broken = row_try(&t, row, i);
        }
    }
    if (!t.answers) {
        claims_check(&t);
    }
    columns_close(&t);
    if (broken != 0) {
        return 1;
    }
    int differs = t.answers ? 0 : file_keep(&t, strcmp(argv[1], "--write") == 0, argv[2]);
    bool kept = !t.answers && differs == 0; /* the file is one test more */
    printf("%llu passed, %llu failed, 0 skipped\n", t.compared - t.wrong + kept, t.wrong + (differs != 0));
    return t.wrong > 0 || differs != 0;
}
