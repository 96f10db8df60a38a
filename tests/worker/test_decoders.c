/* Dispatches on their way to the slots: those with files of pictures pass by the threads that decode them, job by job, the others go straight on. */
#include "decoders.h"
#include "one_slot.h"
#include "pictures.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <sched.h>
#include <string.h>

#include "deadline.h"

#define FILE_BYTES 70u /* a BMP of 2 x 2 pixels */
#define HOUR_US    UINT64_C(3600000000)

static struct decoders *decoders;
static struct stats stats;
static struct handoff *queue;
static uint8_t file[FILE_BYTES];

#define EYE                                                                                                            \
    "{\"max_batch_size\":4,\"dynamic_batching\":{\"max_queue_delay_microseconds\":1000},"                              \
    "\"picture\":{\"steps\":[{\"crop\":{\"width\":2,\"height\":2}}]}}"

static void begin(void)
{
    static const int64_t dims[] = {-1, 2, 2, 3};
    const struct decoders_context context = {
        .catalog = &one_slot_catalog, .stats = &stats, .threads = 2, .limit_bytes = 1u << 20};
    struct decoders_context whole = context;
    struct onnx_writer *g = onnx_writer_new("eye");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 4, dims, NULL);
    onnx_writer_node(g, "Neg", ONNX_LIST("x"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 4, dims, NULL);
    cr_redirect_stderr();
    one_slot_setup();
    one_slot_put("eye", g, EYE);
    one_slot_put("neg", one_slot_graph("Neg", "a", NULL, "c"), "{\"max_batch_size\":4}");
    one_slot_start();
    memset(&stats, 0, sizeof stats);
    whole.handoff = queue = handoff_new(0);
    decoders = decoders_new(&whole);
    cr_assert(queue && decoders);
    memcpy(file, (const uint8_t[]){'B', 'M', [10] = 54, [14] = 40, [18] = 2, [22] = 2, [26] = 1, [28] = 24}, 29);
}

static void end(void)
{
    decoders_free(decoders);
    handoff_free(queue);
    one_slot_teardown();
}

TestSuite(decoders, .init = begin, .fini = end, .timeout = 30);

static struct pen_tensor photo(void)
{
    return (struct pen_tensor){
        .name = "x", .dtype = PEN_DTYPE_U8, .rank = 1, .dims = {FILE_BYTES}, .data = file, .bytes = FILE_BYTES};
}

/* The dispatch of these jobs, of model "eye" with a file each. */
static struct dispatch *photos(size_t count, struct one_job like)
{
    static struct pen_tensor input;
    struct one_job jobs[4];
    input = photo();
    for (size_t i = 0; i < count; i++) {
        jobs[i] = like;
        jobs[i].model = like.model ? like.model : "eye";
        jobs[i].inputs = &input;
        jobs[i].inputs_count = 1;
    }
    struct dispatch *dispatch = one_slot_dispatch(jobs, count, 0);
    for (size_t i = 0; i < count; i++)
        dispatch->jobs[i].env.priority = 1;
    return dispatch;
}

/* The only part of a dispatch of one job, decoded. */
static const struct dispatch *part_of(struct dispatch *dispatch)
{
    decoders_pass(decoders, dispatch);
    const struct dispatch *part = handoff_take(queue);
    cr_assert(part == &dispatch->parts[0] && part->whole == dispatch && part->jobs == dispatch->jobs);
    return part;
}

Test(decoders, jobs_without_files_go_straight_to_the_slots)
{
    const struct pen_tensor plain = one_slot_rows("a", 1, ONE_SLOT_FLOATS(1, 2));
    struct dispatch *dispatch =
        one_slot_dispatch(&(struct one_job){.model = "neg", .inputs = &plain, .inputs_count = 1}, 1, 0);
    decoders_pass(decoders, dispatch);
    cr_expect(handoff_poll(queue) == dispatch && !dispatch->parts && decoders_waiting(decoders) == 0);
    dispatch_free(dispatch);
    atomic_store(&one_slot_catalog.files_taken, false);
    dispatch = photos(1, (struct one_job){.version = 0});
    decoders_pass(decoders, dispatch);
    cr_expect(handoff_poll(queue) == dispatch && !dispatch->parts, "no model takes files");
    dispatch_free(dispatch);
    cr_expect_eq(decoders_waiting(NULL), 0);
}

Test(decoders, a_file_is_decoded_before_a_slot_has_it)
{
    struct dispatch *dispatch = photos(1, (struct one_job){.deadline_us = 0});
    uint64_t before_us = clock_now_us();
    const struct dispatch *part = part_of(dispatch);
    const struct pictures *pictures = dispatch->jobs[0].pictures;
    cr_assert(pictures && pictures->status == PEN_OK && pictures->rows == 1, "%s", pictures ? pictures->text : "");
    cr_expect(pictures->bytes > 0 && pictures->held && atomic_load(pictures->held) == pictures->bytes);
    cr_expect_eq(atomic_load(&stats.pictures), 1);
    cr_expect_eq(atomic_load(&stats.decode_us), pictures->took_us);
    const struct joining *joining = &part->joining;
    const struct served *eye = catalog_find(&one_slot_catalog, "eye", 0);
    cr_expect(joining->rows == 1 && joining->rows_most >= 1 && joining->rows_most <= 4);
    cr_expect(joining->link == dispatch->link && joining->model_hash == dispatch->jobs[0].env.model_hash);
    cr_expect(digest_equal(joining->model, eye->digest));
    cr_expect(joining->ready_us >= before_us && joining->until_us == joining->ready_us + 1000);
    cr_expect(atomic_load(&eye->users) == 0 && decoders_waiting(decoders) == 0);
    dispatch_free(dispatch);
}

Test(decoders, each_job_of_a_dispatch_goes_on_by_itself)
{
    struct dispatch *dispatch = photos(4, (struct one_job){.version = 1});
    bool came[4] = {false};
    decoders_pass(decoders, dispatch);
    for (size_t i = 0; i < 4; i++) {
        const struct dispatch *part = handoff_take(queue);
        for (const struct dispatch *next; part; part = next, i += part != NULL) {
            size_t place = (size_t)(part - dispatch->parts);
            next = part->queue_next;
            cr_assert(place < 4 && !came[place]);
            came[place] = true;
            cr_expect(dispatch->jobs[place].pictures && part->jobs == &dispatch->jobs[place]);
        }
    }
    cr_expect(came[0] && came[1] && came[2] && came[3]);
    cr_expect_eq(atomic_load(&stats.pictures), 4);
    dispatch_free(dispatch);
}

/* A job that cannot run with others: its slot finds out what it is. */
static void joins_nobody(struct dispatch *dispatch, bool decoded)
{
    const struct dispatch *part = part_of(dispatch);
    cr_expect_eq(part->joining.rows, 0);
    cr_expect_eq(dispatch->jobs[0].pictures != NULL, decoded);
    dispatch_free(dispatch);
}

Test(decoders, what_cannot_be_decoded_goes_on_as_it_is)
{
    struct dispatch *dispatch = photos(1, (struct one_job){.deadline_us = 1});
    dispatch->jobs[0].deadline_us = 1;
    joins_nobody(dispatch, false);
    dispatch = photos(1, (struct one_job){.version = 1});
    atomic_store(&dispatch->jobs[0].state, JOB_ANSWERED);
    joins_nobody(dispatch, false);
    joins_nobody(photos(1, (struct one_job){.model = "nobody"}), false);
    joins_nobody(photos(1, (struct one_job){.version = 9}), false);
    joins_nobody(photos(1, (struct one_job){.model = "neg"}), false);
    cr_expect_eq(atomic_load(&stats.pictures), 0);
    joins_nobody(photos(1, (struct one_job){.debug = true}), true);
    file[0] = 'X';
    dispatch = photos(1, (struct one_job){.version = 1});
    const struct dispatch *part = part_of(dispatch);
    cr_expect_eq(part->joining.rows, 0);
    cr_expect(dispatch->jobs[0].pictures && dispatch->jobs[0].pictures->status != PEN_OK);
    dispatch_free(dispatch);
    struct served *eye = catalog_find(&one_slot_catalog, "eye", 0);
    file[0] = 'B';
    eye->max_batch_size = 1;
    joins_nobody(photos(1, (struct one_job){.version = 1}), true);
    cr_expect_eq(atomic_load(&eye->users), 0);
}

/* Whose deadline is near waits for nobody. */
Test(decoders, a_job_waits_for_others_while_its_deadline_allows_it)
{
    static const struct {
        uint64_t left_us;
        bool waits;
    } cases[] = {{HOUR_US, true}, {500, false}};
    for (size_t i = 0; i < 2; i++) {
        struct dispatch *dispatch = photos(1, (struct one_job){.version = 1});
        struct served *eye = catalog_find(&one_slot_catalog, "eye", 0);
        eye->config.max_queue_delay_us = cases[i].waits ? HOUR_US / 1000 : HOUR_US;
        dispatch->jobs[0].deadline_us = clock_now_us() + HOUR_US;
        decoders_pass(decoders, dispatch);
        while (decoders_waiting(decoders) > 0)
            sched_yield();
        const struct joining *joining = &dispatch->parts[0].joining;
        cr_expect_eq(joining->until_us - joining->ready_us, cases[i].waits ? HOUR_US / 1000 : 0);
        handoff_free(queue);
        dispatch_free(dispatch); /* its pictures count among those of the decoders */
        decoders_free(decoders);
        queue = handoff_new(0);
        decoders = decoders_new(&(struct decoders_context){
            .catalog = &one_slot_catalog, .handoff = queue, .stats = &stats, .threads = 1, .limit_bytes = 1u << 20});
    }
}

Test(decoders, decoded_pictures_of_all_jobs_have_a_limit)
{
    decoders_free(decoders);
    decoders = decoders_new(&(struct decoders_context){
        .catalog = &one_slot_catalog, .handoff = queue, .stats = &stats, .threads = 1, .limit_bytes = 1});
    struct dispatch *dispatch = photos(1, (struct one_job){.version = 1});
    part_of(dispatch);
    cr_assert(dispatch->jobs[0].pictures);
    cr_expect_eq(dispatch->jobs[0].pictures->status, PEN_ERR_BUSY);
    dispatch_free(dispatch);
}
