/*
 * One row of a tensor set anew. The converter lowers TensorListSetItem to three parts joined again: x[:i], the item, x[i + 1:]. Nothing in that says that the
 * result has x's shape; a scatter of one row does.
 */
#include "import/build/list.h"
#include "import/tflite/reader.h"

enum { ADD = 0, CONCATENATION = 2, RESHAPE = 22, SQUEEZE = 43, SLICE = 65, EXPAND_DIMS = 70 };

/* The operator that gave a tensor. */
struct maker {
    int code;
    struct fb_list in;
};

static bool made_by(const struct scope *s, int64_t tensor, struct maker *ret)
{
    if (tensor < 0 || tensor >= (int64_t)s->tensor_count || s->tensors[tensor].maker == 0)
        return false;
    struct fb_table op = fb_list_table(&s->operators, s->tensors[tensor].maker - 1);
    *ret = (struct maker){.code = lite_code(s->r, &op), .in = fb_vector(&op, OPERATOR_IN, 4)};
    return ret->in.count > 0;
}

static bool all_are(struct scope *s, int64_t tensor, int64_t want)
{
    int64_t items[PEN_MAX_RANK];
    uint32_t count = 0;
    if (tensor < 0 || !build_ints_of(s->b, lite_value(s, tensor), items, PEN_MAX_RANK, &count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (items[i] != want)
            return false;
    }
    return true;
}

/* The tensor that this one holds in another shape. */
static int64_t plain(const struct scope *s, int64_t tensor)
{
    struct maker m;
    for (int depth = 0; depth < 8 && made_by(s, tensor, &m); depth++) {
        if (m.code != RESHAPE && m.code != SQUEEZE && m.code != EXPAND_DIMS)
            break;
        tensor = fb_list_int(&m.in, 0);
    }
    return tensor;
}

/* The first number of a list whose others are all `rest`; the list may be that number alone. */
static int64_t first_of(struct scope *s, int64_t tensor, int64_t rest)
{
    struct maker m;
    if (!made_by(s, tensor, &m) || m.code != CONCATENATION)
        return plain(s, tensor);
    for (uint32_t i = 1; i < m.in.count; i++) {
        if (!all_are(s, fb_list_int(&m.in, i), rest))
            return -1;
    }
    return plain(s, fb_list_int(&m.in, 0));
}

/* next = at + 1 */
static bool follows(struct scope *s, int64_t next, int64_t at)
{
    struct maker m;
    if (!made_by(s, next, &m) || m.code != ADD || m.in.count != 2)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        if (plain(s, fb_list_int(&m.in, i)) == at && all_are(s, fb_list_int(&m.in, 1 - i), 1))
            return true;
    }
    return false;
}

uint32_t lite_row_set(struct call *c)
{
    struct scope *s = c->s;
    struct maker head, tail;
    if (c->in.count != 3 || lite_option(c, 0, 0) != 0 || lite_activation(c, 1) != TF_ACT_NONE ||
        !made_by(s, fb_list_int(&c->in, 0), &head) || !made_by(s, fb_list_int(&c->in, 2), &tail) ||
        head.code != SLICE || tail.code != SLICE || head.in.count != 3 || tail.in.count != 3)
        return VALUE_NONE;
    int64_t x = fb_list_int(&head.in, 0), at = first_of(s, fb_list_int(&head.in, 2), -1);
    bool fits = x == fb_list_int(&tail.in, 0) && at >= 0 && all_are(s, fb_list_int(&head.in, 1), 0) &&
                all_are(s, fb_list_int(&tail.in, 2), -1) && follows(s, first_of(s, fb_list_int(&tail.in, 1), 0), at) &&
                build_dim(c->b, lite_in(c, 1), 0) == 1;
    if (!fits || c->b->status != PEN_OK)
        return VALUE_NONE;
    uint32_t place = build_reshape(c->b, build_cast(c->b, lite_value(s, at), PEN_DTYPE_I64), (int64_t[]){1, 1}, 2);
    return build_3(c->b, OP_ScatterND, lite_value(s, x), place, lite_in(c, 1));
}
