#include "session_state.h"

#include <stdio.h>
#include <string.h>

#include "assertion.h"
#include "deadline.h"
#include "job_id.h"

#define BIT(state) (1u << (state))

/* Where a session may go from each state. A broker may welcome us twice, and refuse whom it has welcomed. */
static const uint8_t next_states[] = {
    [SESSION_HELLO] = BIT(SESSION_HELLO) | BIT(SESSION_READY) | BIT(SESSION_REFUSED),
    [SESSION_READY] = BIT(SESSION_HELLO) | BIT(SESSION_READY) | BIT(SESSION_REFUSED),
    [SESSION_REFUSED] = 0,
};
_Static_assert(sizeof next_states == SESSION_STATE_COUNT, "each state has a row");

void session_init(struct session *session)
{
    memset(session, 0, sizeof *session);
    session->uuid = random_u64();
    session->heartbeat_us = SESSION_HEARTBEAT_US;
    session->liveness_us = SESSION_LIVENESS_US;
    session->acknowledge_us = DEADLINE_NONE;
    session->lost_us = clock_now_us();
}

void session_enter(struct session *session, enum session_state state)
{
    PEN_ASSERT(state < SESSION_STATE_COUNT && next_states[session->state] & BIT(state),
               "a session goes from one state only to those that follow it");
    session->state = state;
    session->settled = state != SESSION_HELLO;
    session->welcomed |= state == SESSION_READY;
}

void session_trouble_note(struct session *session, const char *text)
{
    snprintf(session->trouble, sizeof session->trouble, "%.250s", text);
}
