#include "backend/xnnpack/limit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "backend/xnnpack/plan.h"

#if defined(XNNPACK_LIMIT) && defined(OWN_X86)
#include <cpuinfo.h>
#define LIMITABLE 1
#else
#define LIMITABLE 0
#endif

static struct {
    pthread_mutex_t lock;
    bool started, kept; /* kept: the limit holds for its kernels; true without one */
    enum pen_isa most;  /* it was started with */
    enum xnn_status status;
} xnn = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const words[] = {"any", "plain", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};

#if LIMITABLE
/* Its layout is that of the header this was built with: where the record says something else than the processor itself, it is another one. */
static bool record_sound(const struct cpuinfo_x86_isa *isa)
{
    __builtin_cpu_init();
    return isa->avx2 == (__builtin_cpu_supports("avx2") != 0) && isa->fma3 == (__builtin_cpu_supports("fma") != 0) &&
           isa->avx512f == (__builtin_cpu_supports("avx512f") != 0) &&
           isa->avx512vnni == (__builtin_cpu_supports("avx512vnni") != 0) &&
           isa->ssse3 == (__builtin_cpu_supports("ssse3") != 0) &&
           isa->sse4_1 == (__builtin_cpu_supports("sse4.1") != 0);
}

/* NULL: libcpuinfo is not there as a shared library, or is another one than that of the header. */
static struct cpuinfo_x86_isa *record_find(void)
{
    bool (*initialize)(void) = NULL;
    void *start = dlsym(RTLD_DEFAULT, "cpuinfo_initialize");
    struct cpuinfo_x86_isa *isa = dlsym(RTLD_DEFAULT, "cpuinfo_isa");
    memcpy(&initialize, &start, sizeof initialize); /* ISO C has no cast from an object to a function */
    return initialize != NULL && isa != NULL && initialize() && record_sound(isa) ? isa : NULL;
}

static void plain_only(struct cpuinfo_x86_isa *isa)
{
    isa->ssse3 = isa->sse4_1 = isa->sse4_2 = isa->sse4a = false;
    isa->avx = isa->f16c = isa->xop = isa->fma3 = isa->fma4 = isa->avx2 = false;
}

static void narrow(struct cpuinfo_x86_isa *isa, enum pen_isa most)
{
    if (most < PEN_ISA_AVX512VNNI) {
        isa->avx512vnni = isa->avx512bf16 = isa->avx512vbmi2 = false;
    }
    if (most < PEN_ISA_AVX512) {
        isa->avx512f = isa->avx512cd = isa->avx512dq = isa->avx512bw = isa->avx512vl = false;
        isa->avx512ifma = isa->avx512vbmi = isa->avx512bitalg = isa->avx512vpopcntdq = false;
    }
    if (most < PEN_ISA_AVX2) {
        plain_only(isa);
    }
}

static void start_within(enum pen_isa most)
{
    struct cpuinfo_x86_isa *isa = most != PEN_ISA_ANY ? record_find() : NULL, whole = {0};
    xnn.kept = most == PEN_ISA_ANY || isa != NULL;
    if (isa != NULL) {
        whole = *isa;
        narrow(isa, most);
    }
    xnn.status = xnn_initialize(xnn_counted());
    if (isa != NULL) {
        *isa = whole;
    }
}
#else
static void start_within(enum pen_isa most)
{
    xnn.kept = most == PEN_ISA_ANY;
    xnn.status = xnn_initialize(xnn_counted());
}
#endif

enum xnn_status limit_start(enum pen_isa most)
{
    pthread_mutex_lock(&xnn.lock);
    if (!xnn.started) {
        xnn.most = most;
        start_within(most);
        xnn.started = xnn.status == xnn_status_success;
    }
    enum xnn_status status = xnn.status;
    pthread_mutex_unlock(&xnn.lock);
    return status;
}

enum pen_status limit_check(enum pen_isa most, struct pen_error *reterr)
{
    pthread_mutex_lock(&xnn.lock);
    enum pen_isa started = xnn.most;
    bool wider = xnn.started && most != PEN_ISA_ANY && (started == PEN_ISA_ANY || started > most);
    pthread_mutex_unlock(&xnn.lock);
    if (!wider) {
        return PEN_OK;
    }
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                         "cpu_isa_max=%s: XNNPACK has chosen its kernels in this process already, with "
                         "cpu_isa_max=%s, and does so once; set the flag for the first engine of the process",
                         words[most], words[started]);
}

const char *limit_text(void)
{
    pthread_mutex_lock(&xnn.lock);
    const char *text = xnn.kept ? words[xnn.most] : "unlimited";
    pthread_mutex_unlock(&xnn.lock);
    return text;
}
