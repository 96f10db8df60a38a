/*
 * metrics_post.h - how an HTTP thread gets a snapshot from the loop, and how it sees that the loop is alive.
 *
 * A thread asks for a snapshot and waits. The loop looks for such a wish once a millisecond; the descriptor wakes it
 * when it sleeps. The loop never waits: when the lock is taken, it tries again a millisecond later. All threads that
 * ask within a snapshot's age share it.
 * Threads: post_get, post_release, post_silence_us: any; post_serve, post_beat: owner (the loop).
 */
#ifndef METRICS_POST_H
#define METRICS_POST_H

#include <stdbool.h>
#include <stdint.h>

#include "metrics_snapshot.h"

#define POST_WEDGED_US 2000000u /* a loop without a beat for so long counts as dead; it sleeps 250 ms at most */

struct post;
struct post *post_new(uint64_t (*clock)(void)); /* NULL: no memory or no descriptor */
void post_free(struct post *post);              /* NULL is fine; no thread may wait any more */
int post_descriptor(const struct post *post);   /* readable when a thread wants a snapshot */

/*
 * Gives a snapshot that is not older than age_us, for post_release. PEN_ERR_TIMEOUT: the loop did not answer in time;
 * PEN_ERR_CANCELLED: after post_close.
 */
enum pen_status post_get(struct post *post, uint64_t age_us, uint64_t timeout_us, struct snapshot **ret_snapshot);
void post_release(struct post *post, struct snapshot *snapshot);
/* Later callers get a newer snapshot: this one was not taken for a page. */
void post_withhold(struct post *post, const struct snapshot *snapshot);
/* Sleeps, but not beyond post_close. False: the post was closed. */
bool post_sleep(struct post *post, uint64_t us);
/* Wakes all threads that wait; from now on no thread gets a snapshot. */
void post_close(struct post *post);

void post_serve(struct post *post, const struct broker *broker); /* makes a snapshot if a thread wants one */
void post_beat(struct post *post, uint64_t now_us);
/* Microseconds since the last beat. */
uint64_t post_silence_us(const struct post *post);

#endif
