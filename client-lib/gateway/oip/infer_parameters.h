/*
 * infer_parameters.h - the "parameters" of a request and of its tensors.
 * Threads: any.
 */
#ifndef INFER_PARAMETERS_H
#define INFER_PARAMETERS_H

#include "inference.h"
#include "json_read.h"

#define PARAMETER_NAME_BYTES 256
#define PARAMETER_TEXT_BYTES 4096

/* Of an input or an output. */
struct tensor_parameters {
    bool has_binary, has_binary_data, binary_data; /* binary_data_size; binary_data */
    uint64_t binary_bytes;
    uint32_t classes;
    uint64_t region_offset, region_bytes;
    char region[PARAMETER_NAME_BYTES]; /* "" = none */
};

/* A text names a sequence by 63 bits of its digest: two of a million texts agree once in ten million pools. "": 0, none. False without memory. */
bool sequence_id_of_text(const char *text, uint64_t *ret_id);

/* At the object. What is not known is passed over. */
bool tensor_parameters_read(struct json *json, struct tensor_parameters *ret_parameters);

/* sequence_*, priority, timeout and binary_data_output are the protocol's, penstock_* the pool's; others go to the model: texts, numbers, flags. */
bool request_parameters_read(struct json *json, struct inference *inference);

#endif
