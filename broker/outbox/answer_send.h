/*
 * answer_send.h - sends a job's reply: whole at once, only its announcement, or later, when the client has read more.
 * Threads: owner.
 */
#ifndef ANSWER_SEND_H
#define ANSWER_SEND_H

#include "broker_state.h"

/*
 * Sends a reply, or announces its payload. cap_bytes: how many unread bytes the client may have. False: not sent,
 * because the client has gone or has that much unread. The message stays the caller's.
 */
bool answer_send_within(struct broker *broker, struct session *session, struct shared_message *shared,
                        uint64_t cap_bytes);
/* Sends a reply that is not kept, even beyond the client's cap. False: the client has gone, or has twice the cap
   unread; then it is asked to send its jobs again when it has read. */
bool answer_send_past(struct broker *broker, struct session *session, struct shared_message *shared);
/* The same within --peer-bytes and the limit of transfers to one client. False: the reply waits, and is sent when
   the client has read more. */
bool answer_send(struct broker *broker, struct session *session, struct shared_message *shared);

/* The client repeated a job id whose reply is still kept: sends the reply again. */
void answer_again(struct broker *broker, struct session *session, struct job *job);
/* EFFECT_ROOM_FOR_REPLIES: sends the replies that waited because the client did not read, and asks with a PING how
   far it has read. */
bool answer_room(struct broker *broker, struct effect *effect);

/* For detached jobs: an error with its reason; "it is accepted"; a stored reply under another id. When the client
   has gone, nothing is sent: it asks again. */
struct shared_message *answer_message_error(struct job_id id, enum pen_status status, const char *text);
void answer_accepted(struct broker *broker, struct session *session, struct job_id id);
void answer_stored(struct broker *broker, struct session *session, struct job_id id, struct shared_message *stored);

#endif
