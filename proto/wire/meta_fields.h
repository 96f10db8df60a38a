/*
 * meta_fields.h - the numbers of those fields that are read from, or appended to, a packed meta without unpacking it:
 * JOB_META_VERSION and the like.
 *
 * proto/job.proto, tensor.proto and control.proto name them; tests/proto/test_meta_fields.c compares each row with the
 * code that protobuf-c made from those files.
 * Threads: any (constants).
 */
#ifndef META_FIELDS_H
#define META_FIELDS_H

/* FIELD(constant, name of the field, its number) */
#define JOB_META_FIELDS(FIELD)                                                                                         \
    FIELD(JOB_META_VERSION, version, 2)                                                                                \
    FIELD(JOB_META_INPUTS, inputs, 3)                                                                                  \
    FIELD(JOB_META_OUTPUTS, outputs, 4)                                                                                \
    FIELD(JOB_META_TENANT, tenant, 7)                                                                                  \
    FIELD(JOB_META_TRACEPARENT, traceparent, 8)                                                                        \
    FIELD(JOB_META_EXPLAIN, explain, 11)                                                                               \
    FIELD(JOB_META_VERSION_LABEL, version_label, 12)                                                                   \
    FIELD(JOB_META_CROP, crop, 61)                                                                                     \
    FIELD(JOB_META_HANDED, handed, 90)                                                                                 \
    FIELD(JOB_META_SEQUENCE_AFTER, sequence_after, 13)

#define RESULT_META_FIELDS(FIELD)                                                                                      \
    FIELD(RESULT_META_OUTPUTS, outputs, 1)                                                                             \
    FIELD(RESULT_META_ERROR, error, 2)                                                                                 \
    FIELD(RESULT_META_MODEL, model, 3)                                                                                 \
    FIELD(RESULT_META_VERSION, version, 4)                                                                             \
    FIELD(RESULT_META_BACKEND, backend, 5)                                                                             \
    FIELD(RESULT_META_PRECISION, precision, 8)                                                                         \
    FIELD(RESULT_META_CACHED, cached, 9)                                                                               \
    FIELD(RESULT_META_QUEUE_US, queue_us, 10)                                                                          \
    FIELD(RESULT_META_COMPUTE_US, compute_us, 11)                                                                      \
    FIELD(RESULT_META_TOTAL_US, total_us, 12)                                                                          \
    FIELD(RESULT_META_WORKER_US, worker_us, 13)                                                                        \
    FIELD(RESULT_META_BATCH_SIZE, batch_size, 14)                                                                      \
    FIELD(RESULT_META_BATCH_ROWS, batch_rows, 56)                                                                      \
    FIELD(RESULT_META_BATCH_PLACE, batch_place, 57)                                                                    \
    FIELD(RESULT_META_BATCH_REASON, batch_reason, 15)                                                                  \
    FIELD(RESULT_META_RETRY_AFTER_US, retry_after_us, 17)                                                              \
    FIELD(RESULT_META_MODEL_DIGEST, model_digest, 19)                                                                  \
    FIELD(RESULT_META_ATTEMPTS, attempts, 20)                                                                          \
    FIELD(RESULT_META_EXPLANATION, explanation, 21)                                                                    \
    FIELD(RESULT_META_WORKER_WAIT_US, worker_wait_us, 30)                                                              \
    FIELD(RESULT_META_GATHER_US, gather_us, 31)                                                                        \
    FIELD(RESULT_META_SPLIT_US, split_us, 32)                                                                          \
    FIELD(RESULT_META_LAYERS, layers, 33)                                                                              \
    FIELD(RESULT_META_DECODE_US, decode_us, 34)                                                                        \
    FIELD(RESULT_META_MEASURED, measured, 53)                                                                          \
    FIELD(RESULT_META_AGE_US, age_us, 54)                                                                              \
    FIELD(RESULT_META_STORED_UNIX_US, stored_unix_us, 55)

#define MEASURED_ERROR_FIELDS(FIELD)                                                                                   \
    FIELD(MEASURED_ERROR_LARGEST, largest, 1)                                                                          \
    FIELD(MEASURED_ERROR_REPEATABLE, repeatable, 5)

#define LAYER_TIME_FIELDS(FIELD)                                                                                       \
    FIELD(LAYER_TIME_NAME, name, 1)                                                                                    \
    FIELD(LAYER_TIME_OP, op, 2)                                                                                        \
    FIELD(LAYER_TIME_BACKEND, backend, 3)                                                                              \
    FIELD(LAYER_TIME_US, us, 4)

#define TENSOR_DESC_FIELDS(FIELD)                                                                                      \
    FIELD(TENSOR_DESC_NAME, name, 1)                                                                                   \
    FIELD(TENSOR_DESC_DTYPE, dtype, 2)                                                                                 \
    FIELD(TENSOR_DESC_DIMS, dims, 3)                                                                                   \
    FIELD(TENSOR_DESC_BYTES, bytes, 4)                                                                                 \
    FIELD(TENSOR_DESC_FRAME, frame, 5)                                                                                 \
    FIELD(TENSOR_DESC_DATA, data, 6)

#define CONTROL_REQUEST_FIELDS(FIELD) FIELD(CONTROL_REQUEST_SERIAL, serial, 3)

#define CONTROL_REPLY_FIELDS(FIELD) FIELD(CONTROL_REPLY_SERIAL, serial, 1)

#define META_FIELD_NUMBER(constant, name, number) constant = number,
enum meta_field {
    JOB_META_FIELDS(META_FIELD_NUMBER) RESULT_META_FIELDS(META_FIELD_NUMBER) LAYER_TIME_FIELDS(META_FIELD_NUMBER)
        MEASURED_ERROR_FIELDS(META_FIELD_NUMBER) TENSOR_DESC_FIELDS(META_FIELD_NUMBER)
            CONTROL_REQUEST_FIELDS(META_FIELD_NUMBER) CONTROL_REPLY_FIELDS(META_FIELD_NUMBER)
};
#undef META_FIELD_NUMBER

#endif
