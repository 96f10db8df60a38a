/*
 * poison.h - memory that nobody was given, told to the address sanitizer: arenas have no gaps of their own between what they give. Nothing in other builds.
 * Threads: any.
 */
#ifndef POISON_H
#define POISON_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISON_ON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON_ON 1
#endif
#endif

#ifdef POISON_ON
#include <sanitizer/asan_interface.h>
#endif

/* A read or write there is reported. */
static inline void poison_set(const void *memory, size_t bytes)
{
#ifdef POISON_ON
    __asan_poison_memory_region(memory, bytes);
#else
    (void)memory;
    (void)bytes;
#endif
}

static inline void poison_clear(const void *memory, size_t bytes)
{
#ifdef POISON_ON
    __asan_unpoison_memory_region(memory, bytes);
#else
    (void)memory;
    (void)bytes;
#endif
}

#endif
