/*
 * close_reason.h - why a batch closed. Inside the broker the reason is a number; messages, pages and log lines have its
 * name.
 * Threads: any.
 */
#ifndef CLOSE_REASON_H
#define CLOSE_REASON_H

/* The numbers from CLOSE_FIRST to CLOSE_LAST are places of "closes" in the metrics' JSON: append, never renumber. */
enum close_reason {
    CLOSE_NONE,     /* no batch closed: the job waits, or was answered without a run */
    CLOSE_SINGLE,   /* the model takes no batches there */
    CLOSE_FULL,     /* the largest size was reached, or a preferred one */
    CLOSE_IDLE,     /* a slot was free and waiting would have gained nothing */
    CLOSE_DELAY,    /* the oldest job had waited for the model's longest delay */
    CLOSE_DEADLINE, /* the most urgent job could not wait any longer */
    CLOSE_BEST,     /* the size with the most rows per second was reached */
    CLOSE_UNPAID,   /* a larger batch would not make a row cheaper there */
    CLOSE_EXPLORE,  /* to try this size and learn how long it takes */
    CLOSE_HEDGE,    /* a second run of a late job */
    CLOSE_STEPS,    /* an ensemble whose steps ran as jobs of their own: no batch of itself */
    CLOSE_REASONS
};
#define CLOSE_FIRST CLOSE_SINGLE
#define CLOSE_LAST  CLOSE_HEDGE
#define CLOSE_COUNT (CLOSE_LAST - CLOSE_FIRST + 1) /* reasons why a dispatch was sent */

/* As in ResultMeta.batch_reason (proto/job.proto); "" for CLOSE_NONE. A literal. */
const char *close_reason_name(enum close_reason reason);

#endif
