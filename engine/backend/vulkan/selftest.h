/*
 * selftest.h - small products on the device against plain C, before a precision and its families of kernels are used.
 *
 * A family that computes wrong is left out, and the fact selftest.vulkan.FAMILY says so; without the simple one the precision is not offered. On a device
 * that computes on the CPU only what its rules choose is tried.
 * Threads: one-at-a-time.
 */
#ifndef VULKAN_SELFTEST_H
#define VULKAN_SELFTEST_H

#include "backend/backend.h"

/* Products of floats, then of bytes. PEN_ERR_UNAVAILABLE with a sentence when the device computes wrong in every way, or in the one that was asked for. */
enum pen_status vk_selftest(struct backend *b, struct pen_error *reterr);
/* Says selftest.vulkan.FAMILY of each family that was tried: "ok", or what is wrong. */
void vk_selftest_say(const struct backend *b, void (*say)(void *context, const char *name, const char *value),
                     void *context);
/*
 * The fault seam of tests: `tamper` may spoil what the device gave before it is compared; `all` tries every family on devices that compute on the CPU, too.
 * NULL, false: as ever. For backends that are opened from now on.
 */
void vk_selftest_seam(bool all, void (*tamper)(const char *kernels, void *result, size_t bytes));

/* ---- between selftest.c and selftest_bytes.c ---- */

/* Are families tried that no rule chooses here? */
bool vk_selftest_all(const struct backend *b);
void vk_selftest_spoil(const char *kernels, void *result, size_t bytes);
/* Notes what a family's test gave; `wrong` NULL = ok. */
void vk_selftest_note(struct backend *b, const char *name, const char *wrong);
/* PEN_ERR_UNAVAILABLE naming the device. */
enum pen_status vk_selftest_refuse(const struct backend *b, const char *name, const char *wrong,
                                   struct pen_error *reterr);
/* selftest_bytes.c */
enum pen_status vk_selftest_bytes(struct backend *b, struct pen_error *reterr);

#endif
