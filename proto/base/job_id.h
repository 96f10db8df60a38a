/*
 * job_id.h - names a job for its whole life: the random uuid of the client's session and the job's sequence number in
 * that session. Text form: 16 hex digits, '-', decimal sequence. Threads: any.
 */
#ifndef JOB_ID_H
#define JOB_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job_id {
    uint64_t client;   /* never 0 */
    uint64_t sequence; /* from 1 upwards */
};

#define JOB_ID_TEXT_BYTES 40
/* The end of a sentence that refuses a text because it is no job id. */
#define JOB_ID_REFUSED "is no job id; one looks like 0123456789abcdef-42"

const char *job_id_text(struct job_id id, char text[JOB_ID_TEXT_BYTES]); /* returns text */
int job_id_parse(const char *text, struct job_id *ret_id);               /* 0, or -1 */
bool job_id_equal(struct job_id a, struct job_id b);
uint64_t job_id_hash(struct job_id id);
uint64_t random_u64(void); /* from getrandom(2); never 0 */

#endif
