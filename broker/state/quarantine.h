/*
 * quarantine.h - jobs that are not run any more, because workers died with them: on its last attempt such a job was
 * alone on its worker, and the worker died again. Entries can be listed, shown and kicked out.
 *
 * A job with the same content, model and tenant as an entry is refused while the entry is younger than the age; a kick
 * lets it run again. The client's digest shows equal content. Because clients may send none or a wrong one, the broker
 * computes one of its own, but only for jobs with the model, tenant and size of an entry. A new entry replaces the
 * oldest. A ring of the last events keeps the names of the workers that were lost with each suspect.
 * Threads: owner. Pure: times are parameters.
 */
#ifndef QUARANTINE_H
#define QUARANTINE_H

#include <stdbool.h>
#include <stdint.h>

#include "digest.h"
#include "job.pb-c.h"
#include "job.h"
#include "model.h"
#include "tensor_codec.h"

#define QUARANTINE_MAX   256u
#define QUARANTINE_TRACE 1024u
#define QUARANTINE_TEXT  256u

struct quarantined {
    struct job_id id;
    char tenant[65];
    char model[256];
    uint64_t version, since_us, bytes, refused; /* refused: equal jobs refused since then */
    struct digest digest, content;              /* the client's; the broker's own (XXH3) */
    uint64_t payload;                           /* bytes of its tensors */
    bool has_digest, has_content;
    uint32_t deaths;
    char workers[QUARANTINE_TEXT]; /* "a, b, c": the workers that were lost with it, oldest first */
    char inputs[QUARANTINE_TEXT];  /* "x u8 [1,28,28] 784 bytes" */
};

struct trace {
    struct job_id id;
    char worker[48];
};

struct quarantine {
    struct quarantined entries[QUARANTINE_MAX]; /* oldest first */
    uint32_t count;
    struct trace traces[QUARANTINE_TRACE];
    uint32_t traces_next;
};

struct quarantine *quarantine_new(void); /* NULL without memory */
void quarantine_free(struct quarantine *quarantine);

/* Notes that the job was on a worker that was lost. */
void quarantine_trace(struct quarantine *quarantine, struct job_id id, const char *worker);
/* Adds a live job; the caller answers it. suspect: what was on the lost workers: the job itself, or a step of it. */
void quarantine_add(struct quarantine *quarantine, const struct job *job, const struct job *suspect, uint64_t now_us);

/* The entry that keeps a job with this digest out; age_us 0 = entries keep none out. Counts the refusal. */
const struct quarantined *quarantine_refuses(struct quarantine *quarantine, const struct model *model,
                                             const char *tenant, const struct digest *digest, uint64_t now_us,
                                             uint64_t age_us);

/* The same by content, for a job that quarantine_refuses lets pass. inputs: the views of meta->inputs. arena: for
   texts. */
const struct quarantined *quarantine_refuses_content(struct quarantine *quarantine, const struct model *model,
                                                     const char *tenant, const Penstock__JobMeta *meta,
                                                     const struct pen_tensor *inputs, struct meta_arena *arena,
                                                     uint64_t now_us, uint64_t age_us);

/* Borrowed until the next change; NULL: no entry. */
const struct quarantined *quarantine_find(const struct quarantine *quarantine, struct job_id id);
bool quarantine_kick(struct quarantine *quarantine, struct job_id id); /* false: no entry */
uint32_t quarantine_kick_all(struct quarantine *quarantine);           /* returns how many */

#endif
