/* Einsum: y[kept labels] = sum over the other labels of the product of the operands. Source: ONNX (NumPy's notation, with "..."). */
#include "backend/reference/kernels.h"

#include <string.h>

#define LABELS_MAX 32 /* letters and dims behind "...", all operands together */

struct operand {
    const double *items;
    int64_t stride[LABELS_MAX]; /* 0 where it does not depend on the label */
};

struct einsum {
    char label[LABELS_MAX]; /* a letter, or 1 + place behind "..." counted from the right */
    int64_t size[LABELS_MAX];
    uint32_t label_count;
    uint32_t ellipsis; /* widest "..." */
    uint32_t kept[PEN_MAX_RANK], kept_count;
    struct operand *operands;
    uint32_t operand_count;
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The label's number, made when it is new; LABELS_MAX when there are too many. */
static uint32_t label_of(struct einsum *e, char c)
{
    for (uint32_t i = 0; i < e->label_count; i++) {
        if (e->label[i] == c) {
            return i;
        }
    }
    if (e->label_count == LABELS_MAX) {
        return LABELS_MAX;
    }
    e->label[e->label_count] = c;
    e->size[e->label_count] = 1;
    return e->label_count++;
}

/* Expands one term ("ab...c") for an operand of `rank` into label characters; -1 when it does not fit. Output terms pass the widest "...". */
static int32_t term_expand(const char *at, const char *end, int32_t rank, int32_t ellipsis, char *ret)
{
    int32_t letters = 0, count = 0;
    for (const char *c = at; c < end; c++) {
        letters += is_letter(*c);
    }
    int32_t dots = rank >= 0 ? rank - letters : ellipsis;
    for (const char *c = at; c < end; c++) {
        if (*c == ' ') {
            continue;
        }
        if (*c == '.') {
            if (end - c < 3 || c[1] != '.' || c[2] != '.' || dots < 0) {
                return -1;
            }
            for (int32_t i = 0; i < dots && count < PEN_MAX_RANK; i++) {
                ret[count++] = (char)(dots - i);
            }
            c += 2;
        } else if (!is_letter(*c) || count >= PEN_MAX_RANK) {
            return -1;
        } else {
            ret[count++] = *c;
        }
    }
    return rank >= 0 && count != rank ? -1 : count;
}

static enum pen_status bad_equation(struct kernel_call *k)
{
    return kernel_fail(k, PEN_ERR_INVALID, "the equation does not fit its inputs");
}

/* Sizes and strides of one operand. */
static enum pen_status operand_init(struct kernel_call *k, struct einsum *e, uint32_t index, const char *at,
                                    const char *end)
{
    const struct shape *s = &k->in[index].shape;
    char labels[PEN_MAX_RANK];
    int64_t strides[PEN_MAX_RANK];
    double *items = NULL;
    if (term_expand(at, end, s->rank, 0, labels) < 0) {
        return bad_equation(k);
    }
    dims_strides(s, strides);
    memset(&e->operands[index], 0, sizeof e->operands[index]);
    for (int32_t d = 0; d < s->rank; d++) {
        uint32_t l = label_of(e, labels[d]);
        if (l == LABELS_MAX || (s->dim[d] != 1 && e->size[l] != 1 && e->size[l] != s->dim[d])) {
            return bad_equation(k);
        }
        if (!is_letter(labels[d])) {
            e->ellipsis = (uint32_t)labels[d] > e->ellipsis ? (uint32_t)labels[d] : e->ellipsis;
        }
        e->size[l] = e->size[l] == 1 ? s->dim[d] : e->size[l];
        e->operands[index].stride[l] += s->dim[d] == 1 ? 0 : strides[d];
    }
    enum pen_status status = kernel_doubles(k, index, &items);
    e->operands[index].items = items;
    return status;
}

/* Without "->": letters that occur once, in alphabetical order, behind the "..." dims. */
static int32_t implicit_output(const struct einsum *e, const char *text, const char *end, char *ret)
{
    int32_t count = 0;
    for (uint32_t i = e->ellipsis; i > 0 && count < PEN_MAX_RANK; i--) {
        ret[count++] = (char)i;
    }
    for (char c = 'A'; c <= 'z'; c++) {
        int seen = 0;
        for (const char *t = text; t < end && is_letter(c); t++) {
            seen += *t == c;
        }
        if (seen == 1 && count < PEN_MAX_RANK) {
            ret[count++] = c;
        }
    }
    return count;
}

static enum pen_status output_init(struct kernel_call *k, struct einsum *e, const char *text, const char *arrow,
                                   const char *end)
{
    char labels[PEN_MAX_RANK];
    struct shape out = {.rank = 0};
    int32_t count = arrow != NULL ? term_expand(arrow + 2, end, -1, (int32_t)e->ellipsis, labels)
                                  : implicit_output(e, text, end, labels);
    if (count < 0) {
        return bad_equation(k);
    }
    for (int32_t i = 0; i < count; i++) {
        uint32_t before = e->label_count, l = label_of(e, labels[i]);
        if (l == before || l == LABELS_MAX) { /* a label that no input has */
            return bad_equation(k);
        }
        e->kept[e->kept_count++] = l;
        out.dim[out.rank++] = e->size[l];
    }
    return kernel_output(k, 0, k->in[0].dtype, &out);
}

/* Sum over the labels that are not kept, from label `l` on. */
static double contract(const struct einsum *e, const bool *kept, uint32_t l, int64_t *offsets)
{
    while (l < e->label_count && kept[l]) {
        l++;
    }
    if (l == e->label_count) {
        double product = 1.0;
        for (uint32_t i = 0; i < e->operand_count; i++) {
            product *= e->operands[i].items[offsets[i]];
        }
        return product;
    }
    double sum = 0.0;
    for (int64_t x = 0; x < e->size[l]; x++) {
        sum += contract(e, kept, l + 1, offsets);
        for (uint32_t i = 0; i < e->operand_count; i++) {
            offsets[i] += e->operands[i].stride[l];
        }
    }
    for (uint32_t i = 0; i < e->operand_count; i++) {
        offsets[i] -= e->operands[i].stride[l] * e->size[l];
    }
    return sum;
}

static enum pen_status equation_read(struct kernel_call *k, struct einsum *e)
{
    const struct attr *a = node_attr(k->n, ATTR_equation);
    const char *text = a != NULL ? a->text.text : "", *end = text + (a != NULL ? a->text.bytes : 0), *arrow = NULL,
               *at = text;
    for (const char *c = text; c + 1 < end; c++) {
        arrow = c[0] == '-' && c[1] == '>' ? c : arrow;
    }
    const char *inputs_end = arrow != NULL ? arrow : end;
    for (uint32_t i = 0; i < k->n->in_count; i++) {
        const char *comma = at;
        while (comma < inputs_end && *comma != ',') {
            comma++;
        }
        enum pen_status status = operand_init(k, e, i, at, comma);
        if (status != PEN_OK) {
            return status;
        }
        at = comma < inputs_end ? comma + 1 : comma;
    }
    return at != inputs_end ? bad_equation(k) : output_init(k, e, text, arrow, end);
}

enum pen_status kernel_einsum(struct kernel_call *k)
{
    struct einsum e = {.operand_count = k->n->in_count};
    bool kept[LABELS_MAX] = {false};
    int64_t *offsets = kernel_scratch(k, e.operand_count * sizeof *offsets);
    e.operands = kernel_scratch(k, e.operand_count * sizeof *e.operands);
    if (offsets == NULL || e.operands == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %u operands", e.operand_count);
    }
    enum pen_status status = equation_read(k, &e);
    for (uint32_t i = 0; i < e.kept_count; i++) {
        kept[e.kept[i]] = true;
    }
    for (int64_t o = 0; status == PEN_OK && o < shape_elements(&k->out[0].shape); o++) {
        int64_t left = o;
        memset(offsets, 0, e.operand_count * sizeof *offsets);
        for (uint32_t i = e.kept_count; i-- > 0;) {
            for (uint32_t j = 0; j < e.operand_count; j++) {
                offsets[j] += left % e.size[e.kept[i]] * e.operands[j].stride[e.kept[i]];
            }
            left /= e.size[e.kept[i]];
        }
        store_one_f64(k->out[0].data, k->out[0].dtype, o, contract(&e, kept, 0, offsets));
        status = o % 256 == 0 ? kernel_cancelled(k) : PEN_OK;
    }
    return status;
}
