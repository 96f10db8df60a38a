/*
 * reference_exec.h - one partition made ready for one set of shapes: a call per node with its values in place, one arena, boundary pointers patched in.
 *
 * Threads: one-at-a-time.
 */
#ifndef REFERENCE_EXEC_H
#define REFERENCE_EXEC_H

#include "backend/backend.h"

enum pen_status reference_exec_new(const struct graph *g, const struct partition *part,
                                   const struct backend_config *config, const struct shape_env *env,
                                   struct exec **ret_exec, struct pen_error *reterr);
void reference_exec_free(struct exec *exec);
uint64_t reference_exec_bytes(const struct exec *exec);
enum pen_status reference_exec_run(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out,
                                   const struct cancel *cancel, struct pen_error *reterr);
/* The times of the nodes in the last run, where the config says profile. */
void reference_exec_kernels(const struct exec *e,
                            void (*say)(void *context, uint32_t index, const char *kernel, const char *why),
                            void *context);
void reference_exec_times(const struct exec *exec, void (*say)(void *context, uint32_t index, uint64_t ns),
                          void *context);

#endif
