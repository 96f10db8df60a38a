/*
 * answer_send.h - what of a job's reply goes out, and when: at once, as an announcement, or when the client has read more.
 * Threads: owner.
 */
#ifndef ANSWER_SEND_H
#define ANSWER_SEND_H

#include "broker_state.h"

/*
 * Sends a reply, or announces its payload. cap_bytes: what the client may have unread. False: it was not sent, because its client has gone or has that
 * much unread. The message stays the caller's.
 */
bool answer_send_within(struct broker *broker, struct session *session, struct shared_message *shared,
                        uint64_t cap_bytes);
/* What is not kept, past the client's cap; false: twice that is unread, and it will be asked to send its jobs again when it has read (or is gone). */
bool answer_send_past(struct broker *broker, struct session *session, struct shared_message *shared);
/* The same within --peer-bytes and the transfers of one client. False: it has to wait, and goes out when the client has read more. */
bool answer_send(struct broker *broker, struct session *session, struct shared_message *shared);

/* A repeated job id whose reply is still kept. */
void answer_again(struct broker *broker, struct session *session, struct job *job);
/* Sends what had to wait because the client did not read. */
void answer_unsent(struct broker *broker, struct session *session);

/* Detached jobs: a reply that says why; "it is accepted"; a stored reply under another id. A client that has gone asks again. */
struct shared_message *answer_message_error(struct job_id id, enum pen_status status, const char *text);
void answer_accepted(struct broker *broker, struct session *session, struct job_id id);
void answer_stored(struct broker *broker, struct session *session, struct job_id id, struct shared_message *stored);

#endif
