#include "graph/explain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

#define ROWS_MAX     100000
#define REASON_BYTES 1200

struct pen_explain {
    struct pen_explain_row *rows;
    size_t count, room;
    uint64_t lost;
    char scope[200];
};

struct pen_explain *pen_explain_new(void)
{
    return calloc(1, sizeof(struct pen_explain));
}

void pen_explain_free(struct pen_explain *explain)
{
    for (size_t i = 0; explain != NULL && i < explain->count; i++) {
        free((char *)(uintptr_t)explain->rows[i].scope); /* the row's one block of text */
    }
    if (explain != NULL) {
        free(explain->rows);
    }
    free(explain);
}

const struct pen_explain_row *pen_explain_rows(const struct pen_explain *explain, size_t *ret_count, uint64_t *ret_lost)
{
    *ret_count = explain->count;
    if (ret_lost != NULL) {
        *ret_lost = explain->lost;
    }
    return explain->rows;
}

const char *pen_choice_name(enum pen_choice choice)
{
    static const char *const names[PEN_CHOICE_COUNT] = {
        [PEN_CHOICE_BACKEND] = "backend",     [PEN_CHOICE_PASS] = "pass",     [PEN_CHOICE_PRECISION] = "precision",
        [PEN_CHOICE_PLACEMENT] = "placement", [PEN_CHOICE_KERNEL] = "kernel", [PEN_CHOICE_BUCKET] = "bucket",
        [PEN_CHOICE_THREADS] = "threads"};
    return choice < PEN_CHOICE_COUNT ? names[choice] : "unknown";
}

struct pen_explain *explain_of(const struct graph *g)
{
    while (g->parent != NULL) {
        g = g->parent;
    }
    return g->explain;
}

void explain_scope(struct pen_explain *log, const char *scope)
{
    if (log != NULL) {
        snprintf(log->scope, sizeof log->scope, "%s", scope);
    }
}

const char *explain_scope_now(const struct pen_explain *log)
{
    return log != NULL ? log->scope : "";
}

/* A place for one more; NULL: there is none. */
static struct pen_explain_row *row_new(struct pen_explain *log)
{
    if (log->count == log->room && log->room < ROWS_MAX) {
        size_t room = log->room == 0 ? 256 : log->room * 2;
        struct pen_explain_row *rows = realloc(log->rows, room * sizeof *rows);
        log->rows = rows != NULL ? rows : log->rows;
        log->room = rows != NULL ? room : log->room;
    }
    return log->count < log->room && log->count < ROWS_MAX ? &log->rows[log->count] : NULL;
}

static char *put(char **at, const char *text)
{
    char *from = *at;
    *at = stpcpy(from, text) + 1;
    return from;
}

void explain_say(struct pen_explain *log, enum pen_choice about, const char *subject, const char *choice,
                 const char *format, ...)
{
    if (log == NULL) {
        return;
    }
    char reason[REASON_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    struct pen_explain_row *row = row_new(log);
    char *text =
        row != NULL ? malloc(strlen(log->scope) + strlen(subject) + strlen(choice) + strlen(reason) + 4) : NULL;
    if (text == NULL) {
        log->lost++;
        return;
    }
    row->about = about;
    row->scope = put(&text, log->scope);
    row->subject = put(&text, subject);
    row->choice = put(&text, choice);
    row->reason = put(&text, reason);
    log->count++;
}
