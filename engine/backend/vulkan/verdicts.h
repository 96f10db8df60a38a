/*
 * verdicts.h - what self-tests have found: a verdict for each family of kernels, and the seam by which tests spoil results.
 *
 * Threads: one-at-a-time.
 */
#ifndef VULKAN_VERDICTS_H
#define VULKAN_VERDICTS_H

#include "backend/backend.h"

/* Says selftest.vulkan.FAMILY of each family that was tried: "ok", or what is wrong. */
void vk_selftest_say(const struct backend *b, void (*say)(void *context, const char *name, const char *value),
                     void *context);
/*
 * The fault seam of tests: `tamper` may spoil what the device gave before it is compared; `all` tries every family on devices that compute on the CPU, too.
 * NULL, false: as ever. For backends that are opened from now on.
 */
void vk_selftest_seam(bool all, void (*tamper)(const char *kernels, void *result, size_t bytes));

/* Tests: kernels for which it gives an error do not run; DEVICE_LOST also loses the device. NULL: as ever. */
void vk_selftest_faults(enum pen_status (*fault)(const char *kernels));

/* Are families tried that no rule chooses here? */
bool vk_selftest_all(const struct backend *b);
/*
 * One run of a node for the self-test of `kernels`, through the seam: in[] and out as of vk_single_run, `bytes` of out. Kernels that a driver does not compile or run are as
 * wrong as those that compute wrong: *ret_ran is false then. An error where all depends on it: simple kernels, memory, the device itself.
 */
struct vk_single;
enum pen_status vk_selftest_run(struct backend *b, const struct vk_single *s, const char *kernels,
                                const void *const *in, void *out, size_t bytes, bool *ret_ran,
                                struct pen_error *reterr);
/* Through the seam alone: what the tuner's first run of `kernels` gave. */
void vk_selftest_tamper(const char *kernels, void *result, size_t bytes);
#define VK_NOT_RUN "the driver does not run them"
/* How far sums of some hundred products of numbers within 0.5 may be off, in the backend's precision. */
double vk_selftest_bound(const struct backend *b);
/* What is wrong with kernels that are so far off, which is more than bound; infinity: they do not run. */
void vk_selftest_text(double worst, double bound, char *text, size_t bytes);
/* Notes what a family's test gave; `wrong` NULL = ok. */
void vk_selftest_note(struct backend *b, const char *name, const char *wrong);
/* PEN_ERR_UNAVAILABLE naming the device. */
enum pen_status vk_selftest_refuse(const struct backend *b, const char *name, const char *wrong,
                                   struct pen_error *reterr);

#endif
