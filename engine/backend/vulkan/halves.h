/*
 * vulkan/halves.h - floats on their way between the host and a device that stores them as f16: half of the bytes cross. The host narrows and widens them while it
 * copies them into staging memory and out of it.
 *
 * Threads: any (pure).
 */
#ifndef VULKAN_HALVES_H
#define VULKAN_HALVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* f32 to f16, to the nearest, ties to even; beyond 65504 infinity. */
void vk_halves_narrow(uint16_t *to, const float *from, size_t count);
/* f16 to f32, exact. */
void vk_halves_widen(float *to, const uint16_t *from, size_t count);

/* A copy of a value of so many bytes on the host; half: it is of f32, and f16 in staging memory. */
void vk_halves_put(void *staging, const void *value, size_t bytes, bool half);
void vk_halves_get(void *value, const void *staging, size_t bytes, bool half);
/* Bytes that it takes in staging memory. */
size_t vk_halves_bytes(size_t bytes, bool half);

#endif
