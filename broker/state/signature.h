/*
 * signature.h - what a model takes and gives, copied from a worker's offer, and the check of a job's tensors against it.
 *
 * Threads: owner. A signature is shared by reference count and never changed.
 */
#ifndef SIGNATURE_H
#define SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/tensor.h"
#include "tensor.pb-c.h"

struct tensor_sig {
    char *name;
    uint32_t dtype, rank;
    int64_t dims[PEN_MAX_RANK]; /* -1 = dynamic */
    bool batched, optional;
    bool pictures; /* files are taken, too: STRING [rows], or uint8 [bytes] of one */
};

struct signature {
    struct tensor_sig *inputs, *outputs;
    size_t inputs_count, outputs_count;
    uint32_t users;
};

/* PEN_ERR_INVALID with a sentence when the offer's own tensors make no sense. */
enum pen_status signature_new(Penstock__TensorSig *const *inputs, size_t inputs_count,
                              Penstock__TensorSig *const *outputs, size_t outputs_count,
                              struct signature **ret_signature, struct pen_error *reterr);
/* a new signature has one user */
struct signature *signature_retain(struct signature *signature);
void signature_release(struct signature *signature); /* NULL is fine */
bool signature_equal(const struct signature *a, const struct signature *b);

/*
 * Checks names, dtypes and shapes. rows_max: 0 = the model has no batch dimension. *ret_rows is the batch dimension of the job (1 without one) and
 * *ret_shape a hash of all other dims: jobs of equal shape may share a batch.
 */
enum pen_status signature_check(const struct signature *signature, const char *model, uint32_t rows_max,
                                const struct pen_tensor *inputs, size_t count, uint32_t *ret_rows, uint64_t *ret_shape,
                                struct pen_error *reterr);
/*
 * Checks a result's output with the index `at`. The job must want it (its bit in *asked, which is cleared, so that a
 * second one fails), and it must have the element type and the dims of the signature. Rank 0 means that the rank is not
 * known before the run; the batch dimension is not checked here, and dims[0] of a step with crop (`crops`) neither.
 * CORRUPT with a sentence.
 */
enum pen_status signature_check_output(const struct signature *signature, size_t at, bool crops, uint64_t *asked,
                                       const struct pen_tensor *output, struct pen_error *reterr);
/* All outputs that were asked for have come; otherwise CORRUPT with the name of a missing one. */
enum pen_status signature_check_all(const struct signature *signature, uint64_t asked, struct pen_error *reterr);
/* Index of the output with that name: outputs_count = none. */
size_t signature_output(const struct signature *signature, const char *name, size_t bytes);
/* Requested outputs must exist. */
enum pen_status signature_check_outputs(const struct signature *signature, const char *model, char *const *names,
                                        size_t count, struct pen_error *reterr);

#endif
