/*
 * answer_internal.h - what answer.c (how a job ends) and answer_send.c (what of its reply goes out, and when) share.
 * Threads: owner.
 */
#ifndef ANSWER_INTERNAL_H
#define ANSWER_INTERNAL_H

#include "broker_state.h"

/*
 * Sends a reply, or announces its payload. cap_bytes: what the client may have unread. False: it was not sent, because its client has gone or has that
 * much unread. The parcel stays the caller's.
 */
bool answer_send_within(struct broker *broker, struct session *session, struct parcel *parcel, uint64_t cap_bytes);
/* What is not kept, past the client's cap; false: twice that is unread, and it will be asked to send its jobs again when it has read (or is gone). */
bool answer_send_past(struct broker *broker, struct session *session, struct parcel *parcel);
/* The same within --peer-bytes and the transfers of one client. False: it has to wait, and goes out when the client has read more. */
bool answer_send(struct broker *broker, struct session *session, struct parcel *parcel);

#endif
