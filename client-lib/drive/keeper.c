#include "keeper.h"

#include "deadline.h"
#include "drive.h"
#include "timers.h"
#include "urgency.h"
#include "waiters.h"

#define KEEPER_CONNECT_US 5000u

static void keeper_turn(struct pen_client *c)
{
    drive_once(c);
    uint64_t now = clock_now_us();
    uint64_t pause = c->session.state == SESSION_HELLO && c->pending.count ? KEEPER_CONNECT_US : DRIVE_BUSY_US;
    uint64_t next = timers_next_us(c);
    c->keeper_until_us = drive_busy(c) ? now + pause : next;
    if (!drive_busy(c) && next <= now) {
        c->keeper_until_us = now + pause;
    }
    if (!c->closing) {
        cond_wait_until(&c->keeper_cond, &c->lock, c->keeper_until_us);
    }
}

static void *keeper_main(void *arg)
{
    struct pen_client *c = arg;
    urgency_ask(URGENCY_SLICE_US);
    pthread_mutex_lock(&c->lock);
    while (!c->closing) {
        if (c->keeper_drives) {
            drive_until(c, &c->closing, DEADLINE_NONE);
        } else {
            keeper_turn(c);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

enum pen_status keeper_start(struct pen_client *c, struct pen_error *reterr)
{
    cond_init(&c->keeper_cond);
    int rc = pthread_create(&c->keeper, NULL, keeper_main, c);
    if (rc != 0) {
        pthread_cond_destroy(&c->keeper_cond);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "cannot start the client's housekeeping thread (error %d).",
                             rc);
    }
    return PEN_OK;
}

void keeper_stop(struct pen_client *c)
{
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_signal(&c->keeper_cond);
    drive_changed(c);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->keeper, NULL);
    pthread_cond_destroy(&c->keeper_cond);
}
