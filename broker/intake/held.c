#include "held.h"

#include "forecast.h"
#include "job.pb-c.h"
#include "send.h"

#define NOTICE_BYTES 64u /* a reason and a number */

static void tell(struct broker *broker, struct session *session, struct job_id id, enum wake wake, uint64_t wait_us)
{
    Penstock__JobNotice notice = PENSTOCK__JOB_NOTICE__INIT;
    struct envelope env = envelope_make(FRAME_NOTICE);
    uint8_t meta[NOTICE_BYTES];
    if (!session->notices || !session->connected)
        return;
    notice.reason = (char *)(uintptr_t)(wake == WAKE_LOADING ? "loading" : "no_worker");
    notice.wait_us = wait_us;
    env.job = id;
    broker_send_client(broker, session, &env, meta, penstock__job_notice__pack(&notice, meta));
}

void held_tell(struct broker *broker, struct session *session, const struct job *job)
{
    struct model *model = job->lane->model;
    uint64_t wait_us = 0;
    enum wake wake = forecast_wake(broker, model, &job->lane->demand, &wait_us);
    if (wake == WAKE_NONE)
        return;
    broker->stats.jobs_held_cold += wake == WAKE_LOADING;
    broker->stats.jobs_held_unserved += wake == WAKE_NO_WORKER;
    if (wake == WAKE_NO_WORKER && model->held_us == 0)
        model->held_us = broker->now_us;
    tell(broker, session, job->id, wake, wait_us);
}

void held_tell_parked(struct broker *broker, struct session *session, struct job_id id)
{
    broker->stats.jobs_held_unserved++;
    tell(broker, session, id, WAKE_NO_WORKER, 0);
}
