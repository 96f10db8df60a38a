/*
 * storage_trial.h - a partition run on seeded inputs with some of its nodes in f32, compared with all of them in f32.
 *
 * Threads: one-at-a-time.
 */
#ifndef VULKAN_STORAGE_TRIAL_H
#define VULKAN_STORAGE_TRIAL_H

#include "backend/vulkan/plan.h"

struct vk_trial;

/* Runs it with all nodes wide. plan and env are borrowed until the trial is freed. */
enum pen_status vk_trial_new(struct plan *plan, const struct shape_env *env, struct vk_trial **ret_trial,
                             struct pen_error *reterr);
/* Node `index` of the partition makes values near the ends of f16's range. */
bool vk_trial_beyond(const struct vk_trial *t, uint32_t index);
void vk_trial_free(struct vk_trial *t); /* NULL is fine */
/*
 * *ret_deviation: of the worst output over all inputs, 1.0 = as far as a whole model may be off: its normalised mean square error over the bound for that, or
 * the square of its largest error over that bound. HUGE_VAL where something finite became infinite or NaN.
 */
enum pen_status vk_trial_run(struct vk_trial *t, const bool *wide, double *ret_deviation, struct pen_error *reterr);
/* Of the last run, one for every output on every input: [vk_trial_measures]. Borrowed until the next run. */
size_t vk_trial_measures(const struct vk_trial *t);
const double *vk_trial_deviations(const struct vk_trial *t);
/* Numbers that a run compares, of all outputs on all inputs: how much its deviation says. */
size_t vk_trial_samples(const struct vk_trial *t);

/* Of the weights and outputs of the partition's node `index`, were they f32. */
uint64_t vk_storage_bytes(const struct plan *plan, const struct shape_env *env, uint32_t index);

#endif
