/*
 * quarantine.h - jobs that were alone on a worker when it died for the last time they were allowed to: listed, shown, kicked.
 *
 * A job with the same content, model and tenant is refused while its like is in here and younger than the age; a kick lets it run again. That is told by the
 * client's digest, and, because clients may send none or a wrong one, by one of our own, for which a job is hashed only when it could be one of these: the
 * same model, tenant and size. The oldest entry gives way to a new one. Which workers a suspect was lost with is kept in a ring of the last such events.
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
    uint64_t version, since_us, bytes, refused; /* refused: equal jobs turned away since */
    struct digest digest, content;              /* the client's; the broker's own (XXH3) */
    uint64_t payload;                           /* bytes of its tensors */
    bool has_digest, has_content;
    uint32_t deaths;
    char workers[QUARANTINE_TEXT]; /* "a, b, c": those it was lost with, oldest first */
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
    uint64_t admitted, refused, kicked; /* ever */
};

struct quarantine *quarantine_new(void); /* NULL without memory */
void quarantine_free(struct quarantine *quarantine);

/* The job was on a worker that is lost. */
void quarantine_trace(struct quarantine *quarantine, struct job_id id, const char *worker);
/* Puts a live job in; it is the caller who answers it. suspect: what was lost with workers, the job itself or a step of it. */
void quarantine_add(struct quarantine *quarantine, const struct job *job, const struct job *suspect, uint64_t now_us);

/* The entry that keeps a job of this content out; age_us 0 = none does. Counts the refusal. */
const struct quarantined *quarantine_refuses(struct quarantine *quarantine, const struct model *model,
                                             const char *tenant, const struct digest *digest, uint64_t now_us,
                                             uint64_t age_us);

/* The same by what the job has in it, for one that quarantine_refuses lets pass. inputs: the views of meta->inputs. arena: for texts. */
const struct quarantined *quarantine_refuses_content(struct quarantine *quarantine, const struct model *model,
                                                     const char *tenant, const Penstock__JobMeta *meta,
                                                     const struct pen_tensor *inputs, struct meta_arena *arena,
                                                     uint64_t now_us, uint64_t age_us);

/* Borrowed until the next change; NULL: not in here. */
const struct quarantined *quarantine_find(const struct quarantine *quarantine, struct job_id id);
bool quarantine_kick(struct quarantine *quarantine, struct job_id id); /* false: not in here */
uint32_t quarantine_kick_all(struct quarantine *quarantine);           /* how many */

#endif
