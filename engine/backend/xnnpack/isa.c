#include "backend/xnnpack/isa.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef OWN_X86
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}

static const struct own *own_choose(void)
{
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return avx2 && has_avx512() ? &own_avx512 : avx2 ? &own_avx2 : &own_plain;
}

/* Asked for in inner loops: the processor is looked at once. */
const struct own *isa_own(void)
{
    static _Atomic(const struct own *) chosen;
    const struct own *own = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (own == NULL) {
        own = own_choose();
        atomic_store_explicit(&chosen, own, memory_order_relaxed);
    }
    return own;
}

const struct own_int *isa_int(void)
{
    const struct own *own = isa_own();
    return own == &own_avx512 ? &own_int_avx512 : own == &own_avx2 ? &own_int_avx2 : &own_int_plain;
}

const struct own_bytes *isa_bytes(void)
{
    const struct own *own = isa_own();
    bool vnni = own == &own_avx512 && __builtin_cpu_supports("avx512vnni");
    return vnni ? &own_bytes_vnni : own != &own_plain ? &own_bytes_avx2 : NULL;
}

own_lookup_fn isa_lookup(void)
{
    return isa_own() == &own_avx512 && __builtin_cpu_supports("avx512vbmi") ? own_int_lookup_vbmi : own_int_lookup;
}

const struct int_product *isa_product(void)
{
    static const struct int_product vnni = {.bytes = 4, .nr = 32, .run = own_int_product_vnni},
                                    avx2 = {.bytes = 4, .nr = 16, .run = own_int_product_avx2};
    const struct own_bytes *dots = isa_bytes();
    return dots == &own_bytes_vnni ? &vnni : dots == &own_bytes_avx2 ? &avx2 : &isa_int()->product;
}
#else
const struct own *isa_own(void)
{
    return &own_plain;
}

const struct own_int *isa_int(void)
{
    return &own_int_plain;
}

const struct own_bytes *isa_bytes(void)
{
    return NULL;
}

own_lookup_fn isa_lookup(void)
{
    return own_int_lookup;
}

const struct int_product *isa_product(void)
{
    return &own_int_plain.product;
}
#endif

void own_int_lookup(const uint8_t *table, const uint8_t *x, uint8_t *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = table[x[i]];
    }
}

const char *isa_name(void)
{
    return isa_own()->name;
}

/* "model name : Intel(R) ..." on x86; other processors do not say. */
static bool brand_read(char *text, size_t bytes)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    bool found = false;
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(text, bytes, "%s", colon[1] == ' ' ? colon + 2 : colon + 1);
            found = true;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return found;
}

const char *isa_device(char *text, size_t bytes)
{
    char brand[128];
    snprintf(text, bytes, "%s (%s)", brand_read(brand, sizeof brand) ? brand : "CPU", isa_name());
    return text;
}

size_t isa_l2_bytes(void)
{
    long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? (size_t)bytes : (size_t)1 << 20;
}
