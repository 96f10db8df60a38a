#include "run/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "graph/askew.h"
#include "graph/explain.h"
#include "graph/infer.h"
#include "graph/pass.h"
#include "graph/pass_explain.h"
#include "graph/pass_promote.h"
#include "penstock/model_folder.h"

static enum pen_status file_map(const char *path, const char *beneath, uint64_t limit, struct source *s,
                                struct pen_error *reterr)
{
    const char *slash = strrchr(path, '/');
    void *file = NULL;
    size_t bytes = 0;
    int fd = -1;
    struct pen_error inner = {0};
    enum pen_status status =
        pen_model_folder_open(s->folder, slash == NULL ? path : slash + 1, beneath, &fd, &bytes, &inner);
    if (status != PEN_OK) {
        return pen_error_set(reterr, status, "model file: %.900s", inner.text);
    }
    if (bytes == 0) {
        status = pen_error_set(reterr, PEN_ERR_CORRUPT, "model file %s is empty", path);
    } else if (bytes > limit) {
        status = pen_error_set(reterr, PEN_ERR_TOO_LARGE, "model file %s has %zu bytes, over the budget of %" PRIu64,
                               path, bytes, limit);
    } else {
        file = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file == MAP_FAILED) {
            status = pen_error_set(reterr, PEN_ERR_IO, "cannot map model file %s: %s", path, strerror(errno));
        }
    }
    close(fd);
    if (status == PEN_OK) {
        s->file = file;
        s->bytes = bytes;
    }
    return status;
}

/* By content: the first whose probe says yes; NULL = none. */
static const struct importer *format_of(const struct source *s)
{
    size_t count = 0;
    const struct importer *formats = importer_table(&count), *found = NULL;
    for (size_t i = 0; i < count && found == NULL; i++) {
        found = formats[i].probe(s->file, s->bytes) ? &formats[i] : NULL;
    }
    return found;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? strdup(".") : slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* FILE#ENTRY, where no file has that name. */
static const char *entry_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *mark = strrchr(slash == NULL ? path : slash, '#');
    return mark != NULL && mark[1] != '\0' && access(path, F_OK) != 0 ? mark : NULL;
}

static enum pen_status file_open(const char *path, const char *beneath, uint64_t limit_bytes, struct source *ret_source,
                                 struct pen_error *reterr)
{
    struct source s = {.folder = folder_of(path)};
    enum pen_status status = s.folder != NULL
                                 ? file_map(path, beneath, limit_bytes, &s, reterr)
                                 : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the path of %s", path);
    if (status != PEN_OK) {
        source_close(&s);
        return status;
    }
    s.format = format_of(&s);
    if (s.format == NULL) {
        status = pen_error_set(reterr, PEN_ERR_CORRUPT,
                               "%s is not a model this build reads (%s): it starts like none of the formats it knows",
                               path, importer_names);
    } else if (s.format->read == NULL) {
        status = pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                               "%s is of the format %s, and this build has no importer for it (it has %s): build with "
                               "-DPENSTOCK_IMPORTERS=all, or with %s in the list",
                               path, s.format->title, importer_names, s.format->name);
    }
    if (status != PEN_OK) {
        source_close(&s);
        return status;
    }
    *ret_source = s;
    return PEN_OK;
}

enum pen_status source_open(const char *path, const char *beneath, uint64_t limit_bytes, struct source *ret_source,
                            struct pen_error *reterr)
{
    const char *mark = entry_of(path);
    char *file = mark != NULL ? strndup(path, (size_t)(mark - path)) : NULL,
         *entry = mark != NULL ? strdup(mark + 1) : NULL;
    if (mark != NULL && (file == NULL || entry == NULL)) {
        free(file);
        free(entry);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the path of %s", path);
    }
    enum pen_status status = file_open(file != NULL ? file : path, beneath, limit_bytes, ret_source, reterr);
    if (status == PEN_OK && entry != NULL && strcmp(ret_source->format->name, "tflite") != 0) {
        status = pen_error_set(reterr, PEN_ERR_INVALID, "%s: only TFLite files have entry points to name", path);
        source_close(ret_source);
    }
    if (status == PEN_OK) {
        ret_source->entry = entry;
    } else {
        free(entry);
    }
    free(file);
    return status;
}

void source_close(struct source *s)
{
    free(s->entry);
    if (s->file != NULL) {
        munmap(s->file, s->bytes);
    }
    free(s->folder);
    *s = (struct source){0};
}

const char *source_format(const struct source *s)
{
    return s->format->name;
}

static enum pen_status passes(struct graph *g, const struct source_options *options, struct pen_error *reterr)
{
    enum pen_status status = graph_verify(g, reterr);
    uint32_t promoted = 0;
    if (status != PEN_OK || !options->optimise) {
        explain_say(status == PEN_OK ? explain_of(g) : NULL, PEN_CHOICE_PASS, "all", "left out", "passes are off");
        return status;
    }
    if ((options->passes_off & 1u << PASS_PROMOTE) == 0) {
        status = pass_promote(g, &promoted);
    }
    if (status == PEN_OK) {
        pass_explain_promote(g, options->passes_off, promoted);
    }
    if (status == PEN_OK && promoted > 0) {
        status = graph_verify(g, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    struct pass_options which = {.off = options->passes_off, .fold = true, .fuse = true, .nhwc = options->nhwc};
    struct pass_report report = {0};
    status = pass_run(g, &which, &report, reterr);
    if (status != PEN_OK && reterr != NULL &&
        reterr->text[0] == '\0') { /* not every pass says what contradicts itself */
        struct shape_env *env = NULL;
        (void)shape_env_new(g, NULL, NULL, false, &env, reterr);
        shape_env_free(env);
    }
    return status == PEN_OK && !options->trust ? graph_verify(g, reterr) : status;
}

/* What is known of every value before inputs are: backends look at types and ranks when they say what they take. */
static enum pen_status values_note(struct graph *g, struct pen_error *reterr)
{
    struct shape_env *env = NULL;
    enum pen_status status = shape_env_new(g, NULL, NULL, false, &env, reterr);
    for (uint32_t v = 0; status == PEN_OK && v < g->value_count; v++) {
        if (g->values[v].producer != NODE_NONE) {
            g->values[v].dtype = env->facts[v].dtype;
            g->values[v].shape = env->facts[v].shape;
        }
    }
    shape_env_free(env);
    return status;
}

#define FOLD_GROWTH 8 /* weights of 4 bits as floats: what folding may make of a byte of the model's own */

/* A large model's weights may be turned, widened and scaled at the load; a small file may not grow so. */
static void fold_more(struct graph_limits *limits, uint64_t bytes)
{
    uint64_t most = limits->model_bytes > limits->folded_bytes ? limits->model_bytes : limits->folded_bytes;
    uint64_t more = bytes > most / FOLD_GROWTH ? most : FOLD_GROWTH * bytes;
    limits->folded_bytes = more > most - limits->folded_bytes ? most : limits->folded_bytes + more;
}

enum pen_status source_read(const struct source *s, const struct source_options *options, struct graph **ret_graph,
                            struct import_extra *ret_extra, struct pen_error *reterr)
{
    struct graph_limits limits = options->limits;
    limits.entry = s->entry;
    fold_more(&limits, s->bytes);
    enum pen_status status = s->format->read(s->file, s->bytes, s->folder, &limits, ret_graph, ret_extra, reterr);
    if (status == PEN_OK) {
        (void)graph_file_add(*ret_graph, s->file, s->bytes); /* without it its pages stay a while */
    }
    for (uint32_t i = 0; status == PEN_OK && i < ret_extra->file_count; i++) {
        fold_more(&(*ret_graph)->limits, ret_extra->files[i].bytes);
        if (ret_extra->files[i].data != NULL) {
            (void)graph_file_add(*ret_graph, ret_extra->files[i].data, ret_extra->files[i].bytes);
        }
    }
    return status;
}

enum pen_status source_prepare(struct graph *g, const struct source_options *options, struct pen_error *reterr)
{
    g->explain = options->explain;
    enum pen_status status = passes(g, options, reterr);
    return status == PEN_OK ? values_note(g, reterr) : status;
}

enum pen_status source_graph(const struct source *s, const struct source_options *options, struct graph **ret_graph,
                             struct import_extra *ret_extra, struct pen_error *reterr)
{
    struct graph *g = NULL;
    struct import_extra extra = {0};
    enum pen_status status = source_read(s, options, &g, &extra, reterr);
    if (status != PEN_OK) {
        return status;
    }
    status = source_prepare(g, options, reterr);
    if (status != PEN_OK) {
        graph_free(g);
        import_extra_fini(&extra);
        return status;
    }
    *ret_graph = g;
    *ret_extra = extra;
    return PEN_OK;
}

void source_cool(const struct source *s, const struct import_extra *extra)
{
    (void)madvise(s->file, s->bytes, MADV_DONTNEED);
    for (uint32_t i = 0; i < extra->file_count; i++) {
        if (extra->files[i].data != NULL) {
            (void)madvise(extra->files[i].data, extra->files[i].bytes, MADV_DONTNEED);
        }
    }
}
