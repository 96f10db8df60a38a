#include "parked.h"

#include "assertion.h"

#include <stdlib.h>

void parked_init(struct parked *parked)
{
    *parked = (struct parked){.count = 0};
    TAILQ_INIT(&parked->entries);
}

void parked_take_out(struct parked *parked, struct parked_submit *entry)
{
    PEN_ASSERT(parked->count > 0 && parked->bytes >= entry->message.bytes,
               "a parked submit was counted with its bytes");
    TAILQ_REMOVE(&parked->entries, entry, in_parked);
    parked->count--;
    parked->bytes -= entry->message.bytes;
    PEN_ASSERT((parked->count == 0) == TAILQ_EMPTY(&parked->entries), "parked submits are counted");
}

void parked_submit_free(struct parked_submit *entry)
{
    if (entry) {
        message_fini(&entry->message);
        free(entry);
    }
}

struct parked_submit *parked_take(struct parked *parked)
{
    struct parked_submit *entry = TAILQ_FIRST(&parked->entries);
    if (entry)
        parked_take_out(parked, entry);
    return entry;
}

void parked_fini(struct parked *parked)
{
    struct parked_submit *entry;
    while ((entry = parked_take(parked)))
        parked_submit_free(entry);
}

static struct parked_submit *find(struct parked *parked, struct job_id id)
{
    struct parked_submit *entry;
    TAILQ_FOREACH(entry, &parked->entries, in_parked)
    {
        if (job_id_equal(entry->env.job, id))
            return entry;
    }
    return NULL;
}

bool parked_remove(struct parked *parked, struct job_id id)
{
    struct parked_submit *entry = find(parked, id);
    if (!entry)
        return false;
    parked_take_out(parked, entry);
    parked_submit_free(entry);
    return true;
}

bool parked_keep(struct parked *parked, const struct envelope *env, struct message *message, uint64_t now_us,
                 uint64_t first_us, uint64_t limit_bytes)
{
    if ((env->flags & FRAME_FLAG_RESENT) && find(parked, env->job))
        return true;
    if (parked->count >= PARKED_JOBS_MAX || parked->bytes + message->bytes > limit_bytes)
        return false;
    struct parked_submit *entry = message_own(message) ? malloc(sizeof *entry) : NULL;
    if (!entry)
        return false;
    *entry = (struct parked_submit){.env = *env, .message = *message, .since_us = now_us, .first_us = first_us};
    *message = (struct message){.peer = entry->message.peer}; /* the receiver makes itself new room */
    TAILQ_INSERT_TAIL(&parked->entries, entry, in_parked);
    parked->count++;
    parked->bytes += entry->message.bytes;
    PEN_ASSERT(parked->count <= PARKED_JOBS_MAX, "no more submits are parked than may be");
    return true;
}
