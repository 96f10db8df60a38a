/* version.c - one line about this build. */
#include "version.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown compiler"
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZER "address sanitizer"
#elif __has_feature(thread_sanitizer)
#define SANITIZER "thread sanitizer"
#endif
#endif
#if !defined(SANITIZER) && defined(__SANITIZE_ADDRESS__)
#define SANITIZER "address sanitizer"
#elif !defined(SANITIZER) && defined(__SANITIZE_THREAD__)
#define SANITIZER "thread sanitizer"
#elif !defined(SANITIZER)
#define SANITIZER "no sanitizer"
#endif

#if defined(__x86_64__)
#define MACHINE "x86_64"
#elif defined(__aarch64__)
#define MACHINE "aarch64"
#else
#define MACHINE "other"
#endif

const char *version_build(void)
{
    return PENSTOCK_SOFTWARE " (" MACHINE ", " COMPILER ", " PENSTOCK_BUILD_TYPE ", " SANITIZER ")";
}
