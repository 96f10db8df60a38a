/*
 * fingerprint.h - the 64-bit fingerprint of a text that TensorFlow's hash buckets use (FarmHash's Fingerprint64).
 *
 * Threads: any.
 */
#ifndef REFERENCE_FINGERPRINT_H
#define REFERENCE_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

uint64_t fingerprint64(const void *text, size_t bytes);

#endif
