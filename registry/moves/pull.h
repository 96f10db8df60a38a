/*
 * pull.h - a model from a registry into a store: from another store of this host, from another worker, or from the
 * registry, whichever has it first. Nothing is kept that has another digest than its manifest says.
 *
 * Threads: one-at-a-time; makes threads of its own for the time of a call.
 */
#ifndef PULL_H
#define PULL_H

#include "exchange.h"
#include "mirror.h"
#include "peers.h"
#include "place.h"

struct pull {
    struct place *place;
    struct store *store;
    struct exchange *exchange; /* NULL = not used */
    struct peers *peers;       /* NULL = none */
    struct mirror *mirror;     /* NULL = this process serves nobody */
    unsigned parallel;         /* connections at a time, at least 1 */
    bool (*stop)(void);        /* NULL = nothing ends it */
};

/* Bytes by where they came from. */
struct pull_counts {
    uint64_t registry, workers, host, store;
};

/* What a pull has brought: the model in the store. */
struct pulled {
    struct content_digest digest; /* of the manifest */
    struct manifest manifest;     /* to be freed: manifest_fini */
    struct pull_counts counts;
    bool known; /* the registry could not be reached: it is what the reference meant when it was last asked */
};

/*
 * NOT_FOUND: the registry has no such model, version or label. CORRUPT: the registry's content is not what its manifest
 * says, or the manifest is another model's. TOO_LARGE: the store's bound.
 */
enum pen_status pull_model(const struct pull *pull, const char *reference, struct pulled *ret_pulled,
                           struct pen_error *reterr);

/* The files of a pulled model into FOLDER/NAME/VERSION/, as copies; what is there already is replaced at once. */
enum pen_status pull_unpack(const struct pull *pull, const struct pulled *pulled, const char *folder,
                            struct pen_error *reterr);

#endif
