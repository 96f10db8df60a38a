/*
 * device.h - an open vulkan backend for tests: software devices allowed, the validation layer on. Skips the test with a message where there is no device.
 */
#ifndef TEST_VULKAN_DEVICE_H
#define TEST_VULKAN_DEVICE_H

#include "backend/vulkan/backend.h"

extern const struct backend_ops backend_vulkan;

struct backend_config device_config(enum pen_precision precision, const char *kernels);
/* kernels: a family. */
struct backend *device_open(enum pen_precision precision, const char *kernels);
/* Fails the test when validation has said anything; then closes. */
void device_close(struct backend *b);

/* The open backend of an engine whose first one is vulkan. */
struct backend *device_of(const struct pen_engine *engine);

/* Runs `rows` (cross.h) on every family and storage: simple f32, tiled f32, simple f16. */
void device_each(void (*rows)(void));
/* The same for products: every family and precision, cooperative matrices or the loops that stand in for them included. */
void device_products(void (*rows)(void));
/* In f32, with these kernels of convolutions (vk_conv). */
void device_convs(const char *conv, void (*rows)(struct backend *b));
void device_f32(void (*rows)(void)); /* simple f32 only */
/* `rows` in f32, `few` in f16_storage, with whatever family the rules choose: a software device compiles for a second a kernel. */
void device_floats(void (*rows)(void), void (*few)(void));

#endif
