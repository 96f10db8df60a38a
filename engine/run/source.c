#include "run/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/infer.h"
#include "graph/pass.h"
#include "graph/pass_promote.h"

static enum pen_status file_map(const char *path, uint64_t limit, struct source *s, struct pen_error *reterr)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return pen_error_set(reterr, errno == ENOENT ? PEN_ERR_NOT_FOUND : PEN_ERR_IO, "cannot open model file %s: %s",
                             path, strerror(errno));
    }
    struct stat st;
    enum pen_status status = PEN_OK;
    void *file = NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        status = pen_error_set(reterr, PEN_ERR_IO, "%s is not a regular file: give the model file itself", path);
    } else if (st.st_size == 0) {
        status = pen_error_set(reterr, PEN_ERR_CORRUPT, "model file %s is empty", path);
    } else if ((uint64_t)st.st_size > limit) {
        status = pen_error_set(reterr, PEN_ERR_TOO_LARGE, "model file %s has %lld bytes, over the budget of %" PRIu64,
                               path, (long long)st.st_size, limit);
    } else {
        file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file == MAP_FAILED) {
            status = pen_error_set(reterr, PEN_ERR_IO, "cannot map model file %s: %s", path, strerror(errno));
        }
    }
    close(fd);
    if (status == PEN_OK) {
        s->file = file;
        s->bytes = (size_t)st.st_size;
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

enum pen_status source_open(const char *path, uint64_t limit_bytes, struct source *ret_source, struct pen_error *reterr)
{
    struct source s = {0};
    enum pen_status status = file_map(path, limit_bytes, &s, reterr);
    if (status != PEN_OK) {
        return status;
    }
    s.format = format_of(&s);
    s.folder = folder_of(path);
    if (s.format == NULL) {
        status = pen_error_set(reterr, PEN_ERR_CORRUPT,
                               "%s is not a model this build reads (%s): it starts like none of the formats it knows",
                               path, importer_names);
    } else if (s.format->read == NULL) {
        status = pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                               "%s is of the format %s, and this build has no importer for it (it has %s): build with "
                               "-DPENSTOCK_IMPORTERS=all, or with %s in the list",
                               path, s.format->title, importer_names, s.format->name);
    } else if (s.folder == NULL) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the path of %s", path);
    }
    if (status != PEN_OK) {
        source_close(&s);
        return status;
    }
    *ret_source = s;
    return PEN_OK;
}

void source_close(struct source *s)
{
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
        return status;
    }
    if (options->promote) {
        status = pass_promote(g, &promoted);
    }
    if (status == PEN_OK && promoted > 0) {
        status = graph_verify(g, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    struct pass_options which = {.fold = true, .fuse = true, .nhwc = options->nhwc};
    struct pass_report report = {0};
    status = pass_run(g, &which, &report, reterr);
    if (status != PEN_OK && reterr != NULL &&
        reterr->text[0] == '\0') { /* not every pass says what contradicts itself */
        struct shape_env *env = NULL;
        (void)shape_env_new(g, NULL, NULL, false, &env, reterr);
        shape_env_free(env);
    }
    return status == PEN_OK ? graph_verify(g, reterr) : status;
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

enum pen_status source_read(const struct source *s, const struct source_options *options, struct graph **ret_graph,
                            struct import_extra *ret_extra, struct pen_error *reterr)
{
    return s->format->read(s->file, s->bytes, s->folder, &options->limits, ret_graph, ret_extra, reterr);
}

enum pen_status source_prepare(struct graph *g, const struct source_options *options, struct pen_error *reterr)
{
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
