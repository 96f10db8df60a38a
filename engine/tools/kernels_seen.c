#include "tools/kernels_seen.h"

#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "graph/needs.h"
#include "import/inventory.h"
#include "precisions.h"
#include "tools/info_refused.h"
#include "version.h"

#define ROWS_MAX  4096 /* more than all operators in all types on all backends that models mix */
#define NOTES_MAX 16

struct row {
    char where[16]; /* "graph", or a backend */
    enum op op;
    enum pen_dtype type;
};

struct import {
    char format[8], op[112];
};

struct kernels_seen {
    struct needs_watcher watcher;
    pthread_mutex_t lock;
    struct row rows[ROWS_MAX];
    size_t row_count;
    struct import imports[INVENTORY_OPS_MAX];
    size_t import_count;
    uint32_t precisions; /* bit 1u << enum pen_precision */
    char notes[NOTES_MAX][512];
    size_t note_count;
};

static void row_note(void *context, const char *where, enum op op, enum pen_dtype type)
{
    struct kernels_seen *s = context;
    size_t i = 0;
    pthread_mutex_lock(&s->lock);
    while (i < s->row_count &&
           (s->rows[i].op != op || s->rows[i].type != type || strcmp(s->rows[i].where, where) != 0)) {
        i++;
    }
    if (i == s->row_count && i < ROWS_MAX) {
        s->rows[i] = (struct row){.op = op, .type = type};
        snprintf(s->rows[i].where, sizeof s->rows[i].where, "%s", where);
        s->row_count++;
    }
    pthread_mutex_unlock(&s->lock);
}

struct kernels_seen *kernels_seen_new(void)
{
    struct kernels_seen *s = calloc(1, sizeof *s);
    if (s != NULL) {
        pthread_mutex_init(&s->lock, NULL);
        s->watcher = (struct needs_watcher){row_note, s};
        needs_watch(&s->watcher);
    }
    return s;
}

void kernels_seen_free(struct kernels_seen *seen)
{
    if (seen != NULL) {
        needs_watch(NULL);
        pthread_mutex_destroy(&seen->lock);
        free(seen);
    }
}

void kernels_seen_precision(struct kernels_seen *seen, enum pen_precision precision)
{
    seen->precisions |= 1u << (unsigned)precision;
}

void kernels_seen_note(struct kernels_seen *seen, const char *path, const char *why)
{
    if (seen->note_count < NOTES_MAX) {
        snprintf(seen->notes[seen->note_count++], sizeof seen->notes[0], "%.200s was loaded and not run: %.250s", path,
                 why);
    }
}

static void import_add(struct kernels_seen *s, const char *format, const char *op)
{
    const char *last = strrchr(op, ' '); /* "custom Foo" */
    op = last != NULL ? last + 1 : op;
    size_t i = 0;
    while (i < s->import_count && (strcmp(s->imports[i].op, op) != 0 || strcmp(s->imports[i].format, format) != 0)) {
        i++;
    }
    if (i == s->import_count && i < INVENTORY_OPS_MAX && *op != '\0') {
        snprintf(s->imports[i].format, sizeof s->imports[i].format, "%s", format);
        snprintf(s->imports[i].op, sizeof s->imports[i].op, "%s", op);
        s->import_count++;
    }
}

void kernels_seen_import(struct kernels_seen *seen, const char *path, const char *format)
{
    struct inventory all;
    (void)info_inventory(path, &all);
    for (uint32_t i = 0; i < all.op_count; i++) {
        import_add(seen, format, all.ops[i].name);
    }
    if (all.layers) {
        import_add(seen, format, "layers");
    }
    inventory_fini(&all);
}

/* ---- what is printed ---- */

static int by_name(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = strcmp(op_def(x->op)->name, op_def(y->op)->name);
    order = order != 0 ? order : strcmp(x->where, y->where);
    return order != 0 ? order : (int)x->type - (int)y->type;
}

static int by_import(const void *a, const void *b)
{
    const struct import *x = a, *y = b;
    int order = strcmp(x->format, y->format);
    return order != 0 ? order : strcmp(x->op, y->op);
}

static bool is_graph(const struct row *r)
{
    return strcmp(r->where, "graph") == 0;
}

/* An operator that only passes see has one line; whoever has a kernel's line may be in graphs anyway. */
static bool told(const struct kernels_seen *s, size_t index)
{
    const struct row *r = &s->rows[index];
    for (size_t i = 0; is_graph(r) && i < s->row_count; i++) {
        if (s->rows[i].op == r->op && (!is_graph(&s->rows[i]) || i < index)) {
            return false;
        }
    }
    return true;
}

static const char *type_name(const struct row *r)
{
    return r->type == PEN_DTYPE_NONE || is_graph(r) ? "any" : pen_dtype_name(r->type);
}

static const char *parts_of(const struct row *r)
{
    const struct backend_ops *ops = backend_find(r->where);
    const char *parts = ops != NULL && ops->parts != NULL ? ops->parts(r->op) : NULL;
    return parts != NULL ? parts : "";
}

static bool contains(const char *list, const char *word, size_t bytes)
{
    for (const char *at = strstr(list, word); at != NULL; at = strstr(at + 1, word)) {
        if ((at == list || at[-1] == ' ') && (at[bytes] == ' ' || at[bytes] == '\0')) {
            return true;
        }
    }
    return false;
}

/* The word that begins there. */
static void word_take(const char *at, char *word, size_t room)
{
    size_t bytes = strcspn(at, " ");
    bytes = bytes < room ? bytes : room - 1;
    memcpy(word, at, bytes);
    word[bytes] = '\0';
}

/* The union of the parts of all rows, in the order of their rows. */
static void parts_gather(const struct kernels_seen *s, char *list, size_t room)
{
    list[0] = '\0';
    for (size_t i = 0; i < s->row_count; i++) {
        for (const char *at = parts_of(&s->rows[i]); *at != '\0';) {
            char word[40];
            size_t bytes = strcspn(at, " "), used = strlen(list);
            word_take(at, word, sizeof word);
            if (!contains(list, word, strlen(word)) && used + bytes + 2 < room) {
                snprintf(list + used, room - used, "%s%s", used > 0 ? " " : "", word);
            }
            at += bytes + strspn(at + bytes, " ");
        }
    }
}

static void sort(const struct kernels_seen *seen)
{
    struct kernels_seen *s = (struct kernels_seen *)(uintptr_t)seen; /* a set: its order is nobody's */
    qsort(s->rows, s->row_count, sizeof s->rows[0], by_name);
    qsort(s->imports, s->import_count, sizeof s->imports[0], by_import);
}

/* The forms of shaders that precisions ask for. */
static const char *forms(const struct kernels_seen *s)
{
    bool math = (s->precisions & 1u << PEN_PRECISION_F16_MATH) != 0,
         half = math || (s->precisions & (1u << PEN_PRECISION_F16_STORAGE | 1u << PEN_PRECISION_F16_MMA)) != 0;
    return math ? "f32 f16 f16_math" : half ? "f32 f16" : "f32";
}

void kernels_seen_text(const struct kernels_seen *seen, const char *backend)
{
    char parts[1024];
    sort(seen);
    printf("# what the models need on %s, for -DPENSTOCK_KERNELS= of penstock %s\n", backend, PENSTOCK_VERSION);
    for (size_t i = 0; i < seen->note_count; i++) {
        printf("# %s\n", seen->notes[i]);
    }
    for (size_t i = 0; i < seen->row_count; i++) {
        if (told(seen, i)) {
            printf("%s %s %s\n", op_def(seen->rows[i].op)->name, type_name(&seen->rows[i]), seen->rows[i].where);
        }
    }
    for (size_t i = 0; i < seen->import_count; i++) {
        printf("import %s %s\n", seen->imports[i].format, seen->imports[i].op);
    }
    for (unsigned p = PEN_PRECISION_F32; p < PRECISIONS_COUNT; p++) {
        if ((seen->precisions & 1u << p) != 0) {
            printf("precision %s\n", precision_name(p));
        }
    }
    parts_gather(seen, parts, sizeof parts);
    if (parts[0] != '\0') {
        printf("# shaders that follow, as %s: %s\n", forms(seen), parts);
    }
}

static void text_add(cJSON *list, const char *text)
{
    cJSON_AddItemToArray(list, cJSON_CreateString(text));
}

static cJSON *pair(const char *key, const char *value, const char *other, const char *text)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, key, value);
    cJSON_AddStringToObject(o, other, text);
    return o;
}

/* Each word of one list with each of the other. */
static void parts_json(cJSON *list, const char *parts, const char *form_list)
{
    for (const char *at = parts; *at != '\0'; at += strcspn(at, " "), at += strspn(at, " ")) {
        for (const char *form = form_list; *form != '\0'; form += strcspn(form, " "), form += strspn(form, " ")) {
            char name[40], as[16];
            word_take(at, name, sizeof name);
            word_take(form, as, sizeof as);
            cJSON_AddItemToArray(list, pair("name", name, "form", as));
        }
    }
}

void kernels_seen_json(const struct kernels_seen *seen, const char *backend)
{
    char parts[1024];
    sort(seen);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "version", PENSTOCK_VERSION);
    cJSON_AddStringToObject(root, "backend", backend);
    cJSON *kernels = cJSON_AddArrayToObject(root, "kernels");
    for (size_t i = 0; i < seen->row_count; i++) {
        if (told(seen, i)) {
            cJSON *o = pair("operator", op_def(seen->rows[i].op)->name, "type", type_name(&seen->rows[i]));
            cJSON_AddStringToObject(o, "backend", seen->rows[i].where);
            cJSON_AddItemToArray(kernels, o);
        }
    }
    cJSON *imports = cJSON_AddArrayToObject(root, "imports");
    for (size_t i = 0; i < seen->import_count; i++) {
        cJSON_AddItemToArray(imports, pair("format", seen->imports[i].format, "operator", seen->imports[i].op));
    }
    cJSON *precisions = cJSON_AddArrayToObject(root, "precisions");
    for (unsigned p = PEN_PRECISION_F32; p < PRECISIONS_COUNT; p++) {
        if ((seen->precisions & 1u << p) != 0) {
            text_add(precisions, precision_name(p));
        }
    }
    parts_gather(seen, parts, sizeof parts);
    parts_json(cJSON_AddArrayToObject(root, "parts"), parts, forms(seen));
    cJSON *notes = cJSON_AddArrayToObject(root, "notes");
    for (size_t i = 0; i < seen->note_count; i++) {
        text_add(notes, seen->notes[i]);
    }
    char *text = cJSON_PrintUnformatted(root);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(root);
}
