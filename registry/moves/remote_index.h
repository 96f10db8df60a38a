/*
 * remote_index.h - what models, versions and labels a registry has; and the file that says so to web servers' readers.
 *
 * Threads: any.
 */
#ifndef REMOTE_INDEX_H
#define REMOTE_INDEX_H

#include "place.h"
#include "reference.h"

#define REMOTE_NAMES_MAX 65536u

/* A version or a label of a model. */
struct remote_name {
    char model[REFERENCE_NAME_BYTES];
    uint64_t version;                  /* of a label: that which it points to, 0 = none that is there */
    char label[REFERENCE_LABEL_BYTES]; /* "" = it is a version */
    struct content_digest digest;
};

struct remote_names {
    struct remote_name *names; /* [count], by model; versions before labels, versions in their order */
    size_t count;
};

/* Asks the registry for all names, and for what each points to. The caller frees ret_names->names. */
enum pen_status remote_names_read(struct place *place, struct remote_names *ret_names, struct pen_error *reterr);

/* Writes the file `index` anew, until it says what is there: another push may have come in between. */
enum pen_status remote_index_write(struct place *place, struct pen_error *reterr);

#endif
