#include "control_cancel.h"

#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "control.pb-c.h"
#include "detached.h"
#include "dispatch.h"
#include "owner.h"
#include "send.h"

/* "JOB" or "JOB SECRET" -> describes who asks, with the lock that the secret opens. */
static enum pen_status read_argument(const struct session *session, const char *argument, struct job_id *ret_id,
                                     struct owner *ret_asker, struct pen_error *reterr)
{
    char id[JOB_ID_TEXT_BYTES] = "";
    const char *secret = strchr(argument, ' ');
    size_t length = secret ? (size_t)(secret - argument) : strlen(argument);
    if (length < sizeof id)
        snprintf(id, sizeof id, "%.*s", (int)length, argument);
    owner_of(session->tenant->name, session->identity, NULL, 0, ret_asker);
    if (job_id_parse(id, ret_id) != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "that " JOB_ID_REFUSED);
    if (secret && !owner_unlock(secret + 1, ret_asker))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the secret behind the job's id is empty");
    return PEN_OK;
}

/* Cancels a job that is under way here. A detached job belongs to the owner of its entry; any other job to the key
   of its session. */
static enum pen_status cancel_live(struct broker *broker, const struct session *session, struct job *job, bool admin,
                                   const struct owner *asker, struct pen_error *reterr)
{
    bool own = job->session->detached ? detached_owned(broker, job->id, asker)
                                      : session->identity && job->session->identity == session->identity;
    if (!admin && !own)
        return pen_error_set(reterr, PEN_ERR_DENIED,
                             "the job is not this key's; its secret or the role admin is needed to cancel it");
    dispatch_recall(broker, job);
    answer_error(broker, job, PEN_ERR_CANCELLED, "cancelled by its id on request of another session");
    return PEN_OK;
}

enum pen_status control_cancel(struct broker *broker, struct session *session, uint64_t serial, const char *argument,
                               bool *ret_later, struct pen_error *reterr)
{
    struct job_id id;
    struct owner asker;
    /* A caller that gives a secret is judged by it alone: a wrong one is an error even without keys, or for an
       administrator. */
    bool admin = (!session->identity || (session->identity->roles & ROLE_ADMIN)) && !strchr(argument, ' ');
    *ret_later = false;
    enum pen_status status = read_argument(session, argument, &id, &asker, reterr);
    if (status != PEN_OK)
        return status;
    struct job *job = jobs_find(&broker->jobs, id);
    if (job && job->state != JOB_DONE)
        return cancel_live(broker, session, job, admin, &asker, reterr);
    return detached_cancel(broker, session, serial, id, admin ? NULL : &asker, ret_later, reterr);
}
