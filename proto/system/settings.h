/*
 * settings.h - one table per program: flag, environment variable, config-file key, default, range and --help line come from the same row.
 *
 * Order of precedence: flag, environment (PENSTOCK_QUEUE_LIMIT for --queue-limit; settings_program.variables for the rest), file (--config FILE, `queue-limit = 5` lines, # comments), default.
 * Threads: one-at-a-time, at start.
 */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "penstock/status.h"

enum setting_type {
    SETTING_FLAG,     /* bool at offset; --x or --no-x (or --x=true|false) */
    SETTING_INT,      /* int64_t; range min..max */
    SETTING_BYTES,    /* int64_t; accepts 64KiB, 1MiB, 2GiB, 10MB */
    SETTING_DURATION, /* int64_t microseconds; accepts 250us, 5ms, 2s, 1min; a bare number other than 0 is refused */
    SETTING_NUMBER,   /* double */
    SETTING_TEXT,     /* const char * (owned by the settings_store) */
    SETTING_CHOICE,   /* const char *; one of `choices`, separated by '|' */
    SETTING_LIST, /* struct setting_list; may be repeated on the command line, ',' separates in file and environment */
};

/* The offset of a setting without a field: its value is checked, and settings_given tells it. */
#define SETTING_KEPT SIZE_MAX

#define SETTING_LIST_MAX 64
struct setting_list {
    const char *items[SETTING_LIST_MAX];
    size_t count;
};

struct setting {
    const char *name; /* "queue-limit"; NULL ends the table */
    enum setting_type type;
    size_t offset;       /* of the field in the options struct */
    const char *def;     /* default as text, NULL = empty / 0 / false */
    const char *unit;    /* "jobs"; NULL = none; a DURATION has none: each value names its own */
    int64_t min, max;    /* INT, BYTES, DURATION: inclusive; both 0 = any non-negative */
    const char *choices; /* CHOICE */
    const char *help;    /* one line */
};

/* A variable with another name than PENSTOCK_<SETTING>, because another program uses that name for something else. */
struct setting_variable {
    const char *setting; /* "broker", or "config" for --config; NULL ends the list */
    const char *name;    /* "PENSTOCK_WORKER_BROKER"; "" = the setting is not read from the environment */
    /*
     * The old name PENSTOCK_<SETTING> still counts, with a warning, when the environment has none of the names in the
     * program's list. When this function is set and returns true, the value under the old name is meant for other
     * programs.
     */
    bool (*old_is_meant)(const char *value);
};

struct settings_program {
    const char *name;                         /* "penstock-broker" */
    const char *usage;                        /* "penstock-broker [options]" */
    const char *about;                        /* a sentence or more, printed by --help */
    const char *after;                        /* examples, exit codes, JSON keys; may be NULL */
    const struct setting *table;              /* --help, --version, --config are added */
    const struct setting_variable *variables; /* NULL = all are called PENSTOCK_<SETTING> */
};

enum settings_outcome { SETTINGS_RUN, SETTINGS_EXIT }; /* EXIT: --help or --version was printed, exit 0 */

struct settings_store; /* owns the texts */

bool settings_old_never(const char *value); /* An old_is_meant: the old name always belongs to other programs. */

/* How a program was called. */
struct settings_call {
    const struct settings_program *program;
    int argc;
    char **argv;
    const char **positional; /* room for the arguments that are no flags; NULL: there must be none */
    size_t max_positional;
};

/*
 * Fills `options` from all sources. Arguments that are no flags go to call->positional[] (borrowed from argv), their
 * number to *ret_positional; when max_positional is 0, such an argument is an error and ret_positional may be NULL. The
 * error for an unknown option suggests the nearest name.
 */
enum pen_status settings_load(const struct settings_call *call, void *options, size_t *ret_positional,
                              enum settings_outcome *ret_outcome, struct settings_store **ret_store,
                              struct pen_error *reterr);
void settings_free(struct settings_store *store);

/* Where the value of a setting comes from. */
enum setting_origin { SETTING_BY_DEFAULT, SETTING_BY_FILE, SETTING_BY_VARIABLE, SETTING_BY_OPTION };
struct setting_given {
    const char *value; /* as it was written; the items of a list with ',' between them. "true" for a bare --x */
    const char *where; /* "--vk-device", "PENSTOCK_VK_DEVICE", "pool.conf:3: vk-device" */
    enum setting_origin origin;
};
/* What was given for the setting of this name; false: nothing, and *ret_given is as it was. Its texts live as long as the store. store: NULL = nothing. */
bool settings_given(const struct settings_store *store, const char *name, struct setting_given *ret_given);
/* Tells all that was given, in no order, until `say` returns false. */
void settings_each(const struct settings_store *store,
                   bool (*say)(void *context, const struct setting *setting, const struct setting_given *given),
                   void *context);

void settings_help(const struct settings_program *program, FILE *out);
void settings_table_markdown(const struct settings_program *program,
                             FILE *out); /* hidden flag --settings-markdown: tables of deploy/SETTINGS.md */
void settings_man(const struct settings_program *program, FILE *out); /* hidden flag --settings-man: section 1 */

#endif
