/* Which jobs share a batch, what is refused, and how outputs come apart. */
#include "gather.h"

#include <criterion/criterion.h>
#include <string.h>

static struct pen_tensor signature[2] = {
    {.name = "image", .dtype = PEN_DTYPE_U8, .rank = 3, .dims = {-1, 4, -1}},
    {.name = "flag", .dtype = PEN_DTYPE_I32, .rank = 1, .dims = {-1}},
};
static struct pen_tensor results[2] = {
    {.name = "scores", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {-1, 3}},
    {.name = "box", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {-1, 1}},
};
static struct served model = {.name = "m",
                              .inputs = signature,
                              .network_inputs = signature,
                              .inputs_count = 2,
                              .outputs = results,
                              .outputs_count = 2,
                              .max_batch_size = 8,
                              .pixels_input = -1};

static struct pen_tensor image(int64_t rows, int64_t width)
{
    return (struct pen_tensor){.name = "image", .dtype = PEN_DTYPE_U8, .rank = 3, .dims = {rows, 4, width}};
}

static struct pen_tensor flag(int64_t rows)
{
    return (struct pen_tensor){.name = "flag", .dtype = PEN_DTYPE_I32, .rank = 1, .dims = {rows}};
}

static void refuses(struct pen_tensor a, struct pen_tensor b, size_t count, enum pen_status status, const char *part)
{
    struct pen_tensor given[2] = {a, b}, inputs[2];
    struct pen_error error = {0};
    uint32_t rows = 0;
    enum pen_status got = task_match_inputs(&model, given, count, inputs, &rows, &error);
    cr_expect(got == status, "%s instead of %s: %s", pen_status_name(got), pen_status_name(status), error.text);
    cr_expect(strstr(error.text, part), "'%s' lacks '%s'", error.text, part);
}

Test(task, inputs_are_matched_by_name_in_any_order)
{
    struct pen_tensor given[2] = {flag(3), image(3, 9)}, inputs[2];
    uint32_t rows = 0;
    cr_assert(task_match_inputs(&model, given, 2, inputs, &rows, NULL) == PEN_OK);
    cr_expect(rows == 3 && strcmp(inputs[0].name, "image") == 0 && inputs[0].dims[2] == 9);
}

Test(task, every_misfit_is_typed_and_names_the_input)
{
    struct pen_tensor f32 = image(1, 1), flat = image(1, 1), other = image(1, 1), tall = image(1, 1);
    f32.dtype = PEN_DTYPE_F32;
    flat.rank = 2;
    other.name = "picture";
    tall.dims[1] = 5;
    refuses(f32, flag(1), 2, PEN_ERR_DTYPE, "input 'image' is f32, model 'm' takes u8");
    refuses(flat, flag(1), 2, PEN_ERR_SHAPE, "input 'image' is 1x4, model 'm' takes ?x4x?");
    refuses(tall, flag(1), 2, PEN_ERR_SHAPE, "input 'image' is 1x5x1");
    refuses(other, flag(1), 2, PEN_ERR_NOT_FOUND, "model 'm' has no input 'picture'");
    refuses(image(1, 1), flag(1), 1, PEN_ERR_NOT_FOUND, "input 'flag' of model 'm' is missing");
    refuses(image(0, 1), flag(0), 2, PEN_ERR_SHAPE, "has 0 rows, model 'm' takes 1 to 8");
    refuses(image(9, 1), flag(9), 2, PEN_ERR_SHAPE, "has 9 rows");
    refuses(image(2, 1), flag(3), 2, PEN_ERR_SHAPE, "input 'flag' has 3 rows, another input has 2");
}

static struct pen_tensor tensors[64][2];

static void task_make(struct task *task, size_t index, int64_t rows, int64_t width)
{
    tensors[index][0] = image(rows, width);
    tensors[index][1] = flag(rows);
    *task = (struct task){.served = &model, .inputs = tensors[index], .rows = (uint32_t)rows, .outputs = UINT64_MAX};
}

Test(gather, batches_hold_equal_shapes_up_to_the_maximum)
{
    struct task tasks[6];
    struct batch batch;
    const int64_t rows[] = {3, 3, 1, 3, 2, 8}, widths[] = {5, 5, 6, 5, 5, 5};
    for (size_t i = 0; i < 6; i++)
        task_make(&tasks[i], i, rows[i], widths[i]);
    cr_assert(gather_compose(tasks, 6, &batch));
    cr_expect(batch.count == 3 && batch.rows == 8 && batch.tasks[0] == &tasks[0] && batch.tasks[1] == &tasks[1] &&
              batch.tasks[2] == &tasks[4]);
    cr_assert(gather_compose(tasks, 6, &batch));
    cr_expect(batch.count == 1 && batch.tasks[0] == &tasks[2]);
    cr_assert(gather_compose(tasks, 6, &batch));
    cr_expect(batch.count == 1 && batch.tasks[0] == &tasks[3]);
    cr_assert(gather_compose(tasks, 6, &batch));
    cr_expect(batch.count == 1 && batch.tasks[0] == &tasks[5]);
    cr_expect(!gather_compose(tasks, 6, &batch), "none is left, none came twice");
}

/* Pixels come as [n, height, width, channels], whatever the network takes. */
Test(gather, pixels_have_the_shape_that_the_network_takes)
{
    static struct pen_tensor network[1] = {
        {.name = "image", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {-1, -1, -1, -1}}};
    static struct served pixels = {.name = "p",
                                   .network_inputs = network,
                                   .inputs_count = 1,
                                   .max_batch_size = 8,
                                   .preprocess = {.channels = 3, .height = 4, .width = 5}};
    struct task task = {.rows = 2};
    struct batch batch = {.served = &pixels, .count = 1, .rows = 2, .bound = 6};
    struct pen_tensor shape;
    batch.tasks[0] = &task;
    struct pen_tensor sent = {.name = "image", .dtype = PEN_DTYPE_U8, .rank = 4, .dims = {2, 4, 5, 3}};
    task.inputs = &sent;
    gather_shapes(&batch, &shape);
    cr_expect(shape.rank == 4 && shape.dtype == PEN_DTYPE_F32 && !shape.data && shape.bytes == 0);
    cr_expect(shape.dims[0] == 6 && shape.dims[1] == 3 && shape.dims[2] == 4 && shape.dims[3] == 5, "planes");
    pixels.preprocess.nhwc = true;
    gather_shapes(&batch, &shape);
    cr_expect(shape.dims[0] == 6 && shape.dims[1] == 4 && shape.dims[2] == 5 && shape.dims[3] == 3);
    pixels.max_batch_size = 0;
    gather_shapes(&batch, &shape);
    cr_expect_eq(shape.dims[0], 2, "no batch: the job's own rows");
}

Test(gather, models_without_a_batch_run_one_by_one)
{
    struct served single = model;
    struct task tasks[2];
    struct batch batch;
    single.max_batch_size = 0;
    for (size_t i = 0; i < 2; i++) {
        task_make(&tasks[i], i, 1, 5);
        tasks[i].served = &single;
    }
    cr_assert(gather_compose(tasks, 2, &batch) && batch.count == 1);
    cr_assert(gather_compose(tasks, 2, &batch) && batch.count == 1);
}

Test(gather, outputs_are_cut_by_rows)
{
    struct task tasks[2];
    struct batch batch;
    struct pen_tensor views[SERVED_TENSORS_MAX];
    const float scores[] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, box[] = {10, 11, 12};
    struct pen_tensor outputs[2] = {
        {.name = "scores", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {3, 3}, .data = scores, .bytes = sizeof scores},
        {.name = "box", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {3, 1}, .data = box, .bytes = sizeof box}};
    task_make(&tasks[0], 0, 1, 5);
    task_make(&tasks[1], 1, 2, 5);
    tasks[0].outputs = 2; /* only the box */
    cr_assert(gather_compose(tasks, 2, &batch) && batch.count == 2);
    cr_assert(gather_can_split(&batch, outputs, 2));
    cr_assert(gather_split(&batch, 0, 0, outputs, 2, views) == 1);
    cr_expect(strcmp(views[0].name, "box") == 0 && views[0].dims[0] == 1 && *(const float *)views[0].data == 10);
    cr_assert(gather_split(&batch, 1, 1, outputs, 2, views) == 2);
    cr_expect(views[0].dims[0] == 2 && views[0].bytes == 24 && *(const float *)views[0].data == 3);
    cr_expect(views[1].bytes == 8 && *(const float *)views[1].data == 11);
}

/* Two jobs of three rows, run at four: the fourth row is nobody's. */
Test(gather, filled_batches_are_cut_by_the_rows_that_ran)
{
    struct task tasks[2];
    struct batch batch;
    struct pen_tensor views[SERVED_TENSORS_MAX], shapes[SERVED_TENSORS_MAX];
    const float scores[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    struct pen_tensor output = {
        .name = "scores", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {4, 3}, .data = scores, .bytes = sizeof scores};
    task_make(&tasks[0], 0, 1, 5);
    task_make(&tasks[1], 1, 2, 5);
    cr_assert(gather_compose(tasks, 2, &batch) && batch.count == 2 && batch.bound == 3);
    batch.bound = 4;
    gather_shapes(&batch, shapes);
    cr_expect(shapes[0].dims[0] == 4 && shapes[0].dims[2] == 5 && shapes[1].dims[0] == 4);
    cr_assert(gather_can_split(&batch, &output, 1));
    cr_assert(gather_split(&batch, 1, 1, &output, 1, views) == 1);
    cr_expect(views[0].dims[0] == 2 && views[0].bytes == 24 && *(const float *)views[0].data == 3);
    struct batch exclusive = {.served = &model, .tasks = {&tasks[1]}, .count = 1, .rows = 2, .bound = 4};
    cr_expect(gather_can_split(&exclusive, &output, 1));
    cr_assert(gather_split(&exclusive, 0, 0, &output, 1, views) == 1);
    cr_expect(views[0].dims[0] == 2 && views[0].bytes == 24, "also one job alone is cut");
    output.dims[0] = 2;
    cr_expect(!gather_can_split(&exclusive, &output, 1), "then it runs again at its own size");
}

Test(gather, outputs_that_are_not_one_per_row_cannot_be_cut)
{
    struct task tasks[2];
    struct batch batch;
    struct pen_tensor count = {.name = "n", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {5}, .bytes = 20},
                      scalar = count;
    scalar.rank = 0;
    task_make(&tasks[0], 0, 1, 5);
    task_make(&tasks[1], 1, 1, 5);
    cr_assert(gather_compose(tasks, 2, &batch) && batch.count == 2);
    cr_expect(!gather_can_split(&batch, &count, 1));
    cr_expect(!gather_can_split(&batch, &scalar, 1));
    batch.count = 1;
    cr_expect(gather_can_split(&batch, &count, 1), "alone a job takes the output as it is");
}
