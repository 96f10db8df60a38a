/*
 * task_crop.h - opens a job with JobMeta.crop: a step with crop of an ensemble whose other models other workers have.
 * Threads: one-at-a-time (a slot's).
 */
#ifndef TASK_CROP_H
#define TASK_CROP_H

#include "task.h"

/*
 * Makes the task, whose model was found, an ensemble's with that one step: served, chain and cut are set, and the tensors get the names of its inputs. tensors: as the job
 * sent them. INVALID with a sentence when the model or the tensors do not suit; NO_MEMORY. On failure the task is as before.
 */
enum pen_status task_crop_open(struct task *task, const Penstock__Crop *crop, struct pen_tensor *tensors, size_t count,
                               struct pen_error *reterr);

#endif
