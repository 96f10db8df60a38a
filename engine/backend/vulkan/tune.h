/*
 * tune.h - the tuner: measures the families of kernels on the products that models brought, and keeps the fastest of each class in a table on disk.
 *
 * The table belongs to a device, its driver and a precision; it lies beside the pipeline cache, checked like that. A device is opened with it.
 * Threads: one-at-a-time, while nothing else runs on the backend.
 */
#ifndef VULKAN_TUNE_H
#define VULKAN_TUNE_H

#include "backend/vulkan/plan.h"
#include "backend/vulkan/seen.h"

/*
 * At most class_us of runs per class; the row names kernels that are left out, as their results are not those of the simple ones. *ret_stored: the table was
 * written; false without a cache folder. The new table is used from here on.
 */
enum pen_status vk_tune(struct backend *b, uint64_t class_us, pen_tune_row_function *say, void *context,
                        bool *ret_stored, struct pen_error *reterr);

/* ---- tune_results.c ---- */

/*
 * Kernels of the same product gave both: bytes are equal; floats differ by less than a self-test allows (verdicts.h), as a share of the largest, whatever they are
 * stored as. `got` has as many bytes as `want`.
 */
bool vk_tune_agrees(const struct backend *b, const struct buffer_view *got, const void *want);

/* ---- tune_table.c ---- */

/* Fills `tuned`, all AUTO on a miss. Gives "none", "corrupt", "foreign" or "hit"; "off" when dir is NULL. */
const char *vk_tune_load(const char *dir, const struct vk_cache_key *key, enum pen_precision precision,
                         uint8_t tuned[VK_CLASSES]);
/* What other precisions have in the file stays. */
bool vk_tune_store(const char *dir, const struct vk_cache_key *key, enum pen_precision precision,
                   const uint8_t tuned[VK_CLASSES]);

#endif
