/*
 * inputs.h - files -> the tensors of a job, by the model's signature.
 *
 * Threads: owner.
 */
#ifndef INPUTS_H
#define INPUTS_H

#include "penstock/client.h"
#include "settings.h"

#define INPUTS_MAX 64

/* Tensors and the memory behind them. */
struct inputs {
    struct pen_tensor tensors[INPUTS_MAX];
    size_t count;
    bool picture;             /* one of them was a picture */
    void *memory[INPUTS_MAX]; /* freed by inputs_fini */
};

void inputs_fini(struct inputs *inputs);

/* The highest version, or the given one; NULL: not in the list. */
const struct pen_model *model_find(const struct pen_model_list *list, const char *name, uint64_t version);

/* Says that model_find found nothing, with the nearest name there is: NOT_FOUND, or UNAVAILABLE where no worker offers any model. Returns the status. */
enum pen_status model_missing(const struct pen_model_list *list, const char *name, uint64_t version,
                              struct pen_error *reterr);

/* The whole file and a NUL behind it. Free *ret_bytes. */
enum pen_status inputs_read_file(const char *file, uint8_t **ret_bytes, size_t *ret_size, struct pen_error *reterr);

/* Adds a picture, .npy or raw file as the tensor `name` (NULL: the one the model's preprocess names, else its first input). */
enum pen_status inputs_add_file(struct inputs *inputs, const struct pen_model *model, const char *name,
                                const char *file, struct pen_error *reterr);

/* Adds a map of the model: `text` is a JSON object, {"key": value, ...}, or a file with one. */
enum pen_status inputs_add_map(struct inputs *inputs, const struct pen_model *model, const char *name, const char *text,
                               struct pen_error *reterr);

/* Adds "name=file" items, and "name={...}" where the model takes a map. */
enum pen_status inputs_add_list(struct inputs *inputs, const struct pen_model *model, const struct setting_list *list,
                                struct pen_error *reterr);

/* How large a job is meant to be. */
struct inputs_size {
    uint32_t rows;  /* of the batch dimension, where there is one */
    uint64_t bytes; /* of all inputs that are made up: free dimensions are as long as this allows; 0 = they are 1 */
};

/* Adds seeded random values for every required input that is missing; dynamic dimensions become 1. */
enum pen_status inputs_generate(struct inputs *inputs, const struct pen_model *model, struct pen_error *reterr);

/* The same for a job of that size (inputs_size.c). Inputs that are there are repeated along their batch dimension. */
enum pen_status inputs_generate_sized(struct inputs *inputs, const struct pen_model *model,
                                      const struct inputs_size *size, struct pen_error *reterr);
/* Adds the values of one input with these dims; UNSUPPORTED: no values can be made up for its type. */
enum pen_status inputs_generate_one(struct inputs *inputs, const struct pen_signature *sig, const int64_t *dims,
                                    struct pen_error *reterr);

/* Changes a few bytes of the first input so that no two calls give equal inputs (numbers stay finite). */
void inputs_vary(struct inputs *inputs, uint64_t counter);

#endif
