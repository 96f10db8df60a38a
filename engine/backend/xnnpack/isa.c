#include "backend/xnnpack/isa.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "assertion.h"

/* ---- the limit ---- */

/* One for the process: kernels are asked for in inner loops, and what one packed another must read. */
static struct {
    pthread_mutex_t lock;
    unsigned users;
    atomic_int most; /* enum pen_isa; 0 = none is set */
} limit = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const isa_words[] = {"any", "plain", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};

enum pen_status isa_claim(enum pen_isa most, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    pthread_mutex_lock(&limit.lock);
    int set = atomic_load(&limit.most);
    if (limit.users > 0 && set != (int)most) {
        status = pen_error_set(reterr, PEN_ERR_BUSY,
                               "cpu_isa_max=%s: another engine of this process is open with cpu_isa_max=%s, and the "
                               "limit is one for all; close that one first, or ask for the same",
                               isa_words[most], isa_words[set]);
    } else {
        atomic_store(&limit.most, (int)most);
        limit.users++;
    }
    pthread_mutex_unlock(&limit.lock);
    return status;
}

void isa_release(void)
{
    pthread_mutex_lock(&limit.lock);
    PEN_ASSERT(limit.users > 0, "a limit of instructions is given back once for each claim");
    if (--limit.users == 0) {
        atomic_store(&limit.most, PEN_ISA_ANY);
    }
    pthread_mutex_unlock(&limit.lock);
}

/* ---- the level ---- */

#ifdef OWN_X86
#include <cpuid.h>

#define CPUID_AVXVNNI (1u << 4)  /* of leaf 7, 1, eax */
#define CPUID_F16C    (1u << 29) /* of leaf 1, ecx: conversions of f16. Not all compilers know its name. */

static bool host_f16c(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & CPUID_F16C) != 0;
}

/* Bits of leaf 7, edx, by Intel's manual. gcc 12 has no words for them. */
#define CPUID_AMX_BF16 (1u << 22)
#define CPUID_AMX_TILE (1u << 24)
#define CPUID_AMX_INT8 (1u << 25)

/* Linux keeps tiles for a process that has asked for them; threads that follow have them, too. It refuses where a thread's signal stack is too small for them. */
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA  18

static bool host_tiles(void)
{
    const unsigned all = CPUID_AMX_BF16 | CPUID_AMX_TILE | CPUID_AMX_INT8;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & all) == all &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static enum pen_isa host_look_512(void)
{
    if (!__builtin_cpu_supports("avx512vnni")) {
        return PEN_ISA_AVX512;
    }
    if (!__builtin_cpu_supports("avx512bf16")) {
        return PEN_ISA_AVX512VNNI;
    }
    return host_tiles() ? PEN_ISA_AMX : PEN_ISA_AVX512BF16;
}

static enum pen_isa host_look(void)
{
    __builtin_cpu_init();
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !host_f16c()) {
        return PEN_ISA_PLAIN;
    }
    return avx512 ? host_look_512() : PEN_ISA_AVX2;
}

/* The processor is looked at once. */
static enum pen_isa host_level(void)
{
    static atomic_int known;
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level == PEN_ISA_ANY) {
        level = (int)host_look();
        atomic_store_explicit(&known, level, memory_order_relaxed);
    }
    return (enum pen_isa)level;
}

static enum pen_isa level_within(enum pen_isa most)
{
    enum pen_isa host = host_level();
    return most != PEN_ISA_ANY && most < host ? most : host;
}

static enum pen_isa level_now(void)
{
    return level_within((enum pen_isa)atomic_load_explicit(&limit.most, memory_order_relaxed));
}

static const struct own *own_of(enum pen_isa level)
{
    return level >= PEN_ISA_AVX512 ? &own_avx512 : level == PEN_ISA_AVX2 ? &own_avx2 : &own_plain;
}

const struct own *isa_own(void)
{
    return own_of(level_now());
}

const struct own_int *isa_int(void)
{
    enum pen_isa level = level_now();
    return level >= PEN_ISA_AVX512 ? &own_int_avx512 : level == PEN_ISA_AVX2 ? &own_int_avx2 : &own_int_plain;
}

#ifdef OWN_AVXVNNI
/* AVX-VNNI, which processors without AVX-512 have; no level of the limit names it, so any limit leaves it out. */
static bool avxvnni_now(void)
{
    static atomic_int known; /* 1 no, 2 yes */
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level == 0) {
        unsigned a = 0, b = 0, c = 0, d = 0;
        bool has = host_level() == PEN_ISA_AVX2 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & CPUID_AVXVNNI);
        level = has ? 2 : 1;
        atomic_store_explicit(&known, level, memory_order_relaxed);
    }
    return level == 2 && atomic_load_explicit(&limit.most, memory_order_relaxed) == PEN_ISA_ANY;
}

static const struct own_bytes *bytes_of_256(void)
{
    return avxvnni_now() ? &own_bytes_avxvnni : &own_bytes_avx2;
}
#else
static const struct own_bytes *bytes_of_256(void)
{
    return &own_bytes_avx2;
}
#endif

const struct own_bytes *isa_bytes(void)
{
    enum pen_isa level = level_now();
    return level >= PEN_ISA_AVX512VNNI ? &own_bytes_vnni : level >= PEN_ISA_AVX2 ? bytes_of_256() : NULL;
}

own_lookup_fn isa_lookup(void)
{
    return level_now() >= PEN_ISA_AVX512 && __builtin_cpu_supports("avx512vbmi") ? own_int_lookup_vbmi : own_int_lookup;
}

const struct int_product *isa_product(void)
{
    static const struct int_product vnni = {.bytes = 4, .nr = 32, .run = own_int_product_vnni},
                                    avx2 = {.bytes = 4, .nr = 16, .run = own_int_product_avx2};
    const struct own_bytes *dots = isa_bytes();
#ifdef OWN_AVXVNNI
    static const struct int_product avxvnni = {.bytes = 4, .nr = 16, .run = own_int_product_avxvnni};
    if (dots == &own_bytes_avxvnni) {
        return &avxvnni;
    }
#endif
    return dots == &own_bytes_vnni ? &vnni : dots == &own_bytes_avx2 ? &avx2 : &isa_int()->product;
}

bool isa_pairs_within(enum pen_isa most)
{
    return level_within(most) >= PEN_ISA_AVX512BF16;
}

bool isa_pairs(void)
{
    return level_now() >= PEN_ISA_AVX512BF16;
}

bool isa_tiles_within(enum pen_isa most)
{
    return level_within(most) >= PEN_ISA_AMX;
}

bool isa_tiles(void)
{
    return level_now() >= PEN_ISA_AMX;
}

const char *isa_name(enum pen_isa most)
{
    return own_of(level_within(most))->name;
}
#elif defined(OWN_ARM)
#include <sys/auxv.h>

/* Bits of AT_HWCAP and AT_HWCAP2, as the kernel's page of ELF hardware capabilities of arm64 has them. */
#define HAS_DOT   (1ul << 20)
#define HAS2_I8MM (1ul << 13)
#define HAS2_BF16 (1ul << 14)

static bool limited(enum pen_isa most)
{
    return most == PEN_ISA_PLAIN;
}

static bool limited_now(void)
{
    return limited((enum pen_isa)atomic_load_explicit(&limit.most, memory_order_relaxed));
}

bool isa_pairs_within(enum pen_isa most)
{
    return most == PEN_ISA_ANY && (getauxval(AT_HWCAP2) & HAS2_BF16) != 0;
}

bool isa_pairs(void)
{
    return isa_pairs_within((enum pen_isa)atomic_load_explicit(&limit.most, memory_order_relaxed));
}

bool isa_tiles_within(enum pen_isa most)
{
    (void)most;
    return false;
}

bool isa_tiles(void)
{
    return false;
}

const struct own *isa_own(void)
{
    return limited_now() ? &own_plain : &own_neon;
}

const struct own_int *isa_int(void)
{
    return limited_now() ? &own_int_plain : &own_int_neon;
}

const struct own_bytes *isa_bytes(void)
{
    return limited_now() || (getauxval(AT_HWCAP) & HAS_DOT) == 0 ? NULL
           : (getauxval(AT_HWCAP2) & HAS2_I8MM) != 0             ? &own_bytes_i8mm
                                                                 : &own_bytes_dot;
}

own_lookup_fn isa_lookup(void)
{
    return own_int_lookup;
}

const struct int_product *isa_product(void)
{
    static const struct int_product dot = {.bytes = 4, .nr = 8, .run = own_int_product_dot},
                                    i8mm = {.bytes = 4, .nr = 8, .run = own_int_product_i8mm};
    const struct own_bytes *dots = isa_bytes();
    return dots == &own_bytes_i8mm ? &i8mm : dots == &own_bytes_dot ? &dot : &isa_int()->product;
}

const char *isa_name(enum pen_isa most)
{
    return limited(most) ? own_plain.name : own_neon.name;
}
#else
bool isa_pairs_within(enum pen_isa most)
{
    (void)most;
    return false;
}

bool isa_pairs(void)
{
    return false;
}

bool isa_tiles_within(enum pen_isa most)
{
    (void)most;
    return false;
}

bool isa_tiles(void)
{
    return false;
}

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

const char *isa_name(enum pen_isa most)
{
    (void)most;
    return own_plain.name;
}
#endif

void own_int_lookup(const uint8_t *table, const uint8_t *x, uint8_t *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = table[x[i]];
    }
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

const char *isa_device(enum pen_isa most, char *text, size_t bytes)
{
    char brand[128];
    snprintf(text, bytes, "%s (%s)", brand_read(brand, sizeof brand) ? brand : "CPU", isa_name(most));
    return text;
}

size_t isa_l2_bytes(void)
{
    long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? (size_t)bytes : (size_t)1 << 20;
}
