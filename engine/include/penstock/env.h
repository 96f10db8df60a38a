/*
 * penstock/env.h - the environment: what the engine may do (flags that can be set) and what this host offers it (facts that were detected).
 *
 *     struct pen_env *env;
 *     pen_env_new(&env, &error);
 *     pen_env_read_variables(env, &error);                                                PENSTOCK_ENGINE_VK_CONV=gemm
 *     pen_env_set(env, "backend", "vulkan", PEN_ORIGIN_FLAG, "my program", &error);
 *     pen_engine_open(env, &engine, &error);                                              penstock/engine.h
 *
 * The list of flags is penstock/flags.def; engine/FLAGS.md is made from it. A flag keeps the value of its strongest origin, in whatever order they are set:
 * flag, variable, file, default. An engine has an environment of its own, a copy: flags change until its first model is loaded (pen_engine_set).
 * Ownership: texts that come out belong to the environment. Threads: one-at-a-time per environment.
 */
#ifndef PENSTOCK_ENV_H
#define PENSTOCK_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a value comes from. DETECTED: found on this host, also for a flag that was left to the engine ("auto"). */
enum pen_origin {
    PEN_ORIGIN_DEFAULT,
    PEN_ORIGIN_DETECTED,
    PEN_ORIGIN_FILE,
    PEN_ORIGIN_VARIABLE,
    PEN_ORIGIN_FLAG,
    PEN_ORIGIN_COUNT
};
const char *pen_origin_name(enum pen_origin origin); /* "default", "detected", "file", "variable", "flag" */

/* A flag or a fact in effect: "vk_conv" = "gemm", "cpu_isa" = "avx512". BOOL flags are "on" or "off". */
struct pen_flag {
    const char *name, *value;
    enum pen_origin origin;
    const char *where;   /* "--vk-conv", "PENSTOCK_ENGINE_VK_CONV", "mode=debug"; "" = nowhere in particular */
    const char *meaning; /* a sentence without its full stop */
};

#define PEN_FLAG_VALUE_BYTES 1024u /* longer values are refused */

enum pen_flag_type {
    PEN_FLAG_BOOL,
    PEN_FLAG_INT,
    PEN_FLAG_BYTES,
    PEN_FLAG_ENUM,
    PEN_FLAG_WORD, /* for people the same as ENUM */
    PEN_FLAG_TEXT,
    PEN_FLAG_LIST
};

/* A row of flags.def. */
struct pen_flag_row {
    const char *name, *option; /* "vk_conv", "vk-conv" */
    enum pen_flag_type type;
    const char *def;
    uint64_t least, most; /* INT, BYTES */
    const char *choices;  /* ENUM, WORD: "auto|direct|gemm" */
    const char *meaning;
};
/* All flags that can be set. Threads: any. */
const struct pen_flag_row *pen_flag_rows(size_t *ret_count);
/* By name; '-' stands for '_'. NULL when there is none. Threads: any. */
const struct pen_flag_row *pen_flag_find(const char *name);

struct pen_env;

/* All flags at their defaults. NO_MEMORY. */
enum pen_status pen_env_new(struct pen_env **ret_env, struct pen_error *reterr);
void pen_env_free(struct pen_env *env); /* NULL is fine */

/*
 * Sets a flag from a text. where: words for sentences and lists ("--vk-conv"). A flag that has a value of a stronger origin keeps it; the value is checked all
 * the same. INVALID with a sentence that names the nearest right name or choice: an unknown flag, a value that does not fit, a fact, or an environment whose
 * engine has loaded a model.
 */
enum pen_status pen_env_set(struct pen_env *env, const char *name, const char *value, enum pen_origin origin,
                            const char *where, struct pen_error *reterr);
/* The same from "NAME=VALUE". */
enum pen_status pen_env_assign(struct pen_env *env, const char *assignment, enum pen_origin origin, const char *where,
                               struct pen_error *reterr);
/* Every variable PENSTOCK_ENGINE_<FLAG> of the process. INVALID also for one whose name is nearly a flag's. */
enum pen_status pen_env_read_variables(struct pen_env *env, struct pen_error *reterr);

/* INVALID with a sentence where two flags that were set contradict each other. pen_engine_open asks it, too. */
enum pen_status pen_env_check(const struct pen_env *env, struct pen_error *reterr);

/* The value in effect of a flag or fact; NULL when there is none of this name. Until the next change. */
const char *pen_env_get(const struct pen_env *env, const char *name);
/* All flags in the order of the table, then all facts. Until the next change. */
const struct pen_flag *pen_env_flags(const struct pen_env *env, size_t *ret_count);

#ifdef __cplusplus
}
#endif
#endif
