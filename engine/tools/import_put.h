/*
 * import_put.h - a model with its config put into a folder of models, all at once.
 *
 * Everything is written into a hidden folder beside it first, which workers do not look at, and renamed when it is whole.
 * Threads: one-at-a-time.
 */
#ifndef IMPORT_PUT_H
#define IMPORT_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "import/importer.h"
#include "penstock/status.h"

#define IMPORT_PATH_BYTES 4096

struct import_parts {
    const char *models, *name; /* the folder of models, the model's name */
    uint64_t version;
    bool force;        /* what is there as that version goes */
    const char *model; /* "model.onnx": what the worker looks for */
    const void *bytes; /* its content */
    size_t size;
    const struct import_file *files; /* what it names beside itself: external data, shards */
    size_t file_count;
    const char *config;
    const char *labels; /* content of labels.txt; NULL = none */
    size_t labels_size;
};

/* PEN_ERR_INVALID with what is wrong with the name; else PEN_OK. */
enum pen_status import_name_check(const char *name, struct pen_error *reterr);

/*
 * ret_folder: NAME/VERSION; ret_config: where config.json went, into NAME/ where there was no such model, else into NAME/VERSION/, which speaks
 * for that version alone. On failure nothing but what was there before is left.
 */
enum pen_status import_put(const struct import_parts *parts, char ret_folder[IMPORT_PATH_BYTES],
                           char ret_config[IMPORT_PATH_BYTES], struct pen_error *reterr);

#endif
