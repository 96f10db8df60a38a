#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "cores.h"
#include "env/env.h"

static const char *on_off(bool on)
{
    return on ? "on" : "off";
}

#if defined(__x86_64__)
/* Registers that the system saves for a process (XCR0): without it the instructions fault. */
enum { SAVED_AVX = 0x6, SAVED_AVX512 = 0xe6, SAVED_TILES = 0x60000 };

static bool saved(uint32_t wanted)
{
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & 1u << 27) == 0) { /* OSXSAVE */
        return false;
    }
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (a & wanted) == wanted;
}

/* Leaf 7 of CPUID, by Intel's manual: sub-leaf 0 EDX, sub-leaf 1 EAX. gcc 12 has no words for these. */
static void young_facts(struct pen_env *env)
{
    uint32_t a = 0, b = 0, c = 0, edx = 0, eax = 0, d = 0;
    bool known = __get_cpuid_count(7, 0, &a, &b, &c, &edx) != 0;
    bool more = known && a >= 1 && __get_cpuid_count(7, 1, &eax, &b, &c, &d) != 0;
    bool tiles = known && (edx & 1u << 24) != 0 && saved(SAVED_TILES);
    env_fact(env, "cpu_avx512fp16", on_off(known && (edx & 1u << 23) != 0 && saved(SAVED_AVX512)));
    env_fact(env, "cpu_avxvnni", on_off(more && (eax & 1u << 4) != 0 && saved(SAVED_AVX)));
    env_fact(env, "cpu_amx_int8", on_off(tiles && (edx & 1u << 25) != 0));
    env_fact(env, "cpu_amx_bf16", on_off(tiles && (edx & 1u << 22) != 0));
}
#endif

static const char *isa_name(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        return __builtin_cpu_supports("avx512vnni") ? "avx512vnni" : "avx512";
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return "avx2";
    }
    return __builtin_cpu_supports("avx") ? "avx" : "sse2";
#elif defined(__aarch64__)
    return "neon";
#else
    return "generic";
#endif
}

void env_cpu_facts(struct pen_env *env)
{
    char count[16];
    cpu_set_t set, cores;
    CPU_ZERO(&set);
    env_fact(env, "cpu_isa", isa_name());
#if defined(__x86_64__)
    env_fact(env, "cpu_avx2", on_off(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
    env_fact(env, "cpu_avx512",
             on_off(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")));
    env_fact(env, "cpu_avx512vnni", on_off(__builtin_cpu_supports("avx512vnni")));
    env_fact(env, "cpu_avx512bf16", on_off(__builtin_cpu_supports("avx512bf16")));
    young_facts(env);
#elif defined(__aarch64__)
    /* Bits of AT_HWCAP and AT_HWCAP2, by the kernel's page of ELF hardware capabilities of arm64. */
    env_fact(env, "cpu_neon", "on");
    env_fact(env, "cpu_arm_dot", on_off((getauxval(AT_HWCAP) & 1ul << 20) != 0));
    env_fact(env, "cpu_arm_i8mm", on_off((getauxval(AT_HWCAP2) & 1ul << 13) != 0));
    env_fact(env, "cpu_arm_bf16", on_off((getauxval(AT_HWCAP2) & 1ul << 14) != 0));
#endif
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        snprintf(count, sizeof count, "%d", CPU_COUNT(&set));
        env_fact(env, "cpu_count", count);
        cores_of(CORES_ROOT, &set, &cores);
        snprintf(count, sizeof count, "%d", CPU_COUNT(&cores));
        env_fact(env, "cpu_cores", count);
    }
}
