#include "answer_send.h"

#include "bulk_out.h"
#include "outgoing.h"
#include "reply.h"
#include "send.h"

bool answer_send_within(struct broker *broker, struct session *session, struct shared_message *shared,
                        uint64_t cap_bytes)
{
    if (!session->connected || link_full(&session->link, cap_bytes))
        return false;
    struct outgoing outgoing;
    if (!outgoing_begin(&outgoing, broker->clients, session->link.peer, &session->transfers)) {
        broker_client_gone(broker, session);
        return false;
    }
    outgoing_group(broker, &outgoing, shared, NULL);
    link_sent(&session->link, outgoing_end(&outgoing), broker->now_us);
    broker_mark_client(broker, session);
    return true;
}

bool answer_send(struct broker *broker, struct session *session, struct shared_message *shared)
{
    if (transfer_busy(&session->transfers) && transfer_wanted(broker, &session->transfers, shared))
        return false;
    return answer_send_within(broker, session, shared, (uint64_t)broker->options->peer_bytes);
}

void answer_again(struct broker *broker, struct session *session, struct job *job)
{
    bool unsent = !answer_send(broker, session, job->reply); /* sent when the client has read more */
    session->unsent += unsent;
    session->unsent -= job->unsent;
    job->unsent = unsent;
}

/* Replies were dropped before they could be sent. There is room for them again, so the client is asked to send its
   jobs again. */
static void recall(struct broker *broker, struct session *session)
{
    if (!session->missed || !session->connected || transfer_busy(&session->transfers) ||
        link_full(&session->link, (uint64_t)broker->options->peer_bytes))
        return;
    session->missed = false;
    broker_resume(broker, broker->clients, session->link.peer);
}

static void send_unsent(struct broker *broker, struct session *session)
{
    struct job *job;
    if (session->unsent == 0) {
        recall(broker, session);
        return;
    }
    TAILQ_FOREACH(job, &session->kept, in_session)
    {
        if (!job->unsent)
            continue;
        if (!answer_send(broker, session, job->reply))
            return;
        job->unsent = false;
        session->unsent--;
    }
    recall(broker, session);
}

bool answer_room(struct broker *broker, struct effect *effect)
{
    struct session *session = effect_of(effect, struct session, room);
    send_unsent(broker, session);
    if (session->connected)
        broker_mark_client(broker, session); /* the client may have read more than its last PONG said */
    return true;
}

bool answer_send_past(struct broker *broker, struct session *session, struct shared_message *shared)
{
    if (answer_send_within(broker, session, shared, 2 * (uint64_t)broker->options->peer_bytes))
        return true;
    session->missed |= session->connected; /* the reply is not kept: the client sends the job again when it has read */
    return false;
}

struct shared_message *answer_message_error(struct job_id id, enum pen_status status, const char *text)
{
    return reply_error(id, status, text, "", 0, 0);
}

void answer_accepted(struct broker *broker, struct session *session, struct job_id id)
{
    struct shared_message *reply = reply_error(id, PEN_OK, "", "", 0, 0);
    if (reply)
        answer_send_past(broker, session, reply);
    shared_message_release(reply);
}

void answer_stored(struct broker *broker, struct session *session, struct job_id id, struct shared_message *stored)
{
    struct shared_message *reply = reply_stored(id, stored);
    if (reply)
        answer_send_past(broker, session, reply);
    shared_message_release(reply);
}
