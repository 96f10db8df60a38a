#include "course.h"

#include "broker_state.h"

const struct job_course *job_course(const struct broker *broker, const struct job *job)
{
    const struct model *model = job->lane->model;
    if (job->state == JOB_STEPS || (model->plan && job->state != JOB_HELD))
        return broker->courses[COURSE_ENSEMBLE];
    return broker->courses[model->sequence_idle_us ? COURSE_SEQUENCE : COURSE_PLAIN];
}

const struct job *job_whole(const struct broker *broker, const struct job *job)
{
    const struct job_owner *owner = broker->owners[job->owner];
    return owner->whole ? owner->whole(broker, job) : job;
}

bool job_is_part(const struct broker *broker, const struct job *job)
{
    return broker->owners[job->owner]->part;
}
