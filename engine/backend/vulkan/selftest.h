/*
 * selftest.h - a small graph on the device against plain C, before a precision is offered.
 *
 * Threads: one-at-a-time.
 */
#ifndef VULKAN_SELFTEST_H
#define VULKAN_SELFTEST_H

#include "backend/backend.h"

/* PEN_ERR_UNAVAILABLE with the largest error when the device computes wrong. */
enum pen_status vk_selftest(struct backend *b, struct pen_error *reterr);

#endif
