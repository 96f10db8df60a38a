/* watchdog.c - decides which slots are wedged; the caller ends the process. */
#include "watchdog.h"

#include "deadline.h"
#include "logline.h"

#include <inttypes.h>

uint64_t watchdog_hard_us(const struct slot_running *running, uint64_t limit_us)
{
    if (!(running->busy || running->outside_us != 0) || limit_us == 0)
        return DEADLINE_NONE;
    const bool late = running->deadline_us == DEADLINE_NONE || running->deadline_us < running->started_us;
    uint64_t from_us = !running->busy ? running->outside_us : late ? running->started_us : running->deadline_us;
    return from_us > DEADLINE_NONE - limit_us ? DEADLINE_NONE : from_us + limit_us;
}

size_t watchdog_check(struct slot *const *slots, size_t count, uint64_t limit_us, uint64_t now_us)
{
    size_t wedged = 0;
    for (size_t i = 0; i < count; i++) {
        struct slot_running running;
        char id[JOB_ID_TEXT_BYTES];
        slot_running(slots[i], &running);
        if (now_us < watchdog_hard_us(&running, limit_us))
            continue;
        wedged++;
        log_event(LOG_ERROR, "wedged", "slot=%zu job=%s model=%s running_us=%" PRIu64 " error=%s", i,
                  job_id_text(running.job, id), running.model,
                  now_us - (running.busy ? running.started_us : running.outside_us),
                  running.busy
                      ? "the run goes on past its hard limit: this worker ends so that its other jobs run elsewhere"
                      : "the slot stands still between runs: this worker ends so that its jobs run elsewhere");
    }
    return wedged;
}

static bool one_is_idle(struct slot *const *slots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct slot_running running;
        slot_running(slots[i], &running);
        if (!running.busy && running.outside_us == 0)
            return true;
    }
    return false;
}

bool watchdog_idle(struct watchdog *watchdog, struct slot *const *slots, size_t count, struct handoff *handoff,
                   uint64_t limit_us, uint64_t now_us)
{
    size_t taken = handoff_taken(handoff);
    bool stuck = handoff_length(handoff) > 0 && handoff_due(handoff) && one_is_idle(slots, count);
    if (!stuck || taken != watchdog->taken || watchdog->since_us == 0) {
        *watchdog = (struct watchdog){.since_us = stuck ? now_us : 0, .taken = taken};
        return false;
    }
    if (now_us - watchdog->since_us < limit_us)
        return false;
    log_event(LOG_ERROR, "wedged", "waiting=%zu idle_us=%" PRIu64 " error=%s", handoff_length(handoff),
              now_us - watchdog->since_us,
              "a slot has nothing to do and does not take what waits: this worker ends so that its jobs run elsewhere");
    return true;
}
