/*
 * verify.h - the parts of `penstock-engine verify`: running one case, many cases on several processes, known failures, reports.
 *
 * Threads: one-at-a-time; verify_pool.c forks before it opens an engine, so that processes share only the results.
 */
#ifndef VERIFY_H
#define VERIFY_H

#include "tools/case.h"
#include "tools/tool.h"

struct verify_options {
    struct tool_options tool;
    const char *filter, *junit, *expected, *placement;
    int64_t jobs;
    bool list, by_op, time;
};

enum outcome { CASE_PASS, CASE_FAIL, CASE_SKIP, CASE_OUTCOMES };
const char *outcome_name(enum outcome outcome);

/* Plain data: it lies in memory that processes share. */
struct verify_result {
    enum outcome outcome;
    double max_abs, max_rel;
    uint64_t took_us;
    char reason[384];
    struct case_ops ops;
};

/* verify_case.c: loads the model, runs every data set, compares. */
void verify_case(struct pen_engine *engine, const struct case_ref *ref, bool want_ops, struct verify_result *ret);
void verify_reason(struct verify_result *r, const char *text); /* on one line, without tabs */

/* verify_expected.c: cases that are known to fail, `name<TAB>reason` per line. A name is a pattern for the case's name or for its last parts. */
struct expected_list {
    struct expected_entry {
        char *name, *reason;
        bool used;
    } * items;
    size_t count, room;
};
enum pen_status expected_read(const char *path, struct expected_list *ret, struct pen_error *reterr);
void expected_fini(struct expected_list *list);
/* A listed case that fails becomes a skip with the reason; one that passes becomes a failure, unless its reason begins with "random": that proves nothing. */
void expected_apply(struct expected_list *list, const char *case_name, struct verify_result *r);

/* verify_pool.c: calls `report` for every case in their order, as soon as it and all before it are known. Returns a tool_exit. */
struct verify_report;
typedef void verify_report_fn(struct verify_report *report, const struct case_ref *ref, const char *backend,
                              struct verify_result *r);
int verify_pool(const struct verify_options *options, bool strict, const struct case_list *list,
                verify_report_fn *report, struct verify_report *to);

/* verify_report.c: lines or JSON on stdout, the table by operator, JUnit XML. expected may be NULL. */
enum pen_status verify_report_new(const struct verify_options *options, struct expected_list *expected,
                                  struct verify_report **ret_report, struct pen_error *reterr);
verify_report_fn verify_report_case;
uint64_t verify_report_failed(const struct verify_report *report);
enum pen_status verify_report_finish(struct verify_report *report, struct pen_error *reterr);
void verify_report_free(struct verify_report *report); /* NULL is fine */

/* junit.c */
struct junit;
enum pen_status junit_new(const char *path, struct junit **ret_junit, struct pen_error *reterr);
void junit_case(struct junit *j, const char *name, const char *backend, const struct verify_result *r);
enum pen_status junit_finish(struct junit *j, const char *path, struct pen_error *reterr); /* writes the file; frees */

#endif
