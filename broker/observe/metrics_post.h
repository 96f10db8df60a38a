/*
 * metrics_post.h - how an HTTP thread gets a snapshot from the loop, and how it sees that the loop is alive.
 *
 * A thread wishes and waits; the loop looks at the wish once a millisecond, or is woken from its sleep by the descriptor. The loop never waits: when the
 * lock is taken it comes back a millisecond later. Snapshots are shared by all who ask within their age.
 * Threads: post_get, post_release, post_silence_us: any; post_serve, post_beat: owner (the loop).
 */
#ifndef METRICS_POST_H
#define METRICS_POST_H

#include <stdbool.h>
#include <stdint.h>

#include "metrics_snapshot.h"

#define POST_WEDGED_US 2000000u /* a loop that did not beat for so long is not alive; it sleeps 250 ms at most */

struct post;
struct post *post_new(uint64_t (*clock)(void)); /* NULL: no memory or no descriptor */
void post_free(struct post *post);              /* NULL is fine; nobody waits any more */
int post_descriptor(const struct post *post);   /* readable when there is a wish */

/*
 * A snapshot not older than that, given to post_release; PEN_ERR_TIMEOUT when the loop does not answer in time, PEN_ERR_CANCELLED after
 * post_close.
 */
enum pen_status post_get(struct post *post, uint64_t age_us, uint64_t timeout_us, struct snapshot **ret_snapshot);
void post_release(struct post *post, struct snapshot *snapshot);
/* Whoever asks from now on gets a newer one: this one was not taken for a page. */
void post_withhold(struct post *post, const struct snapshot *snapshot);
/* Waits, but not beyond post_close: false then. */
bool post_sleep(struct post *post, uint64_t us);
/* Wakes all who wait; from now on nobody gets anything. */
void post_close(struct post *post);

void post_serve(struct post *post, const struct broker *broker); /* fulfils a wish, if there is one */
void post_beat(struct post *post, uint64_t now_us);
/* Since the last beat. */
uint64_t post_silence_us(const struct post *post);

#endif
