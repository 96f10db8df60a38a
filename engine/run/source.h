/*
 * source.h - a model file, mapped while the model lives, and the graph it gives: the same one whenever it is asked.
 *
 * Threads: one-at-a-time.
 */
#ifndef SOURCE_H
#define SOURCE_H

#include "import/importer.h"

struct source {
    const struct importer *format;
    char *folder; /* of the file: where data beside it lies */
    void *file;
    size_t bytes;
    char *entry; /* FILE#ENTRY: of a file with several entry points; NULL = its first */
};

/* path: a file, or FILE#ENTRY. beneath: where a link may lead, beside the folder of the path itself ("/" = anywhere). */
enum pen_status source_open(const char *path, const char *beneath, uint64_t limit_bytes, struct source *ret_source,
                            struct pen_error *reterr);
void source_close(struct source *s);               /* all graphs of it are freed before */
const char *source_format(const struct source *s); /* "onnx" */

/* What the passes are told. */
struct source_options {
    struct graph_limits limits;
    uint32_t passes_off;         /* bit 1u << enum pass_id: left out */
    struct pen_explain *explain; /* NULL = nobody asks */
    bool trust;                  /* what our own passes made is not verified again: mode prod */
    bool optimise, nhwc;         /* all passes; the layout of fast backends */
};
/* The graph as the file has it. Gives both; `extra` outlives the graph. */
enum pen_status source_read(const struct source *s, const struct source_options *options, struct graph **ret_graph,
                            struct import_extra *ret_extra, struct pen_error *reterr);
/* Verifies and optimises; values know what is known before inputs are. */
enum pen_status source_prepare(struct graph *g, const struct source_options *options, struct pen_error *reterr);
/* Both. */
enum pen_status source_graph(const struct source *s, const struct source_options *options, struct graph **ret_graph,
                             struct import_extra *ret_extra, struct pen_error *reterr);

/* Mapped pages go back to the page cache; they return when something reads them in place. */
void source_cool(const struct source *s, const struct import_extra *extra);

#endif
