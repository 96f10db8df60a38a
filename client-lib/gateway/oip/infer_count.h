/*
 * infer_count.h - an inference that has ended, in the statistics.
 * Threads: owner - the loop's.
 */
#ifndef INFER_COUNT_H
#define INFER_COUNT_H

#include "gateway.h"

struct infer_tally {
    struct gateway *gateway;
    struct gateway_session *session;
    const struct inference *inference;
    const pen_result *result; /* NULL: it came to none, and is not counted */
    const char *model, *version;
    enum pen_status status;
    uint64_t began_us, input_us, output_us; /* when it came; what reading and writing took */
};

/* A name that the pool does not know is not counted: anybody can make up names. */
void infer_count(const struct infer_tally *tally);

#endif
