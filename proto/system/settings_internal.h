/*
 * settings_internal.h - declarations that the files of settings share. Only settings*.c, their tests and the fuzz
 * target include this.
 *
 * Threads: one-at-a-time.
 */
#ifndef SETTINGS_INTERNAL_H
#define SETTINGS_INTERNAL_H

#include "settings.h"

#define SETTINGS_ENV_PREFIX     "PENSTOCK_"
#define SETTINGS_ENV_BYTES      96
#define SETTINGS_FILE_BYTES_MAX (1024u * 1024u)
#define SETTINGS_TABLE_MAX      256u

struct settings_store *settings_store_new(void);
/* Notes what was given for a setting; texts are copied. From now on values come from this origin: settings_store_from. False without memory. */
bool settings_store_given(struct settings_store *store, const struct setting *setting, const char *value,
                          const char *where);
void settings_store_from(struct settings_store *store, enum setting_origin origin);
/* A copy of `bytes` bytes of text that lives as long as the store; NULL without memory. */
const char *settings_store_text(struct settings_store *store, const char *text, size_t bytes);

/* The row called name (not NUL-terminated), or NULL. */
const struct setting *setting_find(const struct setting *table, const char *name, size_t bytes);

/* False when the program's table has a row `version` of its own; otherwise --version prints the program's version. */
bool settings_version_builtin(const struct setting *table);

/* The known name nearest to `name`, or NULL when none is near. */
const char *setting_suggest(const struct setting *table, const char *name, size_t bytes);

/* The variable of a setting (or "config"): "PENSTOCK_QUEUE_LIMIT" for "queue-limit"; "" where it has none. Fills `text` and returns it. */
const char *setting_env_name(const struct settings_program *program, const char *setting,
                             char text[SETTINGS_ENV_BYTES]);

/* The value in the environment, or NULL; ret_name is the variable that had it. When an old name is used, warns on
   stderr. */
const char *setting_env_value(const struct settings_program *program, const char *setting,
                              char ret_name[SETTINGS_ENV_BYTES]);

/* Warns on stderr about variables that no program reads and whose name is close to one of this program's. */
void settings_env_check(const struct settings_program *program);

/* Every variable that a program of Penstock reads, without the prefix. A test compares them with the programs' tables. */
extern const char *const settings_names[];
extern const size_t settings_names_count;

/* Sets the field to empty / 0 / false. */
void setting_clear(const struct setting *setting, void *options);

/*
 * Parses `value` (bytes long) into the field of `options`. LIST appends: the whole text as one item, or split at commas.
 * `where` names the source in the error text: "--queue-limit", "PENSTOCK_QUEUE_LIMIT", "penstock.conf:3: queue-limit".
 */
enum pen_status setting_apply(const struct setting *setting, const char *value, size_t bytes, bool split,
                              const char *where, void *options, struct settings_store *store, struct pen_error *reterr);

/* Inclusive limits of an INT, BYTES or DURATION. */
void setting_range(const struct setting *setting, int64_t *ret_min, int64_t *ret_max);

/* "64KiB", "5ms", "12": the shortest exact text of a value of this setting. */
const char *setting_value_text(const struct setting *setting, int64_t value, char *text, size_t bytes);

/* Applies the text of a config file; `path` is for error texts. */
enum pen_status settings_apply_text(const struct settings_program *program, const char *path, const char *text,
                                    size_t bytes, void *options, struct settings_store *store,
                                    struct pen_error *reterr);

/* Reads and applies a config file. */
enum pen_status settings_apply_file(const struct settings_program *program, const char *path, void *options,
                                    struct settings_store *store, struct pen_error *reterr);

/* How help, tables and manual pages write a setting; each fills `text` and returns it. */
const char *setting_label(const struct setting *setting, char *text, size_t bytes);       /* "--heartbeat TIME" */
const char *setting_range_words(const struct setting *setting, char *text, size_t bytes); /* "10ms to 1h"; "" = any */
const char *setting_default(const struct setting *setting, char *text, size_t bytes);     /* with its unit */

#endif
