/*
 * process.h - programs that a test starts: their output, their end, their signals.
 *
 * A program dies with the test that started it (PDEATHSIG), so that a crashed test leaves nothing behind. Its output goes to unlinked files:
 * it never blocks on a full pipe. Time-outs are multiplied by PENSTOCK_SLOW (sanitizer builds set it).
 * Whatever goes wrong here ends the test with a message (support_fail), so callers check nothing.
 *
 * Threads: owner - the test's main thread.
 */
#ifndef SUPPORT_PROCESS_H
#define SUPPORT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process;

/* Prints the sentence and aborts: a crashed test in Criterion's eyes, a failed program in ctest's. */
__attribute__((noreturn, format(printf, 1, 2))) void support_fail(const char *format, ...);

uint64_t support_now_us(void);
int support_slow(int timeout_ms); /* timeout_ms * PENSTOCK_SLOW */
void support_sleep_ms(int ms);    /* exactly that long: waits inside polling loops */

/*
 * argv[0] without a slash is a program of ours, from the build's bin folder; "redis-server" and the like are given as paths or found
 * with process_start_path. argv ends with NULL. env: "NAME=value" settings added to ours, NULL-terminated; may be NULL.
 */
struct process *process_start(const char *const argv[], const char *const env[]);
struct process *process_start_path(const char *const argv[], const char *const env[]); /* looks argv[0] up in PATH */

pid_t process_pid(const struct process *process);
bool process_alive(struct process *process);
void process_signal(struct process *process, int signal);

/* All it has written so far; the text lives until the next call for the same stream, or free. */
const char *process_out(struct process *process);
const char *process_err(struct process *process);

/* Waits until stdout or stderr holds `text`; false when the time is up or the program has ended without writing it. */
bool process_wait_text(struct process *process, const char *text, int timeout_ms);
/* The value of ` key=` in the first stderr line that holds `text`, unquoted; false when there is none. */
bool process_log_value(struct process *process, const char *text, const char *key, char *ret_value, size_t size);

/* Waits for its end: the exit status, 128 + signal, or -1 when the time is up (it still runs then). */
int process_wait(struct process *process, int timeout_ms);
/* SIGTERM, then process_wait; SIGKILL and -1 when it does not end in time. */
int process_stop(struct process *process, int timeout_ms);
/* Kills it when it still runs, reaps it, drops its output. NULL is fine. */
void process_free(struct process *process);

/* Runs a program to its end. Returns its exit status; out and err (may be NULL) are given: free(3) them. */
int process_run(const char *const argv[], int timeout_ms, char **ret_out, char **ret_err);

uint64_t process_rss_bytes(const struct process *process); /* from /proc */
uint64_t process_cpu_us(const struct process *process);    /* user + system */

#endif
