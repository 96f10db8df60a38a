/* What a supervisor does when its worker ends: which ends are for good, and which signals it passes on. And what settings and host decide together. */
#include "supervise.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "options.h"
#include "quota.h"
#include "signals.h"
#include "worker.h"

/* What workers leave for each other and for the test. */
static struct shared {
    atomic_uint lives;
    atomic_int signal;
    pid_t test;   /* who supervises */
    int codes[8]; /* of each life; above 1000: it is ended by that signal */
} * shared;

static void begin(void)
{
    cr_redirect_stderr();
    signals_install();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(shared != MAP_FAILED);
    shared->test = getpid();
}

static void end(void)
{
    munmap(shared, sizeof *shared);
}

TestSuite(supervise, .init = begin, .fini = end, .timeout = 60);

static int live(void *context)
{
    int code = shared->codes[atomic_fetch_add(&shared->lives, 1)];
    cr_assert(context == shared);
    if (code > 1000) {
        signal(code - 1000, SIG_DFL);
        kill(getpid(), code - 1000);
        pause();
    }
    return code;
}

static void ends(int first, int second, int code, unsigned lives)
{
    atomic_store(&shared->lives, 0);
    shared->codes[0] = first;
    shared->codes[1] = second;
    cr_expect_eq(supervise_run(live, shared), code, "%d, then %d", first, second);
    cr_expect_eq(atomic_load(&shared->lives), lives, "%d, then %d: %u lives", first, second,
                 atomic_load(&shared->lives));
}

Test(supervise, an_end_that_a_new_start_would_repeat_is_for_good)
{
    ends(WORKER_EXIT_OK, 9, WORKER_EXIT_OK, 1);
    ends(WORKER_EXIT_USAGE, 9, WORKER_EXIT_USAGE, 1);
    ends(WORKER_EXIT_MODELS, 9, WORKER_EXIT_MODELS, 1);
    ends(WORKER_EXIT_REFUSED, 9, WORKER_EXIT_REFUSED, 1);
    ends(WORKER_EXIT_VERSION, 9, WORKER_EXIT_VERSION, 1);
    ends(128, 9, 128, 1);
}

Test(supervise, a_worker_that_failed_was_wedged_or_crashed_is_started_again)
{
    ends(WORKER_EXIT_FAILED, WORKER_EXIT_OK, WORKER_EXIT_OK, 2);
    ends(WORKER_EXIT_WEDGED, WORKER_EXIT_REFUSED, WORKER_EXIT_REFUSED, 2);
    ends(1000 + SIGKILL, WORKER_EXIT_MODELS, WORKER_EXIT_MODELS, 2);
}

static void note(int number)
{
    atomic_store(&shared->signal, number);
}

/* Asks its supervisor by a signal, and waits until it is there itself, or the supervisor is gone. */
static int ask_parent(int number)
{
    struct sigaction action = {.sa_handler = note};
    pid_t parent = shared->test;
    sigset_t none;
    sigemptyset(&none);
    sigaction(number, &action, NULL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    kill(parent, number);
    while (atomic_load(&shared->signal) != number && getppid() == parent)
        usleep(1000);
    return WORKER_EXIT_FAILED;
}

static int asks_to_end(void *context)
{
    atomic_fetch_add(&shared->lives, 1);
    return ask_parent(*(int *)context);
}

Test(supervise, a_signal_to_end_is_passed_on_and_nothing_is_started_again)
{
    static int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < 3; i++) {
        atomic_store(&shared->lives, 0);
        cr_expect_eq(supervise_run(asks_to_end, &numbers[i]), WORKER_EXIT_FAILED);
        cr_expect_eq(atomic_load(&shared->lives), 1, "signal %d", numbers[i]);
    }
}

static int asks_for_levels(void *context)
{
    if (atomic_fetch_add(&shared->lives, 1) > 0)
        return WORKER_EXIT_OK;
    ask_parent(SIGUSR1);
    ask_parent(SIGUSR2);
    return *(int *)context;
}

Test(supervise, signals_about_the_log_are_passed_on_and_end_nothing)
{
    int code = WORKER_EXIT_WEDGED;
    cr_expect_eq(supervise_run(asks_for_levels, &code), WORKER_EXIT_OK);
    cr_expect_eq(atomic_load(&shared->lives), 2, "it was started again");
}

/* Its own process group: the terminal's Ctrl-C reaches it once, by way of the supervisor. */
static int tells_group(void *context)
{
    return getpgrp() == getpid() && getppid() == *(pid_t *)context ? 42 : 43;
}

Test(supervise, a_worker_is_a_process_group_of_its_own)
{
    pid_t own = getpid();
    cr_expect_eq(supervise_run(tells_group, &own), 42);
}

Test(supervise, pauses_double_up_to_half_a_minute)
{
    static const uint64_t want_ms[] = {0, 0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};
    for (unsigned young = 0; young < sizeof want_ms / sizeof *want_ms; young++)
        cr_assert(supervise_pause_us(young) == 1000 * want_ms[young], "%u", young);
    cr_assert(supervise_pause_us(1000000) == SUPERVISE_PAUSE_US_MAX);
}

/* ---- sizes ---- */

static struct worker_sizes sizes_of(struct options options, struct quota quota, uint32_t instances)
{
    struct worker_sizes sizes;
    worker_sizes(&options, &quota, instances, &sizes);
    return sizes;
}

Test(sizes, slots_and_threads_follow_from_processors_unless_they_are_said)
{
    const struct quota eight = {.cpus = 8, .cores = 4, .memory_bytes = 4096};
    struct worker_sizes sizes = sizes_of((struct options){0}, eight, 2);
    cr_expect(sizes.slots == 2 && sizes.threads == 2, "%u slots, %u threads", sizes.slots, sizes.threads);
    sizes = sizes_of((struct options){0}, eight, 9);
    cr_expect(sizes.slots == 8 && sizes.threads == 1, "no more slots than processors, and at least one thread");
    sizes = sizes_of((struct options){0}, eight, 8);
    cr_expect(sizes.slots == 8 && sizes.threads == 1);
    sizes = sizes_of((struct options){.slots = 9, .threads = 3}, eight, 1);
    cr_expect(sizes.slots == 9 && sizes.threads == 3, "what is said counts");
    sizes = sizes_of((struct options){.slots = 1}, eight, 5);
    cr_expect(sizes.slots == 1 && sizes.threads == 4);
}

Test(sizes, memory_and_queue_follow_from_the_host_unless_they_are_said)
{
    const uint64_t gib = UINT64_C(1) << 30;
    struct quota quota = {.cpus = 1, .cores = 1, .memory_bytes = 4 * gib};
    struct worker_sizes sizes = sizes_of((struct options){0}, quota, 1);
    cr_expect(sizes.memory_bytes == 3 * gib && sizes.queue_bytes == 3 * gib / 4);
    quota.memory_bytes = 64 * gib;
    sizes = sizes_of((struct options){0}, quota, 1);
    cr_expect(sizes.memory_bytes == 48 * gib && sizes.queue_bytes == gib, "never more");
    sizes = sizes_of((struct options){.memory_limit = 4000}, quota, 1);
    cr_expect(sizes.memory_bytes == 4000 && sizes.queue_bytes == 1000);
    sizes = sizes_of((struct options){.memory_limit = 4000, .queue_bytes = 7}, quota, 1);
    cr_expect(sizes.memory_bytes == 4000 && sizes.queue_bytes == 7);
}

/* ---- flags of the engine ---------------------------------------------------------------------------------------------- */

/* The flags that a worker with these settings gives to its engine; NULL: they are refused. */
static struct pen_env *flags_of(int argc, const char *const *argv, uint64_t memory_bytes, struct pen_error *reterr)
{
    struct options options;
    enum settings_outcome outcome;
    struct settings_store *store = NULL;
    struct pen_env *env = NULL;
    const struct settings_call call = {&options_program, argc, (char **)(uintptr_t)argv, NULL, 0};
    cr_assert_eq(settings_load(&call, &options, NULL, &outcome, &store, reterr), PEN_OK, "%s", reterr->text);
    options.settings = store;
    if (options_env(&options, 3, memory_bytes, &env, reterr) != PEN_OK)
        cr_assert_null(env);
    settings_free(store);
    return env;
}

static const struct pen_flag *flag_named(const struct pen_env *env, const char *name)
{
    size_t count = 0;
    size_t i = 0;
    const struct pen_flag *flags = pen_env_flags(env, &count);
    while (i < count && strcmp(flags[i].name, name) != 0)
        i++;
    cr_assert_lt(i, count, "there is no flag %s", name);
    return &flags[i];
}

Test(options, the_engine_hears_who_has_given_its_flags)
{
    static const char *const given[] = {
        "x",          "--flag=warmup=compile", "--flag=cpu_isa_max=plain", "--memory-budget=5KiB", "--measure=off",
        "--mode=prod"};
    static const struct {
        const char *name, *value, *where;
        enum pen_origin origin;
    } rows[] = {{"warmup", "compile", "--flag", PEN_ORIGIN_FLAG},
                {"cpu_isa_max", "plain", "--flag", PEN_ORIGIN_FLAG},
                {"threads", "3", "", PEN_ORIGIN_DETECTED},
                {"budget_bytes", "5120", "--memory-budget", PEN_ORIGIN_FLAG},
                {"keep_measured", "off", "--measure", PEN_ORIGIN_FLAG}};
    struct pen_error error = {.status = PEN_OK};
    struct pen_env *env = flags_of(6, given, 6000, &error);
    cr_assert_not_null(env, "%s", error.text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct pen_flag *flag = flag_named(env, rows[i].name);
        cr_expect_str_eq(flag->value, rows[i].value, "%s: %s", flag->name, flag->value);
        cr_expect_str_eq(flag->where, rows[i].where, "%s: %s", flag->name, flag->where);
        cr_expect_eq(flag->origin, rows[i].origin, "%s", flag->name);
    }
    pen_env_free(env);
    env = flags_of(6, given, 5120, &error);
    cr_assert_not_null(env, "%s", error.text);
    cr_expect_str_eq(flag_named(env, "budget_bytes")->value, "5120");
    cr_expect_eq(flag_named(env, "budget_bytes")->origin, PEN_ORIGIN_DETECTED, "the host has no more");
    pen_env_free(env);
}

Test(options, flags_that_the_engine_does_not_take_are_refused)
{
    static const struct {
        const char *flag, *part;
    } rows[] = {{"--flag=warmpu=compile", "did you mean 'warmup'"},
                {"--flag=warmup=nonsense", "nonsense"},
                {"--backend=nobody", "nobody"},
                {"--precision=f31", "f31"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pen_error error = {.status = PEN_OK};
        const char *const argv[] = {"x", rows[i].flag, "--flag=warmup=compile"};
        cr_expect_null(flags_of(3, argv, 6000, &error), "%s", rows[i].flag);
        cr_expect_not_null(strstr(error.text, rows[i].part), "%s: %s", rows[i].flag, error.text);
    }
}
