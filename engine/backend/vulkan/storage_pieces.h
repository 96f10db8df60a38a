/*
 * storage_pieces.h - which runs of nodes can be f16 where all the others are f32.
 *
 * For a partition that no prefix in f32 helps: errors then come from its last nodes as well, or from each a little. Every piece is tried alone as f16; errors of pieces
 * are as good as independent, so their squares add up, for each output on each input. Those that save the most for what they add are taken while all sums stay within the
 * share, and a trial has the last word.
 * Threads: one-at-a-time, as the trial.
 */
#ifndef VULKAN_STORAGE_PIECES_H
#define VULKAN_STORAGE_PIECES_H

#include "backend/vulkan/storage_trial.h"

#define VK_PIECES_MAX 32 /* as many trials, and a few more */

/* [count] pieces: may they be f16 together? Pure; writes taken[count]. added: [count][measures], bytes: what each saves. */
void vk_pieces_take(const double *added, const uint64_t *bytes, uint32_t count, size_t measures, double share,
                    bool *taken);
/* Sets plan->wide. *ret_after: the deviation then, 0 where nothing could be taken and all stay f32. */
enum pen_status vk_pieces_find(struct plan *plan, struct vk_trial *t, const struct shape_env *env, double share,
                               double *ret_after, struct pen_error *reterr);

#endif
