#include "warmup.h"

#include <criterion/criterion.h>
#include <string.h>

static struct pen_tensor open_image = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {-1, 3, -1, -1}};

static struct served served_of(struct pen_tensor *input, uint32_t max_batch_size)
{
    struct served served = {.network_inputs = input,
                            .inputs = input,
                            .inputs_count = 1,
                            .max_batch_size = max_batch_size,
                            .pixels_input = -1};
    return served;
}

Test(warmup, every_declared_batch_size_once_in_order)
{
    struct served served = served_of(&open_image, 16);
    uint32_t batches[BATCH_SHAPE_WARM_MAX];
    served.config = (struct config){.preferred = {8, 4, 8}, .preferred_count = 3, .warmups_count = 3};
    served.config.warmups[0].batch_size = 2;
    served.config.warmups[1].batch_size = 16;
    served.config.preferred[3] = 7; /* beyond the lists */
    served.config.warmups[3].batch_size = 9;
    size_t count = warmup_batches(&served, batches);
    cr_assert(count == 5, "%zu", count);
    const uint32_t want[] = {1, 2, 4, 8, 16};
    cr_expect(memcmp(batches, want, sizeof want) == 0);
    served.max_batch_size = 0;
    cr_expect(warmup_batches(&served, batches) == 1 && batches[0] == 1);
}

Test(warmup, all_tables_full_still_fit)
{
    struct served served = served_of(&open_image, 1000);
    uint32_t batches[BATCH_SHAPE_WARM_MAX];
    served.config.preferred_count = CONFIG_PREFERRED_MAX;
    served.config.warmups_count = CONFIG_WARMUPS_MAX;
    for (uint32_t i = 0; i < 16; i++) {
        served.config.preferred[i] = 100 + i;
        served.config.warmups[i].batch_size = 200 + i;
    }
    cr_expect(warmup_batches(&served, batches) == 34);
}

Test(warmup, open_dimensions_come_from_the_entry)
{
    struct served served = served_of(&open_image, 4);
    struct warm_shape shape;
    struct pen_error error = {0};
    struct config_warm_input given = {.name = "x", .rank = 3, .dims = {3, 20, 30}};
    struct config_warmup entry = {.batch_size = 2, .inputs = &given, .inputs_count = 1};
    cr_expect(warmup_shape(&served, 2, NULL, &shape, &error) == PEN_ERR_UNSUPPORTED);
    cr_expect(strstr(error.text, "dimension 2 of input 'x'"), "%s", error.text);
    cr_assert(warmup_shape(&served, 2, &entry, &shape, &error) == PEN_OK, "%s", error.text);
    cr_expect(shape.inputs[0].dims[0] == 2 && shape.inputs[0].dims[2] == 20 && shape.inputs[0].dims[3] == 30);
    given.dims[0] = 4;
    cr_expect(warmup_shape(&served, 2, &entry, &shape, &error) == PEN_ERR_SHAPE);
    given.rank = 4;
    cr_expect(warmup_shape(&served, 2, &entry, &shape, &error) == PEN_ERR_SHAPE);
    cr_expect(strstr(error.text, "gives input 'x' 4 dimensions, the model takes 3"), "%s", error.text);
}

Test(warmup, pixels_need_no_entry)
{
    struct served served = served_of(&open_image, 4);
    struct warm_shape shape;
    struct pen_error error = {0};
    served.pixels_input = 0;
    served.preprocess = (struct preprocess){.height = 5, .width = 6, .channels = 3};
    cr_assert(warmup_shape(&served, 3, NULL, &shape, &error) == PEN_OK, "%s", error.text);
    cr_expect(shape.inputs[0].dims[0] == 3 && shape.inputs[0].dims[1] == 3 && shape.inputs[0].dims[2] == 5 &&
              shape.inputs[0].dims[3] == 6);
}

/* What cures it is said: most often the dimension is the batch. */
Test(warmup, an_open_first_dimension_is_told_with_its_cure)
{
    static struct served open;
    static struct pen_tensor input = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 3, .dims = {-1, 4, -1}};
    struct warm_shape shape;
    struct pen_error error = {0};
    open.inputs_count = 1;
    open.network_inputs = &input;
    open.pixels_input = -1;
    cr_expect_eq(warmup_shape(&open, 1, NULL, &shape, &error), PEN_ERR_UNSUPPORTED);
    cr_expect(strstr(error.text, "dimension 0 of input 'x'") && strstr(error.text, "\"max_batch_size\": 8"), "%s",
              error.text);
    open.max_batch_size = 8;
    cr_expect_eq(warmup_shape(&open, 1, NULL, &shape, &error), PEN_ERR_UNSUPPORTED);
    cr_expect(strstr(error.text, "dimension 2 of input 'x'") && strstr(error.text, "model_warmup") &&
                  !strstr(error.text, "max_batch_size"),
              "%s", error.text);
}
