/*
 * plan_config.h - a setting written into a model's config.json; and a copy of a model's folder with another config.json, to try settings on.
 *
 * Threads: owner.
 */
#ifndef PLAN_CONFIG_H
#define PLAN_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define PLAN_PATH_BYTES 1024u

/* What config.json is to say. */
struct plan_values {
    bool batched;         /* false: the model takes one row; nothing about batches is written */
    uint32_t batch;       /* max_batch_size */
    uint64_t delay_us;    /* max_queue_delay_microseconds */
    uint32_t slots;       /* instance_group[0].count */
    const uint32_t *warm; /* model_warmup gets these sizes in place of its own */
    size_t warm_count;
};

/*
 * Writes the values into MODELS/NAME/VERSION/config.json if there is one, else into MODELS/NAME/config.json: through a new file that takes the old one's place. All
 * else that stands there stays, but for preferred_batch_size. ret_path: which file it was.
 * NOT_FOUND: no such model folder; UNSUPPORTED: only a config.pbtxt is there; CORRUPT: the file is no JSON object; IO.
 */
enum pen_status plan_config_apply(const char *models, const char *name, uint64_t version,
                                  const struct plan_values *values, char ret_path[PLAN_PATH_BYTES],
                                  struct pen_error *reterr);

/*
 * Makes TO/NAME a model like MODELS/NAME with these values (NULL: as they are): its own config.json, links to the folders of versions, copies of the other files.
 */
enum pen_status plan_config_copy(const char *models, const char *name, const char *to, const struct plan_values *values,
                                 struct pen_error *reterr);
/* Removes what plan_config_copy made, and TO. */
void plan_config_remove(const char *to, const char *name);

#endif
