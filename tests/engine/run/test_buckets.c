/*
 * What a bucket plans, recomputed here from the lists of its steps: who lives when, that nobody lies where another one still lives, what steps see, when results
 * are needed, how many bytes are booked; and which buckets go when there are too many.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "run/internal.h"
#include "written.h"

static struct written w;

static void end(void)
{
    written_close(&w);
}

TestSuite(buckets, .fini = end);

static void unsqueeze_axes(struct onnx_writer *g)
{
    static const int64_t axes[] = {1, 2};
    onnx_writer_constant(g, "axes", PEN_DTYPE_I64, 1, WRITTEN_DIMS(2), axes, sizeof axes);
}

/* Steps of xnnpack, and of the reference for the determinants: e and d are read again later than by the next step. */
static void chain_open_warm(enum pen_warmup warmup)
{
    struct pen_engine_options options;
    struct onnx_writer *g = onnx_writer_new("chain");
    pen_engine_options_init(&options);
    options.backend = "xnnpack";
    options.warmup = warmup;
    unsqueeze_axes(g);
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 3, WRITTEN_DIMS(-1, 3, 3), NULL);
    onnx_writer_node(g, "Exp", ONNX_LIST("x"), ONNX_LIST("e"), NULL);
    onnx_writer_node(g, "Det", ONNX_LIST("e"), ONNX_LIST("d"), NULL);
    onnx_writer_node(g, "Neg", ONNX_LIST("d"), ONNX_LIST("f"), NULL);
    onnx_writer_node(g, "Unsqueeze", ONNX_LIST("f", "axes"), ONNX_LIST("u"), NULL);
    onnx_writer_node(g, "Mul", ONNX_LIST("e", "u"), ONNX_LIST("g"), NULL);
    onnx_writer_node(g, "Det", ONNX_LIST("g"), ONNX_LIST("h"), NULL);
    onnx_writer_node(g, "Exp", ONNX_LIST("h"), ONNX_LIST("i"), NULL);
    onnx_writer_node(g, "Add", ONNX_LIST("i", "d"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    written_open(&w, g, &options);
}

static void chain_open(void)
{
    chain_open_warm(PEN_WARMUP_EXECUTE);
}

static const float ones[64 * 9];

static struct bucket *bound(int64_t batch)
{
    const struct pen_tensor in = written_tensor(PEN_DTYPE_F32, 3, WRITTEN_DIMS(batch, 3, 3), ones, (size_t)batch * 36);
    cr_assert_eq(pen_session_bind(w.session, &in, 1, &w.error), PEN_OK, "%s", w.error.text);
    return w.session->bound;
}

static bool lists(const uint32_t *ids, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] == value) {
            return true;
        }
    }
    return false;
}

/* The steps during which a value must be there; false: it never is. */
static bool life_of(const struct bucket *b, uint32_t value, uint32_t *ret_first, uint32_t *ret_last)
{
    const struct placement *p = b->program->placement;
    const struct graph *g = b->program->g;
    bool made = lists(g->inputs, g->input_count, value);
    *ret_first = 0;
    *ret_last = made || lists(g->outputs, g->output_count, value) ? p->step_count : 0;
    for (uint32_t s = 0; s < p->step_count; s++) {
        const struct partition *part = &p->steps[s].part;
        if (!made && lists(part->out, part->out_count, value)) {
            made = true;
            *ret_first = s;
            *ret_last = *ret_last > s ? *ret_last : s;
        }
        if (lists(part->in, part->in_count, value) && *ret_last < s) {
            *ret_last = s;
        }
    }
    return made;
}

static void no_two_in_one_place(const struct bucket *b)
{
    const uint32_t count = b->program->g->value_count;
    const char *arena = b->arena;
    for (uint32_t v = 0; v < count; v++) {
        uint32_t first = 0, last = 0;
        const struct rt_value *one = &b->values[v];
        cr_assert(life_of(b, v, &first, &last) || !b->planned[v], "value %u is planned and nobody makes it", v);
        if (!b->planned[v]) {
            continue;
        }
        const char *begin = one->data;
        cr_assert(begin >= arena && begin + one->bytes <= arena + b->arena_bytes, "value %u", v);
        for (uint32_t k = 0; k < v; k++) {
            uint32_t other_first = 0, other_last = 0;
            const char *other = b->values[k].data;
            if (!b->planned[k] || !life_of(b, k, &other_first, &other_last) || other_last < first ||
                last < other_first) {
                continue;
            }
            cr_expect(other + b->values[k].bytes <= begin || begin + one->bytes <= other, "values %u and %u", k, v);
        }
    }
}

static void steps_see_values(const struct bucket *b)
{
    const struct placement *p = b->program->placement;
    for (uint32_t s = 0; s < p->step_count; s++) {
        const struct bucket_step *step = &b->steps[s];
        const struct partition *part = &p->steps[s].part;
        cr_assert(step->placed == &p->steps[s] && step->exec != NULL && !step->on_way);
        for (uint32_t i = 0; i < part->in_count + part->out_count; i++) {
            const bool in = i < part->in_count;
            const struct buffer_view *view = in ? &step->in[i] : &step->out[i - part->in_count];
            const struct rt_value *v = &b->values[in ? part->in[i] : part->out[i - part->in_count]];
            cr_expect(view->data == v->data && view->bytes == v->bytes && view->dtype == v->dtype && v->data != NULL);
            cr_expect(shape_equal(&view->shape, &v->shape) && view->kept == NULL);
        }
        uint32_t needed = p->step_count;
        for (uint32_t later = p->step_count; later-- > s + 1;) {
            for (uint32_t i = 0; i < part->out_count; i++) {
                needed = lists(p->steps[later].part.in, p->steps[later].part.in_count, part->out[i]) ? later : needed;
            }
        }
        cr_expect_eq(step->needed, needed, "step %u", s);
    }
}

static uint64_t execs_bytes(const struct bucket *b)
{
    const struct placement *p = b->program->placement;
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < p->step_count; s++) {
        bytes += p->backends[p->steps[s].backend].ops->exec_bytes(b->steps[s].exec);
    }
    return bytes;
}

Test(buckets, values_that_live_at_the_same_time_lie_apart)
{
    chain_open();
    for (int64_t batch = 1; batch <= 20; batch += 19) {
        const struct bucket *b = bound(batch);
        cr_assert_geq(b->program->placement->step_count, 4u, "%s", pen_model_placement(w.model));
        cr_assert(!b->interpretive && b->window == 1);
        no_two_in_one_place(b);
        steps_see_values(b);
        cr_expect_eq(b->boundary_bytes, (uint64_t)batch * (9 + 1) * sizeof(float), "x and y");
        cr_expect_eq(bucket_bytes(b), b->arena_bytes + b->env->folded_bytes + execs_bytes(b) +
                                          b->program->g->value_count * (sizeof *b->values + sizeof *b->env->facts));
    }
}

static uint64_t booked(void)
{
    uint64_t bytes = w.session->context.arena.own;
    for (const struct runner *r = w.session->context.runners; r != NULL; r = r->next) {
        for (uint32_t i = 0; i < r->bucket_count; i++) {
            cr_expect_eq(r->buckets[i]->booked, bucket_bytes(r->buckets[i]));
            bytes += r->buckets[i]->booked;
        }
    }
    return bytes;
}

/* The batches that have a bucket, as a text of letters: 1 is a. */
static const char *ready(void)
{
    static char text[RUNNER_BUCKETS + 1];
    const struct runner *r = w.session->runner;
    memset(text, 0, sizeof text);
    for (char letter = 'a', *to = text; letter <= 'z'; letter++) {
        for (uint32_t i = 0; i < r->bucket_count; i++) {
            if (r->buckets[i]->in_shapes[0].dim[0] == letter - 'a' + 1) {
                *to++ = letter;
            }
        }
    }
    return text;
}

Test(buckets, sixteen_are_kept_and_the_one_that_was_not_used_for_longest_goes)
{
    chain_open();
    for (int64_t batch = 1; batch <= 16; batch++) {
        bound(batch);
        cr_expect_eq(w.session->context.ledger.bytes, booked(), "batch %lld", (long long)batch);
        cr_expect_eq(pen_session_prepared(w.session), (uint64_t)batch);
    }
    cr_expect_str_eq(ready(), "abcdefghijklmnop");
    bound(1); /* used again */
    bound(17);
    cr_expect_str_eq(ready(), "acdefghijklmnopq");
    bound(3);
    bound(18);
    bound(19);
    cr_expect_str_eq(ready(), "acfghijklmnopqrs");
    cr_expect_eq(w.session->context.ledger.bytes, booked());
    cr_expect_eq(pen_session_prepared(w.session), 19u);
    struct pen_memory memory;
    pen_memory(&memory);
    cr_expect(memory.buckets == 16 && memory.arena_bytes == booked() && memory.sessions == 1 && memory.models == 1);
}

/* Room for some buckets only: others go, never the one whose inputs are being written; what cannot fit at all drops none. */
Test(buckets, memory_decides_which_stay)
{
    chain_open();
    bound(1);
    const uint64_t one = booked();
    bound(2);
    bound(3);
    struct model_ledger *ledger = &w.model->ledger;
    ledger->budget = atomic_load(&ledger->weights_bytes) + booked() + one / 2;
    cr_expect_str_eq(ready(), "abc");
    bound(1);
    bound(4);
    cr_expect(strchr(ready(), 'a') != NULL && strchr(ready(), 'd') != NULL, "%s", ready());
    cr_expect(strchr(ready(), 'b') == NULL, "it was not used for longest: %s", ready());
    cr_expect_leq(w.session->context.ledger.bytes, ledger_limit(&w.session->context.ledger));
    const char *before = strdup(ready());
    const struct pen_tensor giant = written_tensor(PEN_DTYPE_F32, 3, WRITTEN_DIMS(100000, 3, 3), ones, 3600000);
    cr_expect_eq(pen_session_bind(w.session, &giant, 1, &w.error), PEN_ERR_TOO_LARGE);
    cr_expect(strstr(w.error.text, "send smaller inputs, or grant more memory") != NULL, "%s", w.error.text);
    cr_expect_str_eq(ready(), before);
    free((void *)(uintptr_t)before);
    w.session->context.keep_all = true; /* as while warming up */
    const struct pen_tensor more = written_tensor(PEN_DTYPE_F32, 3, WRITTEN_DIMS(9, 3, 3), ones, 9 * 36);
    cr_expect_eq(pen_session_bind(w.session, &more, 1, &w.error), PEN_ERR_TOO_LARGE);
    cr_expect(strstr(w.error.text, "shapes that are to stay ready need at least") != NULL, "%s", w.error.text);
    w.session->context.keep_all = false;
    cr_expect_eq(pen_session_bind(w.session, &more, 1, &w.error), PEN_OK, "%s", w.error.text);
}

Test(buckets, warming_does_as_much_as_the_flag_says)
{
    static const struct {
        enum pen_warmup how;
        uint64_t prepared;
        bool timed, ran;
    } cases[] = {
        {PEN_WARMUP_NONE, 0, false, false}, {PEN_WARMUP_COMPILE, 1, false, false}, {PEN_WARMUP_EXECUTE, 1, true, true}};
    const struct pen_tensor in = written_tensor(PEN_DTYPE_F32, 3, WRITTEN_DIMS(2, 3, 3), NULL, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t prepare_us = 7, run_us = 7;
        chain_open_warm(cases[i].how);
        pen_session_profile(w.session, true);
        cr_assert_eq(pen_session_warm(w.session, &in, 1, &prepare_us, &run_us, &w.error), PEN_OK, "%s", w.error.text);
        cr_expect_eq(pen_session_prepared(w.session), cases[i].prepared, "case %zu", i);
        cr_expect(cases[i].timed ? run_us > 0 && prepare_us < 60000000 : run_us == 0 && prepare_us == 0, "case %zu", i);
        size_t rows = 0;
        pen_session_profile_rows(w.session, &rows);
        cr_expect_eq(rows > 0, cases[i].ran, "case %zu", i);
        cr_expect(!w.session->context.keep_all);
        cr_assert_eq(pen_session_warm(w.session, &in, 1, NULL, NULL, &w.error), PEN_OK);
        if (i + 1 < sizeof cases / sizeof *cases) {
            end();
        }
    }
}
