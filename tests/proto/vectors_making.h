/* vectors_making.h - what vectors_make makes its files with: one vector at a time between making_begin and making_end. */
#ifndef VECTORS_MAKING_H
#define VECTORS_MAKING_H

#include "frame.h"
#include "job.pb-c.h"
#include "vector_text.h"

#define MAKING_PAYLOAD_BYTES 8192

struct making {
    const char *folder;
    struct vector vector; /* the one under way */
    int failures;
};

extern struct making making;
extern uint8_t making_payload[MAKING_PAYLOAD_BYTES];
extern const struct pen_tensor making_image; /* [1,1,4,4] of bytes */

void making_begin(const char *about);
/* Writes NAME.vec, or keeps the one that is there. */
void making_end(const char *name);
/* An envelope with every field filled that the type uses. */
struct envelope making_example(enum frame_type type);
void making_header(struct envelope env, const ProtobufCMessage *meta);
/* One group: SUBMIT or RESULT with tensors. */
void making_group(struct envelope env, ProtobufCMessage *meta, const struct pen_tensor *tensors, size_t count);
Penstock__JobMeta making_job(void);

/* vectors_faults.c: what a reader must refuse, and what it must pass over. */
void vectors_faults_make(void);
/* vectors_later.c: what was added behind version 1.1. */
void vectors_later_make(void);
/* vectors_neighbours.c: between brokers of one pool, and redirects: version 1.3. */
void vectors_neighbours_make(void);

#endif
