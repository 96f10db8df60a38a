/*
 * tool.h - what the subcommands of penstock-engine share: their table, engine options from settings, error printing.
 */
#ifndef TOOL_H
#define TOOL_H

#include <stdint.h>

#include "penstock/engine.h"
#include "precisions.h" /* for tool_flags.def */
#include "settings.h"

enum tool_exit { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2, TOOL_UNAVAILABLE = 3, TOOL_UNSUPPORTED = 4 };

/* --batch and --shape, for owners with `batch` (int64_t) and `shapes` (struct setting_list). */
#define TOOL_SHAPE_SETTINGS(owner_)                                                                                    \
    {.name = "batch",                                                                                                  \
     .type = SETTING_INT,                                                                                              \
     .offset = offsetof(owner_, batch),                                                                                \
     .def = "1",                                                                                                       \
     .min = 1,                                                                                                         \
     .max = 65536,                                                                                                     \
     .help = "size of a dynamic first dimension"},                                                                     \
    {                                                                                                                  \
        .name = "shape", .type = SETTING_LIST, .offset = offsetof(owner_, shapes),                                     \
        .help = "shape of an input: name=1x224x224x3 (repeatable)"                                                     \
    }

/* The variables of all subcommands: what `penstock` or the worker means by PENSTOCK_<SETTING> is something else. */
extern const struct setting_variable tool_variables[];

/* Options every subcommand has; first in each subcommand's options struct. */
struct tool_options {
    const struct settings_store *settings; /* what was given: the flags of the engine are there */
    struct setting_list flags;             /* NAME=VALUE */
    bool json;
    /* Set by a subcommand that has settings of its own for them. in_flight_given: else the number gives way to the flag. */
    bool profile_nodes, check_numerics, compare_reference, debug, prod, in_flight_given;
    struct pen_explain *explain; /* of a subcommand that has --explain; else NULL */
    int64_t in_flight;           /* runs of a session on a device at once; 0 = as the flags say */
};
/* Behind them stand the rows of tool_flags.def. */
#define TOOL_SETTINGS(owner_)                                                                                          \
    {.name = "flag",                                                                                                   \
     .type = SETTING_LIST,                                                                                             \
     .offset = offsetof(owner_, tool.flags),                                                                           \
     .help = "a flag of the engine, NAME=VALUE (repeatable); `penstock-engine env` lists all"},                        \
    {                                                                                                                  \
        .name = "json", .type = SETTING_FLAG, .offset = offsetof(owner_, tool.json),                                   \
        .help = "print one JSON object instead of text"                                                                \
    }

/* A subcommand: its settings, and what it does once they are read. */
struct tool_command {
    const struct settings_program *program;
    void *options;            /* zeroed; filled from flags and environment */
    const char *const *model; /* the option that must be given, as --model; NULL = none */
    size_t paths_max;         /* arguments that are no options */
    int (*run)(void *options, const char *const *paths, size_t count); /* gives the exit code */
    struct tool_options *tool; /* the part of `options` for an engine; NULL = it opens none */
};
/* Reads the settings, prints help, version or what is wrong with them, or runs. The exit code. */
int tool_run(const struct tool_command *command, int argc, char **argv);

/* The engine's defaults, and three quarters of this machine's memory for a model where that is more: models of many GiB load as they do in a worker. Threads: any. */
void tool_engine_options(struct pen_engine_options *ret_options);

/* The environment of these options; prints the error and returns an exit code, or 0. Freed by the caller, also when it is NULL. */
int tool_env(const struct tool_options *options, struct pen_env **ret_env);
/* An engine in it. strict: a named backend must take every node. Prints the error and returns an exit code, or 0. */
int tool_engine(const struct tool_options *options, bool strict, struct pen_engine **ret_engine);
/* A flag or fact of an engine; "" = there is none of this name. */
const char *tool_flag(const struct pen_engine *engine, const char *name);
/* What the open backend says under a name with this ending (".tuned"), whichever backend it is; "" when it says nothing of it. */
const char *tool_fact(const struct pen_engine *engine, const char *ending);
int tool_fail(
    const struct pen_error *error); /* prints "penstock-engine: sentence (CODE)" to stderr; the exit code for it */
/* The times of nodes that the session took, if it took any: the array "nodes" of a JSON object, and lines of text. */
struct cJSON;
struct cJSON *tool_flag_json(const struct pen_flag *flag); /* {name, value, origin, where, meaning} */
void tool_profile_json(struct cJSON *object, struct pen_session *session);
void tool_profile_print(struct pen_session *session);
/* debug_show.c: the log of the session's last run as lines, or as the array "debug" of a JSON object. Nothing where the engine does not debug. */
void tool_debug_print(const struct pen_session *session);
void tool_debug_json(struct cJSON *object, const struct pen_session *session);
/* explain_show.c: the rows of a log as lines, or as the array "explain" of a JSON object. */
size_t tool_explain_count(const struct pen_explain *log); /* 0 for NULL */
/* From row `first` on. */
void tool_explain_print(const struct pen_explain *log, size_t first);
void tool_explain_json(struct cJSON *object, const struct pen_explain *log, size_t first);
uint64_t tool_now_us(void);
uint64_t tool_now_ns(void);
/* "312 ns", "4.21 us", "12.3 ms", "14.0 s": three digits of whatever it is. Returns text. */
const char *tool_time_text(double ms, char *text, size_t bytes);
#define TOOL_TIME_BYTES 32
uint64_t tool_peak_rss_bytes(void);
uint64_t tool_rss_bytes(void);

/* "name=1x3x224x224" -> dims; -1 when malformed. */
int tool_shape_parse(const char *text, int64_t *dims, uint32_t *ret_rank);

/* Inputs of a model with every dynamic dim chosen: from `shapes` ("name=1x3x224x224"), else dim 0 = batch (0: 1) and the rest 1. Checks names. Data NULL. */
enum pen_status tool_inputs(const struct pen_model *model, const struct setting_list *shapes, int64_t batch,
                            struct pen_tensor *ret_inputs, size_t room, size_t *ret_count, struct pen_error *reterr);
#define TOOL_INPUTS_MAX 64

/* The subcommands: argv[0] is the subcommand's name. */
int cmd_env(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_tune(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_kernels(int argc, char **argv);
int cmd_sizes(int argc, char **argv);

#endif
