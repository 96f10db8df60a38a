#include "penstock/tensor.h"

#include <criterion/criterion.h>
#include <string.h>

static struct pen_tensor tensor_of(enum pen_dtype dtype, uint32_t rank, const int64_t *dims, const void *data,
                                   size_t bytes)
{
    struct pen_tensor tensor = {.name = "x", .dtype = dtype, .rank = rank, .data = data, .bytes = bytes};
    for (uint32_t i = 0; i < rank && i < PEN_MAX_RANK; i++)
        tensor.dims[i] = dims[i];
    return tensor;
}

Test(tensor, elements_of_scalar_empty_and_plain)
{
    uint64_t elements;
    struct pen_tensor scalar = tensor_of(PEN_DTYPE_F32, 0, NULL, NULL, 0);
    cr_assert_eq(pen_tensor_elements(&scalar, &elements), PEN_OK);
    cr_assert_eq(elements, 1);
    struct pen_tensor plain = tensor_of(PEN_DTYPE_F32, 3, (int64_t[]){2, 3, 4}, NULL, 0);
    cr_assert_eq(pen_tensor_elements(&plain, &elements), PEN_OK);
    cr_assert_eq(elements, 24);
    struct pen_tensor empty = tensor_of(PEN_DTYPE_F32, 3, (int64_t[]){INT64_MAX, INT64_MAX, 0}, NULL, 0);
    cr_assert_eq(pen_tensor_elements(&empty, &elements), PEN_OK);
    cr_assert_eq(elements, 0);
}

Test(tensor, elements_refuse_overflow_negative_dims_and_rank_9)
{
    uint64_t elements = 5;
    struct pen_tensor huge = tensor_of(PEN_DTYPE_F32, 3, (int64_t[]){INT64_MAX, 4, 2}, NULL, 0);
    cr_assert_eq(pen_tensor_elements(&huge, &elements), PEN_ERR_TOO_LARGE);
    struct pen_tensor dynamic = tensor_of(PEN_DTYPE_F32, 2, (int64_t[]){-1, 4}, NULL, 0);
    cr_assert_eq(pen_tensor_elements(&dynamic, &elements), PEN_ERR_SHAPE);
    struct pen_tensor deep = tensor_of(PEN_DTYPE_F32, 9, (int64_t[8]){1, 1, 1, 1, 1, 1, 1, 1}, NULL, 0);
    cr_assert_eq(pen_tensor_elements(&deep, &elements), PEN_ERR_SHAPE);
    cr_assert_eq(elements, 5);
}

Test(tensor, check_compares_bytes_with_the_shape)
{
    float data[6] = {0};
    struct pen_error error = {0};
    struct pen_tensor tensor = tensor_of(PEN_DTYPE_F32, 2, (int64_t[]){2, 3}, data, 24);
    cr_assert_eq(pen_tensor_check(&tensor, &error), PEN_OK);
    tensor.bytes = 23;
    cr_assert_eq(pen_tensor_check(&tensor, &error), PEN_ERR_INVALID);
    cr_assert_str_eq(error.text, "tensor 'x': f32 2x3 needs 24 bytes, but 23 were given");
    tensor.bytes = 24;
    tensor.data = NULL;
    cr_assert_eq(pen_tensor_check(&tensor, &error), PEN_ERR_INVALID);
    tensor.data = data;
    tensor.dtype = (enum pen_dtype)99;
    cr_assert_eq(pen_tensor_check(&tensor, &error), PEN_ERR_DTYPE);
}

Test(tensor, check_refuses_more_bytes_than_memory)
{
    struct pen_error error = {0};
    struct pen_tensor tensor = tensor_of(PEN_DTYPE_F64, 2, (int64_t[]){INT64_MAX, 2}, "", 0);
    cr_assert_eq(pen_tensor_check(&tensor, &error), PEN_ERR_TOO_LARGE);
    cr_assert(strstr(error.text, "larger than any memory"));
}

Test(tensor, strings_must_add_up)
{
    struct pen_error error = {0};
    struct pen_tensor tensor = tensor_of(PEN_DTYPE_STRING, 1, (int64_t[]){2}, "\2\0\0\0ab\0\0\0\0", 10);
    cr_assert_eq(pen_tensor_check(&tensor, &error), PEN_OK);
    tensor.bytes = 9;
    cr_assert_eq(pen_tensor_check(&tensor, &error), PEN_ERR_INVALID);
    tensor.bytes = 10;
    tensor.dims[0] = 1;
    cr_assert_eq(pen_tensor_check(&tensor, &error), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "4 bytes are left"));
    tensor.dims[0] = INT64_MAX;
    cr_assert_eq(pen_tensor_check(&tensor, &error), PEN_ERR_INVALID);
    tensor = tensor_of(PEN_DTYPE_STRING, 1, (int64_t[]){1}, "\377\377\377\377", 4);
    cr_assert_eq(pen_tensor_check(&tensor, &error), PEN_ERR_INVALID);
    tensor = tensor_of(PEN_DTYPE_STRING, 1, (int64_t[]){0}, NULL, 0);
    cr_assert_eq(pen_tensor_check(&tensor, &error), PEN_OK);
}

Test(tensor, shape_text)
{
    char text[40];
    cr_assert_str_eq(pen_shape_text((int64_t[]){1, 3, 224, 224}, 4, text, sizeof text), "1x3x224x224");
    cr_assert_str_eq(pen_shape_text((int64_t[]){-1, 10}, 2, text, sizeof text), "?x10");
    cr_assert_str_eq(pen_shape_text(NULL, 0, text, sizeof text), "scalar");
    cr_assert_str_eq(pen_shape_text((int64_t[]){123, 456}, 2, text, 6), "123x4");
    cr_assert_str_eq(pen_shape_text((int64_t[]){123, 456}, 2, text, 1), "");
}
