/* Work beside serving: on which threads it is done, at which priority, and that they make way. */
#include "loader.h"

#include "background.h"
#include "warmup.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { ALONE_US = 1000, HELPED_US = 400, WAITED_US = 100, CALLS_MAX = 256 };

/* ---- what the linker puts in place of the worker's own (--wrap) --------------------------------------------------------------------- */

static struct call {
    bool own;   /* of the thread that asked for the load */
    bool alone; /* without helpers */
    int nice;
    size_t threads; /* of the process */
} calls[CALLS_MAX], freed, opened;
static size_t calls_count;
static pthread_t asked;
static _Thread_local bool alone_here;
static bool scripted, warm_fails;

void __real_pen_thread_alone(bool alone);
void __wrap_pen_thread_alone(bool alone);

void __wrap_pen_thread_alone(bool alone)
{
    alone_here = alone;
    __real_pen_thread_alone(alone);
}

static size_t threads_count(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/task");
    cr_assert_not_null(folder);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        count += *entry->d_name != '.';
    closedir(folder);
    return count;
}

static struct call call_now(void)
{
    return (struct call){.own = pthread_equal(pthread_self(), asked) != 0,
                         .alone = alone_here,
                         .nice = getpriority(PRIO_PROCESS, (id_t)gettid()),
                         .threads = threads_count()};
}

enum pen_status __real_pen_session_warm(struct pen_session *session, const struct pen_tensor *inputs, size_t count,
                                        uint64_t *ret_prepare_us, uint64_t *ret_run_us, struct pen_error *reterr);
enum pen_status __wrap_pen_session_warm(struct pen_session *session, const struct pen_tensor *inputs, size_t count,
                                        uint64_t *ret_prepare_us, uint64_t *ret_run_us, struct pen_error *reterr);
uint64_t __real_background_waited_us(void);
uint64_t __wrap_background_waited_us(void);
enum pen_status __real_pen_model_load(struct pen_engine *engine, const char *path, struct pen_model **ret_model,
                                      struct pen_error *reterr);
enum pen_status __wrap_pen_model_load(struct pen_engine *engine, const char *path, struct pen_model **ret_model,
                                      struct pen_error *reterr);
void __real_pen_model_free(struct pen_model *model);
void __wrap_pen_model_free(struct pen_model *model);

enum pen_status __wrap_pen_session_warm(struct pen_session *session, const struct pen_tensor *inputs, size_t count,
                                        uint64_t *ret_prepare_us, uint64_t *ret_run_us, struct pen_error *reterr)
{
    if (warm_fails)
        return PEN_ERR_NO_MEMORY; /* as an inner function that says no more */
    enum pen_status status = __real_pen_session_warm(session, inputs, count, ret_prepare_us, ret_run_us, reterr);
    cr_assert(calls_count < CALLS_MAX);
    calls[calls_count++] = call_now();
    if (scripted)
        *ret_run_us = calls[calls_count - 1].own ? HELPED_US : ALONE_US;
    return status;
}

uint64_t __wrap_background_waited_us(void)
{
    static uint64_t waited_us;
    return scripted ? waited_us += WAITED_US : __real_background_waited_us();
}

enum pen_status __wrap_pen_model_load(struct pen_engine *engine, const char *path, struct pen_model **ret_model,
                                      struct pen_error *reterr)
{
    opened = call_now();
    return __real_pen_model_load(engine, path, ret_model, reterr);
}

void __wrap_pen_model_free(struct pen_model *model)
{
    if (model)
        freed = call_now();
    __real_pen_model_free(model);
}

/* ---- a model's way in and out -------------------------------------------------------------------------------------------------------- */

/* digits on that backend, loaded beside whatever serves. NULL: *ret_error says why. */
static struct served *load_digits_or(const char *backend, uint32_t threads, struct pen_engine **ret_engine,
                                     struct pen_error *ret_error)
{
    static const char *const choice[] = {"digits"};
    struct pen_engine_options options;
    struct pen_backend_info info;
    struct pen_error error = {0};
    struct catalog found;
    struct served *served = NULL;
    pen_engine_options_init(&options);
    options.backend = backend;
    options.threads = threads;
    if (!pen_backend_find(&options, backend, &info) || !info.available)
        cr_skip_test("this build has no backend %s", backend);
    cr_assert_eq(pen_engine_new(&options, ret_engine, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(catalog_scan(PENSTOCK_SOURCE "/deploy/models", choice, 1, &found, &error), PEN_OK, "%s", error.text);
    asked = pthread_self();
    *ret_error = (struct pen_error){.status = PEN_OK};
    enum pen_status status = loader_run(*ret_engine, &found.entries[0], 1, threads, &served, ret_error);
    cr_assert_eq(status, ret_error->status);
    catalog_fini(&found);
    return status == PEN_OK ? served : NULL;
}

static struct served *load_digits(const char *backend, uint32_t threads, struct pen_engine **ret_engine)
{
    struct pen_error error;
    struct served *served = load_digits_or(backend, threads, ret_engine, &error);
    cr_assert(served, "%s", error.text);
    return served;
}

Test(loader, a_load_that_fails_has_a_sentence)
{
    struct pen_engine *engine = NULL;
    struct pen_error error;
    warm_fails = true;
    cr_assert_null(load_digits_or("reference", 1, &engine, &error));
    cr_expect_eq(error.status, PEN_ERR_NO_MEMORY);
    cr_expect_str_eq(error.text, "no memory to load the model");
    pen_engine_free(engine);
}

Test(loader, a_model_is_loaded_warmed_and_freed_at_the_lowest_priority)
{
    struct pen_engine *engine = NULL;
    int usual = getpriority(PRIO_PROCESS, (id_t)gettid());
    struct served *served = load_digits("reference", 1, &engine);
    cr_expect(calls_count > 0);
    for (size_t i = 0; i < calls_count; i++)
        cr_expect(!calls[i].own && calls[i].alone && calls[i].nice == 19, "run %zu: nice %d", i, calls[i].nice);
    loader_free(served);
    cr_expect(!freed.own && freed.nice == 19, "freed at nice %d", freed.nice);
    cr_expect_eq(getpriority(PRIO_PROCESS, (id_t)gettid()), usual, "who asked is as before");
    pen_engine_free(engine);
}

/* A model that slept: its file is read by a thread of the background where slots serve, and by the caller where none do. */
Test(loader, a_model_wakes_beside_what_serves)
{
    struct pen_engine *engine = NULL;
    struct pen_error error;
    struct served *served = load_digits("reference", 1, &engine);
    for (int aside = 0; aside < 2; aside++) {
        loader_cool(served);
        opened = (struct call){.nice = -1};
        cr_assert_eq(loader_wake(engine, served, 1, aside == 1, &error), PEN_OK, "%s", error.text);
        cr_expect(opened.own == (aside == 0) && (opened.nice == 19) == (aside == 1), "aside %d: own %d, nice %d", aside,
                  opened.own, opened.nice);
    }
    loader_free(served);
    pen_engine_free(engine);
}

Test(loader, helpers_of_slots_take_no_part_until_the_model_is_warm)
{
    struct pen_engine *engine = NULL;
    int usual = getpriority(PRIO_PROCESS, (id_t)gettid());
    scripted = true;
    struct served *served = load_digits("xnnpack", 2, &engine);
    size_t exclusive = calls_count - 2, before = calls[0].threads;
    cr_assert(calls_count > 3);
    for (size_t i = 0; i < exclusive; i++)
        cr_expect(!calls[i].own && calls[i].threads == before, "run %zu: %zu threads, %zu at first", i,
                  calls[i].threads, before);
    for (size_t i = exclusive; i < calls_count; i++) /* the loading thread has ended, a helper has come */
        cr_expect(calls[i].own && !calls[i].alone && calls[i].nice == usual, "run %zu with helpers", i);
    cr_assert(served->warm_count > 1);
    for (size_t i = 0; i < served->warm_count; i++) /* (1000 - 100) * (400 - 100) / (1000 - 100) */
        cr_expect(served->warm[i].warm_us >= 299 && served->warm[i].warm_us <= 300, "size %u: %u us",
                  served->warm[i].batch, (unsigned)served->warm[i].warm_us);
    loader_free(served);
    pen_engine_free(engine);
}

/* ---- aside -------------------------------------------------------------------------------------------------------------------------- */

static uint64_t thread_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void compute(uint64_t us)
{
    uint64_t until_us = thread_us() + us;
    while (thread_us() < until_us)
        ;
}

static void compute_aside(void *argument)
{
    (void)argument;
    errno = 77;
    for (size_t i = 0; i < 50; i++)
        compute(1000);
    cr_expect_eq(errno, 77, "what interrupts leaves errno alone");
}

Test(aside, work_offers_its_processor_while_it_computes_and_nobody_does_afterwards)
{
    cr_assert_eq(background_run("work", compute_aside, NULL), PEN_OK);
    uint64_t offers = background_offers();
    cr_expect(offers >= 20, "%u offers in 50 ms", (unsigned)offers);
    compute(5000);
    cr_expect_eq(background_offers(), offers);
}

static atomic_bool begun, enough;

static void one_processor(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void compete_aside(void *argument)
{
    uint64_t before_us = background_waited_us();
    compute(4000);
    *(uint64_t *)argument = background_waited_us() - before_us;
}

static void *serve_busily(void *argument)
{
    while (!atomic_load(&enough))
        atomic_store(&begun, true);
    return argument;
}

Test(aside, time_spent_waiting_for_a_processor_is_told_apart)
{
    pthread_t busy;
    uint64_t waited_us = 0;
    if (access("/proc/thread-self/schedstat", R_OK) != 0)
        cr_skip_test("this kernel does not tell how long threads wait");
    one_processor();
    cr_assert_eq(pthread_create(&busy, NULL, serve_busily, NULL), 0);
    while (!atomic_load(&begun))
        sched_yield();
    cr_assert_eq(background_run("work", compete_aside, &waited_us), PEN_OK);
    atomic_store(&enough, true);
    pthread_join(busy, NULL);
    cr_expect(waited_us >= 2000, "4 ms of work at the lowest priority waited %u us for a thread that computes",
              (unsigned)waited_us);
}
