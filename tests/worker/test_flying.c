/*
 * Dispatches that fly: the engine's submit and await are replaced (--wrap) by a device of the test's own, which takes three runs, ends them in order and says
 * when. Without a GPU; test_flights.c has a real device.
 */
#include "one_slot.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slot_internal.h"
#include "vitals.h"

enum { WINDOW = 3 };

/* A run on the device: it was computed when it was submitted, its outputs are told when it is awaited. */
struct run {
    enum pen_status status;
    struct pen_error error;
    struct pen_tensor outputs[2];
    size_t count;
    const struct pen_stop *stop;
};

static struct run runs[WINDOW];
static size_t running, capacity = WINDOW;
static size_t looks_when_full;     /* awaits that would not wait, while the device takes no more */
static size_t slow;                /* awaits with a time-out that still find the device at work */
static enum pen_status next_fails; /* the next run that is submitted ends so */
static struct job *cancels;        /* when the next run is submitted */

uint32_t __wrap_pen_session_window(const struct pen_session *session);
enum pen_status __wrap_pen_session_submit(struct pen_session *session, const struct pen_stop *stop,
                                          struct pen_error *reterr);
enum pen_status __wrap_pen_session_await(struct pen_session *session, uint64_t timeout_us,
                                         const struct pen_tensor **ret_outputs, size_t *ret_count,
                                         struct pen_error *reterr);

uint32_t __wrap_pen_session_window(const struct pen_session *session)
{
    (void)session;
    return WINDOW;
}

static void outputs_keep(struct run *run, const struct pen_tensor *outputs, size_t count)
{
    run->count = count;
    for (size_t i = 0; i < count; i++) {
        void *copy = malloc(outputs[i].bytes + 1);
        memcpy(copy, outputs[i].data, outputs[i].bytes);
        run->outputs[i] = outputs[i];
        run->outputs[i].data = copy;
    }
}

enum pen_status __wrap_pen_session_submit(struct pen_session *session, const struct pen_stop *stop,
                                          struct pen_error *reterr)
{
    const struct pen_tensor *outputs = NULL;
    size_t count = 0;
    (void)reterr;
    if (running == capacity)
        return PEN_ERR_BUSY;
    struct run *run = &runs[running++];
    *run = (struct run){.stop = stop};
    run->status = pen_session_run_bound(session, NULL, &outputs, &count, &run->error);
    if (run->status == PEN_OK)
        outputs_keep(run, outputs, count);
    if (next_fails != PEN_OK)
        run->status = pen_error_set(&run->error, next_fails, "the device says no");
    next_fails = PEN_OK;
    if (cancels)
        slot_cancel(one_slot, cancels);
    cancels = NULL;
    return PEN_OK;
}

enum pen_status __wrap_pen_session_await(struct pen_session *session, uint64_t timeout_us,
                                         const struct pen_tensor **ret_outputs, size_t *ret_count,
                                         struct pen_error *reterr)
{
    static struct run ended;
    (void)session;
    looks_when_full += running == WINDOW && timeout_us != UINT64_MAX;
    if (slow > 0 && timeout_us != UINT64_MAX) {
        slow--;
        return PEN_ERR_TIMEOUT;
    }
    cr_assert(running > 0);
    for (size_t i = 0; i < ended.count; i++)
        free((void *)(uintptr_t)ended.outputs[i].data);
    ended = runs[0];
    memmove(runs, runs + 1, --running * sizeof *runs);
    *ret_outputs = ended.outputs;
    *ret_count = ended.count;
    *reterr = ended.error;
    return ended.status;
}

/* "plain" is -a, "table" looks rows up and fails where there is no such row, "places" tells where its rows are not zero. */
static void setup(void)
{
    static const int64_t at_dims[] = {-1, 1}, table_dims[] = {3, 2}, out[] = {-1, 1, 2}, dims[] = {-1, 2},
                         open[] = {-1, -1};
    static const float table[] = {1, 2, 3, 4, 5, 6};
    struct onnx_writer *g = onnx_writer_new("table"), *s = onnx_writer_new("places");
    onnx_writer_constant(g, "table", PEN_DTYPE_F32, 2, table_dims, table, sizeof table);
    onnx_writer_input(g, "at", PEN_DTYPE_I64, 2, at_dims, NULL);
    onnx_writer_node(g, "Gather", ONNX_LIST("table", "at"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 3, out, NULL);
    onnx_writer_input(s, "a", PEN_DTYPE_F32, 2, dims, NULL);
    onnx_writer_node(s, "NonZero", ONNX_LIST("a"), ONNX_LIST("at"), NULL);
    onnx_writer_node(s, "Transpose", ONNX_LIST("at"), ONNX_LIST("places"), NULL);
    onnx_writer_node(s, "Cast", ONNX_LIST("places"), ONNX_LIST("y"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "to", .i = PEN_DTYPE_F32}, {0}});
    onnx_writer_output(s, "y", PEN_DTYPE_F32, 2, open, NULL);
    cr_redirect_stderr();
    one_slot_setup();
    one_slot_put("plain", one_slot_graph("Neg", "a", NULL, "c"), "{\"max_batch_size\":4}");
    one_slot_put("table", g, "{\"max_batch_size\":4}");
    one_slot_put("places", s, "{\"max_batch_size\":4}");
    one_slot_start();
    one_slot_forget();
}

TestSuite(flying, .init = setup, .fini = one_slot_teardown, .timeout = 60);

static const float values[] = {1, 2, 3, 4, 5, 6, 7, 8};

/* A job of "plain" on the value at `from`. */
static struct one_job plain(const struct pen_tensor *in)
{
    return (struct one_job){.model = "plain", .inputs = in, .inputs_count = 1};
}

static struct dispatch *begin_plain(size_t first, size_t from)
{
    const struct pen_tensor in = one_slot_rows("a", 1, values + from);
    const struct one_job job = plain(&in);
    struct dispatch *dispatch = one_slot_dispatch(&job, 1, first);
    slot_dispatch_begin(one_slot, dispatch);
    return dispatch;
}

static struct dispatch *begin_table(size_t first, const int64_t *places, size_t count)
{
    struct pen_tensor in[4];
    struct one_job jobs[4];
    for (size_t i = 0; i < count; i++) {
        in[i] = (struct pen_tensor){
            .name = "at", .dtype = PEN_DTYPE_I64, .rank = 2, .dims = {1, 1}, .data = &places[i], .bytes = 8};
        jobs[i] = (struct one_job){.model = "table", .inputs = &in[i], .inputs_count = 1};
    }
    struct dispatch *dispatch = one_slot_dispatch(jobs, count, first);
    slot_dispatch_begin(one_slot, dispatch);
    return dispatch;
}

Test(flying, as_many_fly_as_the_device_takes)
{
    cr_assert(slot_flight_room(one_slot));
    for (size_t i = 0; i < WINDOW; i++) {
        cr_assert(slot_flight_room(one_slot), "%zu fly", i);
        begin_plain(i, 2 * i);
        cr_assert(one_slot->flying == i + 1 && running == i + 1);
    }
    cr_assert(!slot_flight_room(one_slot));
    cr_assert(one_slot_collect() == 0, "nothing has ended");
    cr_assert(atomic_load(&one_slot_stats.runs_ahead) == 2 && atomic_load(&one_slot_stats.batches) == 0);
    for (size_t i = 0; i < WINDOW; i++) {
        slot_flight_land(one_slot);
        cr_assert(one_slot_collect() == 1 && one_slot->flying == WINDOW - 1 - i);
        one_slot_gave(i, "c", 1, ONE_SLOT_FLOATS(-values[2 * i], -values[2 * i + 1]));
        cr_assert(slot_flight_room(one_slot));
    }
    cr_assert(atomic_load(&one_slot_stats.batches) == WINDOW && atomic_load(&one_slot_stats.jobs_done) == WINDOW);
}

Test(flying, a_batch_is_filled_up_to_a_size_that_is_ready)
{
    struct served *served = catalog_find(&one_slot_catalog, "plain", 0);
    const struct pen_tensor in = one_slot_rows("a", 3, values);
    const struct one_job job = plain(&in);
    cr_assert(served->warm_count == 2 && served->warm[1].batch == 4);
    served->warm[1].cold_us = 1000000000; /* so dear that the size of 3 is not made ready for this one job */
    slot_dispatch_begin(one_slot, one_slot_dispatch(&job, 1, 0));
    slot_flight_land(one_slot);
    cr_assert(one_slot_collect() == 1);
    one_slot_gave(0, "c", 3, ONE_SLOT_FLOATS(-1, -2, -3, -4, -5, -6));
    cr_assert(atomic_load(&one_slot_stats.rows_filled) == 1 && atomic_load(&one_slot_stats.prepared) == 0);
    one_slot_forget();
    slot_run(one_slot, one_slot_dispatch(&job, 1, 0));
    cr_assert(one_slot_collect() == 1 && atomic_load(&one_slot_stats.rows_filled) == 2);
}

Test(flying, a_look_does_not_wait)
{
    begin_plain(0, 0);
    slow = 2;
    cr_assert(!slot_flight_look(one_slot) && !slot_flight_look(one_slot) && one_slot->flying == 1);
    cr_assert(one_slot_collect() == 0);
    cr_assert(slot_flight_look(one_slot) && one_slot->flying == 0 && one_slot_collect() == 1);
    one_slot_gave(0, "c", 1, ONE_SLOT_FLOATS(-1, -2));
}

Test(flying, what_flies_is_what_others_see)
{
    struct slot_running seen;
    slot_running(one_slot, &seen);
    cr_assert(!seen.busy && seen.outside_us == 0);
    begin_plain(0, 0);
    begin_plain(1, 2);
    slot_running(one_slot, &seen);
    cr_assert(seen.busy && seen.job.sequence == 1 && seen.started_us > 0);
    cr_assert_str_eq(seen.model, "plain");
    uint64_t first_us = seen.started_us;
    usleep(2000);
    slot_flight_land(one_slot);
    slot_running(one_slot, &seen);
    cr_assert(seen.busy && seen.job.sequence == 2);
    cr_assert(seen.started_us >= first_us + 2000, "it has the device since the first has landed");
    slot_flight_land(one_slot);
    slot_running(one_slot, &seen);
    cr_assert(!seen.busy && seen.outside_us == 0);
    cr_assert(one_slot_collect() == 2);
}

Test(flying, a_heartbeat_tells_the_age_of_the_oldest_run)
{
    struct slot_running seen;
    Penstock__Heartbeat beat;
    struct vitals vitals = {.stats = &one_slot_stats,
                            .catalog = &one_slot_catalog,
                            .handoff = one_slot_handoff,
                            .slots = &one_slot,
                            .slots_count = 1};
    begin_plain(0, 0);
    slot_running(one_slot, &seen);
    vitals_fill(&vitals, seen.started_us + 7000000, &beat);
    cr_assert(beat.slots_busy == 1 && beat.oldest_running_us == 7000000);
    vitals_fill(&vitals, seen.started_us - 1, &beat);
    cr_assert(beat.slots_busy == 1 && beat.oldest_running_us == 0, "it has just begun");
    slot_flight_land(one_slot);
    vitals_fill(&vitals, seen.started_us + 7000000, &beat);
    cr_assert(beat.slots_busy == 0 && beat.oldest_running_us == 0 && one_slot_collect() == 1);
}

Test(flying, a_cancel_counts_while_it_flies)
{
    struct dispatch *first = begin_plain(0, 0);
    begin_plain(1, 2);
    slot_cancel(one_slot, &first->jobs[0]);
    slot_flight_land(one_slot);
    slot_flight_land(one_slot);
    cr_assert(one_slot_collect() == 2);
    one_slot_refused(0, PEN_ERR_CANCELLED, "cancelled while it ran");
    one_slot_gave(1, "c", 1, ONE_SLOT_FLOATS(-3, -4));
    cr_assert(atomic_load(&one_slot_stats.jobs_cancelled) == 1);
}

Test(flying, a_run_that_was_stopped_is_not_run_again)
{
    const struct pen_tensor in = one_slot_rows("a", 1, values);
    const struct one_job jobs[] = {plain(&in), plain(&in)};
    next_fails = PEN_ERR_DEADLINE;
    slot_dispatch_begin(one_slot, one_slot_dispatch(jobs, 2, 0));
    slot_flight_land(one_slot);
    cr_assert(one_slot_collect() == 1);
    one_slot_refused(0, PEN_ERR_DEADLINE, "the device says no");
    one_slot_refused(1, PEN_ERR_DEADLINE, "");
    cr_assert(atomic_load(&one_slot_stats.batches) == 1);
}

Test(flying, a_job_that_fails_alone_gets_the_devices_word)
{
    next_fails = PEN_ERR_INVALID;
    begin_plain(0, 0);
    begin_plain(1, 2);
    slot_flight_land(one_slot);
    slot_flight_land(one_slot);
    cr_assert(one_slot_collect() == 2);
    one_slot_refused(0, PEN_ERR_INVALID, "the device says no");
    one_slot_gave(1, "c", 1, ONE_SLOT_FLOATS(-3, -4));
}

/* What is lost is the device, not the job. */
Test(flying, a_job_whose_device_was_lost_runs_again_when_nothing_flies)
{
    next_fails = PEN_ERR_DEVICE_LOST;
    begin_plain(0, 0);
    begin_plain(1, 2);
    slot_flight_land(one_slot);
    cr_assert(one_slot_collect() == 0 && one_slot->again == 1, "another one flies");
    slot_flight_land(one_slot);
    cr_assert(one_slot_collect() == 2 && one_slot->again == 0);
    one_slot_gave(0, "c", 1, ONE_SLOT_FLOATS(-1, -2));
    one_slot_gave(1, "c", 1, ONE_SLOT_FLOATS(-3, -4));
}

Test(flying, a_batch_that_fails_runs_again_when_nothing_flies)
{
    static const int64_t places[] = {2, 9, 0};
    begin_table(0, places, 3);
    begin_plain(3, 0);
    slot_flight_land(one_slot);
    cr_assert(one_slot_collect() == 0 && one_slot->again == 1, "another one flies");
    cr_assert(!slot_flight_room(one_slot), "and no more may");
    slot_flight_land(one_slot);
    cr_assert(one_slot_collect() == 2 && one_slot->again == 0 && one_slot->flying == 0);
    cr_assert(one_slot_answers[0].status == PEN_OK && one_slot_answers[0].outputs[0].values[1] == 6);
    cr_assert(one_slot_answers[1].status != PEN_OK);
    cr_assert(one_slot_answers[2].status == PEN_OK && one_slot_answers[2].outputs[0].values[0] == 1);
    one_slot_gave(3, "c", 1, ONE_SLOT_FLOATS(-1, -2));
    cr_assert(slot_flight_room(one_slot));
}

/* A row may have more than one place, so that they cannot be cut into jobs. */
Test(flying, outputs_that_cannot_be_cut_make_the_jobs_run_alone)
{
    const struct pen_tensor in[] = {one_slot_rows("a", 1, values), one_slot_rows("a", 1, values + 2)};
    const struct one_job jobs[] = {{.model = "places", .inputs = &in[0], .inputs_count = 1},
                                   {.model = "places", .inputs = &in[1], .inputs_count = 1}};
    slot_dispatch_begin(one_slot, one_slot_dispatch(jobs, 2, 0));
    slot_flight_land(one_slot);
    cr_assert(one_slot_collect() == 1);
    for (size_t i = 0; i < 2; i++)
        one_slot_gave(i, "y", 2, ONE_SLOT_FLOATS(0, 0, 0, 1));
}

Test(flying, what_cannot_fly_waits_until_nothing_does)
{
    static const float other[] = {5, 6};
    const struct pen_tensor a = one_slot_rows("a", 1, values), b = one_slot_rows("a", 1, other);
    const int64_t place = 1;
    const struct pen_tensor at = {
        .name = "at", .dtype = PEN_DTYPE_I64, .rank = 2, .dims = {1, 1}, .data = &place, .bytes = 8};
    const struct one_job mixed[] = {plain(&a), {.model = "table", .inputs = &at, .inputs_count = 1}};
    struct one_job traced = plain(&b);
    begin_plain(0, 0);
    slot_dispatch_begin(one_slot, one_slot_dispatch(mixed, 2, 1)); /* two models: two batches */
    cr_assert(one_slot->flying == 0 && one_slot_collect() == 2);
    one_slot_gave(0, "c", 1, ONE_SLOT_FLOATS(-1, -2));
    one_slot_gave(1, "c", 1, ONE_SLOT_FLOATS(-1, -2));
    cr_assert(one_slot_answers[2].status == PEN_OK && one_slot_answers[2].outputs[0].values[0] == 3);
    begin_plain(3, 2);
    traced.trace = 2;
    slot_dispatch_begin(one_slot, one_slot_dispatch(&traced, 1, 4));
    cr_assert(one_slot->flying == 0 && one_slot_collect() == 2 && one_slot_answers[4].layers > 0);
}

Test(flying, a_device_that_takes_fewer_lets_the_oldest_land)
{
    capacity = 2;
    for (size_t i = 0; i < WINDOW; i++)
        begin_plain(i, 2 * i);
    cr_assert(one_slot->flying == 2 && one_slot_collect() == 1);
    one_slot_gave(0, "c", 1, ONE_SLOT_FLOATS(-1, -2));
    while (one_slot->flying > 0)
        slot_flight_land(one_slot);
    cr_assert(one_slot_collect() == 2);
    one_slot_gave(1, "c", 1, ONE_SLOT_FLOATS(-3, -4));
    one_slot_gave(2, "c", 1, ONE_SLOT_FLOATS(-5, -6));
}

Test(flying, jobs_that_must_not_start_do_not_fly)
{
    const struct pen_tensor in = one_slot_rows("a", 1, values);
    struct one_job jobs[] = {plain(&in), plain(&in)};
    jobs[0].cancelled = true;
    slot_dispatch_begin(one_slot, one_slot_dispatch(jobs, 2, 0));
    cr_assert(one_slot->flying == 1 && running == 1);
    slot_flight_land(one_slot);
    jobs[1].cancelled = true;
    slot_dispatch_begin(one_slot, one_slot_dispatch(jobs, 2, 2));
    cr_assert(one_slot->flying == 0 && running == 0 && one_slot_collect() == 2);
    cr_assert(one_slot_answers[0].status == PEN_ERR_CANCELLED && one_slot_answers[1].status == PEN_OK);
    cr_assert(one_slot_answers[2].status == PEN_ERR_CANCELLED && one_slot_answers[3].status == PEN_ERR_CANCELLED);
    cr_assert(one_slot_answers[1].batch_size == 1);
}

Test(flying, a_slots_thread_flies_and_lands_all)
{
    const struct pen_tensor in = one_slot_rows("a", 1, values);
    const struct one_job job = plain(&in);
    size_t finished = 0;
    slow = 5;
    cr_assert(slot_start(one_slot, &one_slot_error) == PEN_OK);
    for (size_t i = 0; i < ONE_SLOT_JOBS; i++)
        handoff_push(one_slot_handoff, one_slot_dispatch(&job, 1, i));
    for (int i = 0; i < 20000 && finished < ONE_SLOT_JOBS; i++, usleep(500))
        finished += one_slot_collect();
    handoff_close(one_slot_handoff);
    slot_join(one_slot);
    finished += one_slot_collect();
    cr_assert(finished == ONE_SLOT_JOBS);
    for (size_t i = 0; i < ONE_SLOT_JOBS; i++) {
        cr_assert(one_slot_answers[i].times == 1);
        one_slot_gave(i, "c", 1, ONE_SLOT_FLOATS(-1, -2));
    }
    cr_assert(atomic_load(&one_slot_stats.runs_ahead) > 0 && slow == 0);
}

/* A slot whose device takes no more waits for the oldest run; it does not look again and again. */
Test(flying, a_slot_waits_for_a_device_that_is_full)
{
    size_t ended = 0;
    for (size_t i = 0; i < WINDOW; i++) {
        const struct pen_tensor in = one_slot_rows("a", 1, values + 2 * i);
        const struct one_job job = plain(&in);
        handoff_push(one_slot_handoff, one_slot_dispatch(&job, 1, i));
    }
    cr_assert_eq(slot_start(one_slot, &one_slot_error), PEN_OK, "%s", one_slot_error.text);
    for (int i = 0; i < 20000 && ended < WINDOW; i++) {
        ended += one_slot_collect();
        usleep(1000);
    }
    handoff_close(one_slot_handoff);
    slot_join(one_slot);
    cr_expect_eq(ended, (size_t)WINDOW);
    cr_expect_eq(looks_when_full, 0u);
    for (size_t i = 0; i < WINDOW; i++)
        one_slot_gave(i, "c", 1, ONE_SLOT_FLOATS(-values[2 * i], -values[2 * i + 1]));
}
