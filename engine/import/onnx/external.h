/*
 * external.h - tensor data in files beside the model: opened only beneath the model's folder, never through a symbolic link, regular files only.
 *
 * Threads: one-at-a-time.
 */
#ifndef ONNX_EXTERNAL_H
#define ONNX_EXTERNAL_H

#include "import/importer.h"
#include "import/onnx/wire.h"

struct external {
    const char *folder;      /* NULL: none allowed */
    const char *what;        /* "weight shard": what sentences call its files; NULL = "external data" */
    uint64_t budget;         /* bytes of all files together */
    struct import_extra *to; /* keeps the mappings */
};

/* The whole of a file beneath the folder, mapped once and listed in e->to. */
enum pen_status external_file(struct external *e, const char *location, struct bytes *ret, struct pen_error *reterr);
/* Entries of TensorProto.external_data: location, offset, length. Gives a view of at least `need` bytes. `pad` readable bytes follow or *ret_copy is set. */
enum pen_status external_data(struct external *e, struct bytes tensor, size_t need, size_t pad, struct bytes *ret_data,
                              bool *ret_copy, struct pen_error *reterr);

#endif
