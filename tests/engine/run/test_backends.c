/*
 * Which backends an engine opens, in which order and how it asks for them, and what it says of those that it does not use. The build's table of backends is
 * replaced by three played ones through the linker: fast (30), middle (20) and plain (10).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "graph/explain.h"
#include "run/internal.h"

enum { FAST, MIDDLE, PLAIN, COUNT };

struct backend {
    int number;
};

/* What a backend does when it is asked. */
static struct played {
    const char *missing;        /* the host has none, and why; NULL: there is one */
    enum pen_status probe;      /* of asking */
    uint32_t precisions;        /* bits */
    enum pen_status opening[4]; /* of the first, second ... time */
    unsigned opens, open;       /* so often, and now */
    struct backend_config config;
    struct backend self;
} played[COUNT];

static enum pen_status play_probe(int number, struct backend_caps *ret_caps)
{
    static const char *const devices[] = {"a fast device", "a middling device", "any processor"};
    static const char *const libraries[] = {"fast-1", "middle-2", "plain-3"};
    const struct played *p = &played[number];
    *ret_caps = (struct backend_caps){.available = p->missing == NULL, .precisions = p->precisions};
    snprintf(ret_caps->reason, sizeof ret_caps->reason, "%s", p->missing != NULL ? p->missing : "");
    snprintf(ret_caps->device, sizeof ret_caps->device, "%s", devices[number]);
    snprintf(ret_caps->library, sizeof ret_caps->library, "%s", libraries[number]);
    return p->probe;
}

static enum pen_status play_open(int number, const struct backend_config *config, struct backend **ret_backend,
                                 struct pen_error *reterr)
{
    struct played *p = &played[number];
    enum pen_status status = p->opens < 4 ? p->opening[p->opens] : PEN_OK;
    p->opens++;
    p->config = *config;
    if (status != PEN_OK) {
        return pen_error_set(reterr, status, "opening %d: %s", p->opens, pen_status_name(status));
    }
    p->open++;
    p->self.number = number;
    *ret_backend = &p->self;
    return PEN_OK;
}

static void play_close(struct backend *backend)
{
    cr_assert_gt(played[backend->number].open, 0u);
    played[backend->number].open--;
}

static uint64_t play_compiled(const struct backend *backend)
{
    return backend->number == FAST ? 7 : 100;
}

static enum pen_status play_tune(struct backend *backend, uint64_t class_us, pen_tune_row_function *say, void *context,
                                 bool *ret_stored, struct pen_error *reterr)
{
    (void)say;
    (void)context;
    (void)reterr;
    *ret_stored = backend->number == FAST && class_us == 123;
    return PEN_OK;
}

#define PLAYED(NAME, NUMBER)                                                                                           \
    static enum pen_status NAME##_probe(const struct backend_config *config, struct backend_caps *ret_caps)            \
    {                                                                                                                  \
        (void)config;                                                                                                  \
        return play_probe(NUMBER, ret_caps);                                                                           \
    }                                                                                                                  \
    static enum pen_status NAME##_open(const struct backend_config *config, struct backend **ret_backend,              \
                                       struct pen_error *reterr)                                                       \
    {                                                                                                                  \
        return play_open(NUMBER, config, ret_backend, reterr);                                                         \
    }
PLAYED(fast, FAST)
PLAYED(middle, MIDDLE)
PLAYED(plain, PLAIN)

static const struct backend_ops fast_ops = {.name = "fast",
                                            .priority = 30,
                                            .is_device = true,
                                            .probe = fast_probe,
                                            .open = fast_open,
                                            .close = play_close,
                                            .compiled = play_compiled,
                                            .tune = play_tune},
                                middle_ops = {.name = "middle",
                                              .priority = 20,
                                              .probe = middle_probe,
                                              .open = middle_open,
                                              .close = play_close,
                                              .compiled = play_compiled},
                                plain_ops = {.name = "plain",
                                             .priority = 10,
                                             .is_reference = true,
                                             .probe = plain_probe,
                                             .open = plain_open,
                                             .close = play_close};
static const struct backend_ops *const table[] = {&fast_ops, &middle_ops, &plain_ops};

const struct backend_ops *const *__wrap_backend_table(size_t *ret_count);
const struct backend_ops *__wrap_backend_find(const char *name);

const struct backend_ops *const *__wrap_backend_table(size_t *ret_count)
{
    *ret_count = COUNT;
    return table;
}

const struct backend_ops *__wrap_backend_find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(table[i]->name, name) == 0) {
            return table[i];
        }
    }
    return NULL;
}

static struct pen_engine *engine;
static struct pen_error error;
static struct pen_explain *rows;

static void begin(void)
{
    memset(played, 0, sizeof played);
    for (size_t i = 0; i < COUNT; i++) {
        played[i].precisions = 1u << PEN_PRECISION_F32;
    }
    engine = NULL;
    error = (struct pen_error){.status = PEN_OK};
    rows = pen_explain_new();
}

static void end(void)
{
    pen_engine_free(engine);
    engine = NULL;
    for (size_t i = 0; i < COUNT; i++) {
        cr_expect_eq(played[i].open, 0u, "%s is still open", table[i]->name);
    }
    pen_explain_free(rows);
}

TestSuite(backends, .init = begin, .fini = end);

static struct pen_engine_options options_of(const char *backend, enum pen_precision precision)
{
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    options.backend = backend;
    options.precision = precision;
    return options;
}

static enum pen_status opened(const struct pen_engine_options *options)
{
    struct pen_engine_options those = *options;
    those.explain = rows; /* of this engine */
    return pen_engine_new(&those, &engine, &error);
}

static const char *fact(const char *name)
{
    size_t count = 0;
    const struct pen_flag *flags = pen_engine_flags(engine, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(flags[i].name, name) == 0) {
            return flags[i].value;
        }
    }
    return "";
}

static void explained(const char *subject, const char *choice, const char *reason)
{
    size_t count = 0;
    const struct pen_explain_row *row = pen_explain_rows(rows, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        if (row[i].about == PEN_CHOICE_BACKEND && strcmp(row[i].subject, subject) == 0) {
            cr_expect_str_eq(row[i].choice, choice, "%s", subject);
            cr_expect(strstr(row[i].reason, reason) != NULL, "%s: '%s'", subject, row[i].reason);
            return;
        }
    }
    cr_expect(false, "no row about %s", subject);
}

/* ---- auto ---- */

Test(backends, the_first_that_opens_is_chosen_and_lower_ones_stand_behind_it)
{
    static const struct {
        const char *missing[COUNT];
        enum pen_status probe[COUNT], opening[COUNT];
        uint32_t count;
        int open[COUNT]; /* in their order; -1: no more */
    } cases[] = {
        {.count = 3, .open = {FAST, MIDDLE, PLAIN}},
        {.missing = {"no card"}, .count = 2, .open = {MIDDLE, PLAIN, -1}},
        {.missing = {NULL, "no library"}, .count = 2, .open = {FAST, PLAIN, -1}},
        {.missing = {"no card", "no library"}, .count = 1, .open = {PLAIN, -1, -1}},
        {.probe = {PEN_ERR_IO}, .count = 2, .open = {MIDDLE, PLAIN, -1}},
        {.opening = {PEN_ERR_DEVICE_LOST}, .count = 2, .open = {MIDDLE, PLAIN, -1}},
        {.opening = {PEN_OK, PEN_ERR_INTERNAL}, .count = 2, .open = {FAST, PLAIN, -1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (size_t i = 0; i < COUNT; i++) {
            played[i].missing = cases[c].missing[i];
            played[i].probe = cases[c].probe[i];
            played[i].opening[0] = cases[c].opening[i];
        }
        struct pen_engine_options options = options_of("auto", PEN_PRECISION_ANY);
        cr_assert_eq(opened(&options), PEN_OK, "case %zu: %s", c, error.text);
        cr_assert_eq(engine->backend_count, cases[c].count, "case %zu", c);
        for (uint32_t i = 0; i < cases[c].count; i++) {
            cr_expect(engine->backends[i].ops == table[cases[c].open[i]] &&
                          engine->backends[i].self->number == cases[c].open[i],
                      "case %zu", c);
            cr_expect_str_eq(fact(cases[c].open[i] == FAST     ? "backend.fast"
                                  : cases[c].open[i] == MIDDLE ? "backend.middle"
                                                               : "backend.plain"),
                             "available");
        }
        int first = cases[c].open[0];
        cr_expect_str_eq(pen_engine_backend(engine), table[first]->name);
        cr_expect_str_eq(fact("backend"), table[first]->name);
        cr_expect_str_eq(pen_engine_library(engine), first == FAST     ? "fast-1"
                                                     : first == MIDDLE ? "middle-2"
                                                                       : "plain-3");
        cr_expect_eq(pen_engine_on_device(engine), first == FAST);
        end();
        begin();
    }
}

Test(backends, what_is_not_used_says_why)
{
    played[FAST].missing = "no card";
    played[MIDDLE].opening[0] = PEN_ERR_DEVICE_LOST;
    struct pen_engine_options options = options_of("auto", PEN_PRECISION_F32);
    cr_assert_eq(opened(&options), PEN_OK);
    cr_expect_str_eq(fact("backend.fast"), "unavailable: no card");
    cr_expect(strncmp(fact("backend.middle"), "failed: opening 1: ", 19) == 0, "%s", fact("backend.middle"));
    cr_expect_str_eq(fact("selftest.plain.f32"), "ok");
    cr_expect_str_eq(fact("selftest.middle.f32"), "");
    explained("fast", "not used", "this host has none: no card");
    explained("middle", "not used", "it did not open: opening 1: ");
    explained("plain", "chosen", "highest priority, in f32");
    end();
    begin();
    played[FAST].precisions |= 1u << PEN_PRECISION_BF16;
    options = options_of("fast", PEN_PRECISION_BF16);
    cr_assert_eq(opened(&options), PEN_OK);
    explained("fast", "chosen", "it was asked for by name, in bf16");
    explained("middle", "behind it", "it takes what those before it cannot, in f32");
    cr_expect_eq(played[FAST].config.precision, PEN_PRECISION_BF16);
    cr_expect_eq(played[PLAIN].config.precision, PEN_PRECISION_F32);
    cr_expect_str_eq(fact("precision"), "bf16");
}

Test(backends, a_precision_that_a_backend_lacks_leads_to_the_next_or_is_refused_with_what_there_is)
{
    played[MIDDLE].precisions |= 1u << PEN_PRECISION_BF16;
    struct pen_engine_options options = options_of("auto", PEN_PRECISION_BF16);
    cr_assert_eq(opened(&options), PEN_OK, "%s", error.text);
    cr_expect_str_eq(pen_engine_backend(engine), "middle");
    cr_expect_str_eq(fact("backend.fast"), "no bf16");
    cr_expect_eq(engine->backend_count, 2u, "fast is above it");
    explained("fast", "not used", "it does not offer precision bf16");
    end();
    begin();
    played[MIDDLE].precisions |= 1u << PEN_PRECISION_BF16;
    options = options_of("fast", PEN_PRECISION_BF16);
    cr_expect_eq(opened(&options), PEN_ERR_UNSUPPORTED);
    cr_expect_str_eq(error.text, "backend fast does not offer precision bf16 on this host; there is: f32 (fast)");
    played[MIDDLE].precisions = 1u << PEN_PRECISION_F32;
    options = options_of("auto", PEN_PRECISION_BF16);
    cr_expect_eq(opened(&options), PEN_ERR_UNSUPPORTED);
    cr_expect_str_eq(error.text, "no backend of this build offers precision bf16 on this host; there is: f32 (fast, "
                                 "middle, plain)");
}

Test(backends, none_that_opens_leaves_the_last_ones_sentence)
{
    for (size_t i = 0; i < COUNT; i++) {
        played[i].missing = "nothing here";
    }
    struct pen_engine_options options = options_of(NULL, PEN_PRECISION_F32);
    cr_expect_eq(opened(&options), PEN_ERR_UNSUPPORTED);
    cr_expect_str_eq(error.text, "backend plain cannot be used on this host: nothing here");
    played[PLAIN].missing = "";
    cr_expect_eq(opened(&options), PEN_ERR_UNSUPPORTED);
    cr_expect_str_eq(error.text, "backend plain cannot be used on this host: probe failed");
    options = options_of("quick", PEN_PRECISION_F32);
    cr_expect_eq(opened(&options), PEN_ERR_UNSUPPORTED);
    cr_expect_str_eq(error.text, "no backend is called 'quick' in this build: it has fast, middle, plain, and auto to "
                                 "choose among them");
}

Test(backends, a_flag_that_contradicts_another_engine_is_no_reason_to_compute_elsewhere)
{
    played[FAST].opening[0] = PEN_ERR_BUSY;
    struct pen_engine_options options = options_of("auto", PEN_PRECISION_F32);
    cr_expect_eq(opened(&options), PEN_ERR_BUSY);
    cr_expect_eq(played[MIDDLE].opens, 0u);
    end();
    begin();
    played[MIDDLE].opening[0] = PEN_ERR_BUSY;
    cr_expect_eq(opened(&options), PEN_ERR_BUSY, "behind the chosen one, too");
    cr_expect_eq(played[PLAIN].opens, 0u);
}

Test(backends, the_last_one_behind_must_open_unless_placement_is_strict)
{
    played[PLAIN].opening[0] = PEN_ERR_NO_MEMORY;
    struct pen_engine_options options = options_of("fast", PEN_PRECISION_F32);
    cr_expect_eq(opened(&options), PEN_ERR_NO_MEMORY);
    end();
    begin();
    options = options_of("fast", PEN_PRECISION_F32);
    options.strict = true;
    cr_assert_eq(opened(&options), PEN_OK);
    cr_expect(engine->backend_count == 1 && played[MIDDLE].opens == 0 && played[PLAIN].opens == 0);
    cr_expect(engine_placement_choice(engine).strict);
}

/* ---- what they are asked ---- */

Test(backends, are_asked_with_the_options_of_the_engine)
{
    struct pen_engine_options options = options_of("fast", PEN_PRECISION_F32);
    options.threads = 3;
    options.pin = PEN_PIN_CORES;
    options.check_numerics = PEN_CHECK_FAIL;
    cr_assert_eq(opened(&options), PEN_OK, "%s", error.text);
    cr_expect(played[FAST].config.threads == 3 && played[FAST].config.pin && played[FAST].config.check_numerics);
    cr_expect(!played[FAST].config.profile && played[MIDDLE].config.threads == 3);
    cr_expect(!engine_placement_choice(engine).watch, "the backends look themselves");
    end();
    begin();
    options = options_of("fast", PEN_PRECISION_F32);
    options.check_numerics = PEN_CHECK_WARN;
    cr_assert_eq(opened(&options), PEN_OK);
    cr_expect(!played[FAST].config.check_numerics && !played[FAST].config.pin && engine_placement_choice(engine).watch);
    end();
    begin();
    options = options_of("fast", PEN_PRECISION_F32);
    options.profile_nodes = true;
    cr_assert_eq(opened(&options), PEN_OK);
    cr_expect(played[FAST].config.profile && !engine_placement_choice(engine).watch);
    end();
    begin();
    options = options_of("fast", PEN_PRECISION_F32);
    options.mode = PEN_MODE_DEBUG;
    options.check_numerics = PEN_CHECK_FAIL;
    cr_assert_eq(opened(&options), PEN_OK);
    cr_expect(played[FAST].config.profile && !played[FAST].config.check_numerics &&
                  engine_placement_choice(engine).watch,
              "the log looks first");
}

Test(backends, what_was_compiled_is_the_sum_and_only_the_chosen_one_is_tuned)
{
    bool stored = true;
    struct pen_engine_options options = options_of("fast", PEN_PRECISION_F32);
    cr_assert_eq(opened(&options), PEN_OK);
    cr_expect_eq(pen_engine_compiled(engine), 107u);
    cr_expect_eq(pen_engine_tune(engine, 123, NULL, NULL, &stored, &error), PEN_OK);
    cr_expect(stored);
    end();
    begin();
    options = options_of("middle", PEN_PRECISION_F32);
    cr_assert_eq(opened(&options), PEN_OK);
    cr_expect_eq(pen_engine_tune(engine, 123, NULL, NULL, &stored, &error), PEN_ERR_UNSUPPORTED);
    cr_expect(!stored && strstr(error.text, "middle has no kernels to choose among") != NULL, "%s", error.text);
}

/* ---- flags that change ---- */

Test(backends, what_is_one_for_the_process_closes_before_it_opens_anew)
{
    struct pen_engine_options options = options_of("fast", PEN_PRECISION_F32);
    cr_assert_eq(opened(&options), PEN_OK);
    cr_assert_eq(pen_engine_set(engine, "threads", "2", PEN_ORIGIN_FLAG, "a test", &error), PEN_OK);
    cr_expect(played[FAST].opens == 2 && played[FAST].open == 1, "the old one went after the new one came");
    played[FAST].opening[2] = PEN_ERR_BUSY; /* then it is in the way of itself */
    cr_assert_eq(pen_engine_set(engine, "threads", "4", PEN_ORIGIN_FLAG, "a test", &error), PEN_OK, "%s", error.text);
    cr_expect(played[FAST].opens == 4 && played[FAST].open == 1 && played[PLAIN].open == 1);
    cr_expect_eq(engine->options.threads, 4u);
}

Test(backends, a_change_that_fails_leaves_the_engine_open)
{
    struct pen_engine_options options = options_of("fast", PEN_PRECISION_F32);
    cr_assert_eq(opened(&options), PEN_OK);
    played[FAST].opening[1] = PEN_ERR_INTERNAL;
    cr_expect_eq(pen_engine_set(engine, "threads", "2", PEN_ORIGIN_FLAG, "a test", &error), PEN_ERR_INTERNAL);
    cr_expect(played[FAST].opens == 2 && played[FAST].open == 1 && engine->options.threads == 1);
    end();
    begin();
    cr_assert_eq(opened(&options), PEN_OK);
    played[FAST].opening[1] = PEN_ERR_BUSY;
    played[FAST].opening[2] = PEN_ERR_INVALID; /* without the old one, too: that opens again */
    cr_expect_eq(pen_engine_set(engine, "threads", "2", PEN_ORIGIN_FLAG, "a test", &error), PEN_ERR_INVALID);
    cr_expect(played[FAST].opens == 4 && played[FAST].open == 1 && engine->backend_count == 3 &&
              engine->options.threads == 1);
    end();
    begin();
    cr_assert_eq(opened(&options), PEN_OK);
    played[FAST].opening[1] = PEN_ERR_BUSY;
    played[FAST].opening[2] = played[FAST].opening[3] = PEN_ERR_INVALID;
    cr_expect_eq(pen_engine_set(engine, "threads", "2", PEN_ORIGIN_FLAG, "a test", &error), PEN_ERR_INTERNAL);
    cr_expect(strstr(error.text, "do not open again: free the engine") != NULL, "%s", error.text);
}

/* ---- classes of arithmetic ---- */

Test(backends, a_precision_is_found_where_some_backend_has_it)
{
    static const struct {
        const char *backend, *name;
        enum pen_status status;
        enum pen_precision precision;
    } cases[] = {
        {"auto", "any", PEN_OK, PEN_PRECISION_F32},
        {"auto", "f32", PEN_OK, PEN_PRECISION_F32},
        {"auto", "bf16", PEN_OK, PEN_PRECISION_BF16}, /* middle has it */
        {"auto", "int8", PEN_ERR_UNSUPPORTED, PEN_PRECISION_ANY},
        {"fast", "int8", PEN_OK, PEN_PRECISION_INT8}, /* it answers when it is opened */
        {"fast", "f64", PEN_ERR_INVALID, PEN_PRECISION_ANY},
        {NULL, "bf16", PEN_OK, PEN_PRECISION_BF16},
    };
    played[MIDDLE].precisions |= 1u << PEN_PRECISION_BF16;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum pen_precision found = PEN_PRECISION_ANY;
        struct pen_engine_options options = options_of(cases[i].backend, PEN_PRECISION_F32);
        cr_expect_eq(pen_engine_precision_find(&options, cases[i].name, &found, &error), cases[i].status, "case %zu",
                     i);
        cr_expect_eq(found, cases[i].precision, "case %zu", i);
    }
    struct pen_engine_options options = options_of("auto", PEN_PRECISION_F32);
    cr_expect_eq(pen_engine_precision_find(&options, "f64", &(enum pen_precision){PEN_PRECISION_ANY}, &error),
                 PEN_ERR_INVALID);
    cr_expect_str_eq(error.text,
                     "no precision is called 'f64'; this build and host have: f32 (fast, middle, plain), bf16 "
                     "(middle)");
    played[FAST].missing = "no card";
    cr_expect_eq(pen_engine_precision_find(&options, "int8", &(enum pen_precision){PEN_PRECISION_ANY}, &error),
                 PEN_ERR_UNSUPPORTED);
    cr_expect_str_eq(error.text,
                     "no backend of this build offers precision int8 on this host; there is: f32 (middle, plain), "
                     "bf16 (middle); a model that is quantised computes in its integers under any of them");
}
