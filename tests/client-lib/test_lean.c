/* An answer for which there is no memory says so: it is not the broker's fault. The linker leads the library's allocations through here. */
#include "result.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "job.pb-c.h"

static unsigned left; /* allocations before the one that fails; 0 = none fails */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t items, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t items, size_t bytes);

static bool fails(void)
{
    return left > 0 && --left == 0;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t items, size_t bytes)
{
    return fails() ? NULL : __real_calloc(items, bytes);
}

static enum pen_status status_without(unsigned nth, const uint8_t *meta, size_t bytes)
{
    struct incoming in = {.meta = meta, .env = envelope_make(FRAME_RESULT)};
    in.env.meta_bytes = (uint32_t)bytes;
    zmq_msg_init(&in.header);
    left = nth;
    struct pen_result *result = result_from(&in);
    enum pen_status status = result ? pen_result_status(result) : PEN_ERR_NO_MEMORY;
    bool failed = nth > 0 && left == 0;
    left = 0;
    cr_expect_eq(failed, status == PEN_ERR_NO_MEMORY, "allocation %u: %s", nth, pen_status_name(status));
    pen_result_free(result);
    incoming_fini(&in);
    return status;
}

Test(lean, answer_without_memory_is_not_called_malformed)
{
    uint8_t packed[256], data[4] = {1, 2, 3, 4};
    int64_t dims[] = {4};
    char name[] = "y", model[] = "m";
    Penstock__TensorDesc desc = PENSTOCK__TENSOR_DESC__INIT, *descs[] = {&desc};
    Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
    desc.name = name;
    desc.dtype = PEN_DTYPE_U8;
    desc.dims = dims;
    desc.n_dims = 1;
    desc.bytes = sizeof data;
    desc.data = (ProtobufCBinaryData){.len = sizeof data, .data = data};
    meta.model = model;
    meta.outputs = descs;
    meta.n_outputs = 1;
    size_t bytes = penstock__result_meta__pack(&meta, packed);
    cr_assert_eq(status_without(0, packed, bytes), PEN_OK);
    unsigned nth = 1;
    while (status_without(nth, packed, bytes) != PEN_OK)
        nth++;
    cr_expect_gt(nth, 2, "the record, its description and the list of its outputs");
    packed[0] = 0x07; /* a wire type that there is not */
    cr_expect_eq(status_without(0, packed, bytes), PEN_ERR_CORRUPT);
}
