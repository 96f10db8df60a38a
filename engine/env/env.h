/*
 * env.h - what the rest of the engine does with an environment: makes one from options, reads the options back, adds facts, settles what was left open.
 * Threads: one-at-a-time per environment.
 */
#ifndef ENV_ENV_H
#define ENV_ENV_H

#include "penstock/engine.h"
#include "penstock/env.h"

#define ENV_FACTS_MAX 96 /* more are dropped */

/* The default of every flag: pen_engine_options_init. */
void env_defaults(struct pen_engine_options *ret_options);

/* An environment whose flags have the values of these options; those that differ from the default have the origin FLAG. */
enum pen_status env_from_options(const struct pen_engine_options *options, struct pen_env **ret_env,
                                 struct pen_error *reterr);
/* What was set, and whether it may change; not what an engine found out. */
enum pen_status env_copy(const struct pen_env *env, struct pen_env **ret_env, struct pen_error *reterr);

/* Gives the flags that nobody has set the values that others imply (mode=debug: check_numerics=fail). Without memory they stay. */
void env_imply(struct pen_env *env);

/* What the engine chose for a flag that was left to it ("auto"): shown as DETECTED; the flag itself keeps what was set. Without memory nothing happens. */
void env_detected(struct pen_env *env, const char *flag, const char *value);

/* Adds a fact, or changes its value; facts.def has its meaning. */
void env_fact(struct pen_env *env, const char *name, const char *value);
void env_facts_clear(struct pen_env *env);
/* What facts.def says of it; "" = a fact that is not in that list. */
const char *env_fact_meaning(const char *name);

/* The names of facts.def by number; NULL = there are no more. */
const char *env_fact_name(size_t index);

/* From now on no flag changes. */
void env_freeze(struct pen_env *env);

/* cpu.c: facts about this processor. */
void env_cpu_facts(struct pen_env *env);

#endif
