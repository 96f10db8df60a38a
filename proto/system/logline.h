/*
 * logline.h - one line per event, `level=info evt=job_done job=... us=12` as text or as one JSON object; for programs, never libraries.
 *
 * Threads: any (one write(2) per line). Repeats of one event beyond a rate are counted and reported once per second.
 */
#ifndef LOGLINE_H
#define LOGLINE_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* program: "broker". To stderr. level changes at run time are safe. */
void log_setup(const char *program, enum log_level level, bool json);
void log_level_set(enum log_level level);
enum log_level log_level_now(void);
const char *log_level_name(enum log_level level);
/* Moves the level in force by one step: more lines (steps > 0) or fewer. */
enum log_level log_level_step(int steps);
/* Somebody has ordered another level while the program runs: sets it and says so (evt=log_level). by: who, "signal". */
void log_level_order(enum log_level level, const char *by);
bool log_enabled(enum log_level level);
int log_level_parse(const char *name, enum log_level *ret_level); /* 0, or -1 */

/*
 * evt: a snake_case name. fmt: pairs written as in printf, `"job=%s waited_us=%" PRIu64`: keys are [a-z0-9_]+ and each value ends at the next
 * ` key=`. Values with blanks or quotes are quoted in text form; all are strings or numbers in JSON form.
 */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void
log_event(enum log_level level, const char *evt, const char *fmt, ...);

#endif
