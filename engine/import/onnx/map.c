#include <stdio.h>
#include <string.h>

#include "import/inventory.h"
#include "import/onnx/reader.h"

/* Operators of ours that are not in the standard domain, though their names are: only a row of a table leads to them. */
static bool foreign(enum op op)
{
    static const enum op list[] = {
        OP_QLinearAdd,
        OP_QLinearMul,
        OP_QLinearSigmoid,
        OP_QLinearLeakyRelu,
        OP_QLinearConcat,
        OP_QLinearAveragePool,
        OP_QLinearSoftmax,
        OP_QLinearGlobalAveragePool,
        OP_QGemm,
        OP_MatMulNBits,
        OP_MoE,
        OP_Inverse,
        OP_MurmurHash3,
        OP_MsAttention,
        OP_MultiHeadAttention,
        OP_GroupQueryAttention,
        OP_Adagrad,
        OP_Adam,
        OP_Momentum,
        OP_ArrayFeatureExtractor,
        OP_Binarizer,
        OP_ClassScores,
        OP_Imputer,
        OP_LabelEncoder,
        OP_Normalizer,
        OP_OneHotEncoder,
        OP_SVMClassifier,
        OP_SVMRegressor,
        OP_Scaler,
        OP_Tokenizer,
        OP_TreeEnsemble,
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (list[i] == op)
            return true;
    }
    return false;
}

static const struct op_row *find_in(const struct op_row *rows, const struct call *c, const char *domain)
{
    for (; rows->name; rows++) {
        if (strcmp(rows->domain, domain) == 0 && c->version >= rows->since && c->version <= rows->until &&
            bytes_are(c->op_type, rows->name))
            return rows;
    }
    return NULL;
}

static const struct op_row *find_row(const struct call *c, const char *domain)
{
    static const struct op_row *const tables[] = {rows_onnx,      rows_shape,   rows_microsoft,
                                                  rows_fused,     rows_contrib, rows_attention,
                                                  rows_quantised, rows_lowered, rows_nchwc};
    const struct op_row *row = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && !row; i++)
        row = find_in(tables[i], c, domain);
    return row;
}

/* What PyTorch's ATen stands for: "(erfinv)"; empty for others. */
static struct bytes aten_function(const struct call *c)
{
    const struct pb_attr *a = bytes_are(c->op_type, "ATen") ? call_attr(c, "operator") : NULL;
    return a && a->type == PB_STRING && a->s.size < 40 ? a->s : (struct bytes){0};
}

/* "Conv", "com.microsoft::Foo", "org.pytorch.aten::ATen(erfinv)" */
static const char *full_name(const struct call *c, char *text, size_t room)
{
    struct bytes function = aten_function(c);
    int domain = (int)(c->domain.size < 40 ? c->domain.size : 40),
        op = (int)(c->op_type.size < 60 ? c->op_type.size : 60);
    snprintf(text, room, "%.*s%s%.*s%s%.*s%s", domain, domain ? (const char *)c->domain.at : "", domain ? "::" : "", op,
             (const char *)c->op_type.at, function.size ? "(" : "", (int)function.size,
             function.size ? (const char *)function.at : "", function.size ? ")" : "");
    return text;
}

static void note_missing(struct call *c)
{
    struct reader *r = c->r;
    char full[160];
    inventory_miss(c->g->limits.inventory, full_name(c, full, sizeof full), c->name);
    if (r->missing_count++ >= ONNX_MISSING_MAX || r->missing_bytes + 1 >= sizeof r->missing)
        return;
    char text[256];
    int bytes = snprintf(text, sizeof text, "%s%s (node %.80s)", r->missing_count > 1 ? ", " : "", full, c->name);
    if (bytes > 0 && r->missing_bytes + (size_t)bytes < sizeof r->missing) {
        memcpy(r->missing + r->missing_bytes, text, (size_t)bytes + 1);
        r->missing_bytes += (size_t)bytes;
    }
}

static void same_form(struct call *c, enum op op)
{
    uint32_t node = call_emit(c, op, c->in, c->in_count, c->out, c->out_count);
    call_copy_attrs(c, node, NULL);
}

void call_translate(struct call *c)
{
    const struct pb_function *f = function_find(c->r, c->domain, c->op_type, c->overload);
    char name[64], full[160];
    inventory_note(c->g->limits.inventory, full_name(c, full, sizeof full));
    if (f) {
        c->status = function_inline(c, f);
        return;
    }
    bool standard = c->domain.size == 0 || bytes_are(c->domain, "ai.onnx");
    char domain[48] = "";
    if (!standard && c->domain.size < sizeof domain)
        memcpy(domain, c->domain.at, c->domain.size);
    const struct op_row *row = standard || domain[0] ? find_row(c, domain) : NULL;
    if (row && row->upgrade) {
        row->upgrade(c);
        return;
    }
    enum op op = row ? row->op : OP_NONE;
    if (!row && standard && c->op_type.size < sizeof name) {
        memcpy(name, c->op_type.at, c->op_type.size);
        name[c->op_type.size] = '\0';
        op = op_find(name);
    }
    if (op == OP_NONE || (!row && foreign(op)))
        note_missing(c);
    else
        same_form(c, op);
}
