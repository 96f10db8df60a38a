#include "import/inventory.h"
#include "import/importer.h"

#include <stdlib.h>
#include <string.h>

#include "graph/annotate.h"
#include "graph/askew.h"
#include "graph/internal.h"
#include "import/onnx/reader.h"
#include "words.h"

enum pen_status read_opsets(struct bytes message, uint32_t number, struct opset **ret_opsets, uint32_t *ret_count,
                            struct pen_error *reterr)
{
    struct bytes cursor = message, part;
    uint32_t count = 0;
    while (pb_each(&cursor, number, &part) == 1)
        count++;
    struct opset *opsets = calloc((size_t)count + 1, sizeof *opsets);
    if (!opsets)
        return PEN_ERR_NO_MEMORY;
    cursor = message;
    for (uint32_t i = 0; i < count && pb_each(&cursor, number, &part) == 1; i++) {
        if (!pb_opset_parse(part, &opsets[i].domain, &opsets[i].version)) {
            free(opsets);
            return pen_error_set(reterr, PEN_ERR_CORRUPT, "the model file is broken: an opset import is garbled");
        }
        bool standard = opsets[i].domain.size == 0 || bytes_are(opsets[i].domain, "ai.onnx");
        if (standard && opsets[i].version > ONNX_OPSET_MAX) {
            int64_t version = opsets[i].version;
            free(opsets);
            return pen_error_set(
                reterr, PEN_ERR_VERSION,
                "the model uses opset %lld of ai.onnx, this build knows up to %d; export it with an older "
                "opset",
                (long long)version, ONNX_OPSET_MAX);
        }
    }
    *ret_opsets = opsets;
    *ret_count = count;
    return PEN_OK;
}

static enum pen_status read_functions(struct reader *r, struct bytes message)
{
    struct bytes cursor = message, part;
    uint32_t count = 0;
    while (pb_each(&cursor, MODEL_FUNCTION, &part) == 1)
        count++;
    r->functions = calloc((size_t)count + 1, sizeof *r->functions);
    if (!r->functions)
        return PEN_ERR_NO_MEMORY;
    cursor = message;
    for (; r->function_count < count && pb_each(&cursor, MODEL_FUNCTION, &part) == 1; r->function_count++) {
        if (!pb_function_parse(part, &r->functions[r->function_count]))
            return pen_error_set(r->reterr, PEN_ERR_CORRUPT, "the model file is broken: a function is garbled");
    }
    return PEN_OK;
}

static enum pen_status missing_error(const struct reader *r)
{
    if (r->missing_count == 0)
        return PEN_OK;
    return pen_error_set(r->reterr, PEN_ERR_UNSUPPORTED, "%u %s operators that this build does not know: %s%s%s",
                         r->missing_count, words_plural(r->missing_count, "node uses", "nodes use"), r->missing,
                         r->missing_count > ONNX_MISSING_MAX || r->missing_bytes + 200 > sizeof r->missing ? " ..."
                                                                                                           : "",
                         KEPT(import_onnx) ? ""
                                           : "; it keeps a part of the importer: add a line \"import onnx OPERATOR\" "
                                             "for each to the list of -DPENSTOCK_KERNELS");
}

/* Who made the file, with which operator sets. */
static void origin_note(const struct reader *r, const struct pb_model *m, struct inventory *to)
{
    static const uint32_t fields[] = {MODEL_PRODUCER, MODEL_PRODUCER_VERSION};
    for (size_t i = 0; to && i < sizeof fields / sizeof fields[0]; i++) {
        struct bytes cursor = m->self, text;
        if (pb_each(&cursor, fields[i], &text) == 1 && text.size > 0)
            inventory_append(to->maker, sizeof to->maker, "%.*s", (int)(text.size < 60 ? text.size : 60),
                             (const char *)text.at);
    }
    if (to)
        inventory_append(to->versions, sizeof to->versions, "IR %lld", (long long)m->ir_version);
    for (uint32_t i = 0; to && i < r->opset_count; i++) {
        const struct bytes *d = &r->opsets[i].domain;
        inventory_append(to->versions, sizeof to->versions, "%.*s %lld",
                         d->size ? (int)(d->size < 40 ? d->size : 40) : 5, d->size ? (const char *)d->at : "opset",
                         (long long)r->opsets[i].version);
    }
}

static enum pen_status read_model(struct reader *r, const struct pb_model *m, struct graph *g,
                                  struct import_extra *extra)
{
    struct scope scope = {.r = r, .g = g};
    enum pen_status status = read_opsets(m->self, MODEL_OPSET, &r->opsets, &r->opset_count, r->reterr);
    if (status == PEN_OK && r->opset_count == 0 && m->ir_version >= 3)
        status = pen_error_set(r->reterr, PEN_ERR_CORRUPT,
                               "the ONNX model names no operator set: it is truncated, or was not written to its end");
    if (status == PEN_OK)
        status = read_functions(r, m->self);
    if (status != PEN_OK)
        return status;
    origin_note(r, m, g->limits.inventory);
    scope.opsets = r->opsets;
    scope.opset_count = r->opset_count;
    extra->ir_version = m->ir_version;
    extra->opset = opset_version(r->opsets, r->opset_count, (struct bytes){0});
    status = scope_read_graph(&scope, m->graph);
    scope_fini(&scope);
    if (status == PEN_OK)
        status = missing_error(r);
    if (status == PEN_OK && g->output_count == 0)
        status = pen_error_set(r->reterr, PEN_ERR_INVALID, "the model's graph has no outputs");
    if (status == PEN_OK && graph_askew_settle(g) != PEN_OK)
        status = pen_error_set(r->reterr, PEN_ERR_NO_MEMORY, "no memory to copy the model's tensors within its budget");
    if (status == PEN_OK)
        status = graph_verify(g, r->reterr);
    return status == PEN_OK ? graph_annotate(g, r->reterr) : status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct import_file *)a)->name, ((const struct import_file *)b)->name);
}

enum pen_status onnx_read(const void *bytes, size_t size, const char *folder, const struct graph_limits *limits,
                          struct graph **ret_graph, struct import_extra *ret_extra, struct pen_error *reterr)
{
    struct pen_error error = {0};
    struct import_extra extra = {0};
    struct graph *g = NULL;
    struct pb_model m;
    struct graph_limits caps = limits ? *limits : graph_limits_default();
    if (size > caps.model_bytes)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the model file has %zu bytes, the budget is %llu", size,
                             (unsigned long long)caps.model_bytes);
    uint64_t lacks = wire_lacks((struct bytes){bytes, size});
    if (lacks > 0)
        return pen_error_set(
            reterr, PEN_ERR_CORRUPT,
            "the ONNX model is truncated: at least %llu bytes are missing behind its %zu; copy it again",
            (unsigned long long)lacks, size);
    if (!pb_model_parse((struct bytes){bytes, size}, &m) || !m.has_graph)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "this is not an ONNX model, or it is truncated or garbled");
    if (graph_new(&caps, &g) != PEN_OK)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a graph");
    struct reader r = {
        .source = {.arena = g->arena,
                   .tensor_limit = caps.tensor_bytes,
                   .dense_limit = caps.folded_bytes < caps.tensor_bytes ? caps.folded_bytes : caps.tensor_bytes,
                   .file = {bytes, size}},
        .external = {.folder = folder, .budget = caps.model_bytes - size, .to = &extra},
        .reterr = &error,
    };
    r.source.external = &r.external;
    enum pen_status status = read_model(&r, &m, g, &extra);
    reader_forget(&r);
    free(r.functions);
    free(r.maps);
    free(r.opsets);
    if (status != PEN_OK) {
        graph_free(g);
        import_extra_fini(&extra);
        bool told = error.text[0] && error.status == status;
        return pen_error_set(reterr, status, "%s",
                             told                          ? error.text
                             : status == PEN_ERR_TOO_LARGE ? "the model exceeds a limit on nodes or values"
                                                           : "no memory to read the model within its budget");
    }
    if (extra.file_count > 1)
        qsort(extra.files, extra.file_count, sizeof *extra.files, by_name);
    *ret_graph = g;
    *ret_extra = extra;
    return PEN_OK;
}
