#include <sched.h>
#include <stdio.h>

#include "env/env.h"

static const char *on_off(bool on)
{
    return on ? "on" : "off";
}

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
    cpu_set_t set;
    CPU_ZERO(&set);
    env_fact(env, "cpu_isa", isa_name());
#if defined(__x86_64__)
    env_fact(env, "cpu_avx2", on_off(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
    env_fact(env, "cpu_avx512",
             on_off(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")));
    env_fact(env, "cpu_avx512vnni", on_off(__builtin_cpu_supports("avx512vnni")));
    env_fact(env, "cpu_avx512bf16", on_off(__builtin_cpu_supports("avx512bf16")));
#elif defined(__aarch64__)
    env_fact(env, "cpu_neon", "on");
#endif
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        snprintf(count, sizeof count, "%d", CPU_COUNT(&set));
        env_fact(env, "cpu_count", count);
    }
}
