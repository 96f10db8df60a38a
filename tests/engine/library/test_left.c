/* Leaves a tensor behind: tests/support/leftovers.c must say so, or it would say nothing of other tests either. */
#include <criterion/criterion.h>

#include "penstock/tensors.h"

static struct pen_tensor_handle *tensor; /* reachable: no leak in the sense of sanitizers */

Test(left, a_tensor)
{
    const struct pen_tensor view = {.dtype = PEN_DTYPE_U8, .rank = 0, .data = "x", .bytes = 1};
    cr_assert_eq(pen_tensor_wrap(&view, NULL, NULL, &tensor, NULL), PEN_OK);
}
