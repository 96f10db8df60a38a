/* Operators on texts. */
#include "import/build/tensorflow.h"
#include "import/tfjs/reader.h"

#define TEXT_MAX 1024 /* of an attribute */

/* TensorFlow calls the attribute num_buckets. */
static void hash(struct call *c)
{
    int64_t buckets = js_attr_int(c, "num_buckets", 0);
    if (buckets < 1 || buckets > INT32_MAX) {
        build_stop(c->b, PEN_ERR_INVALID, "%lld hash buckets", (long long)buckets);
        return;
    }
    uint32_t y = build_1(c->b, OP_TextHash, js_in(c, 0));
    build_int(c->b, ATTR_buckets, buckets);
    js_give(c, 0, build_cast(c->b, y, PEN_DTYPE_I32));
}

/* texts, separators */
static void split(struct call *c)
{
    uint32_t in[] = {js_in(c, 0), js_in(c, 1)}, out[3];
    build_many(c->b, OP_TextSplit, in, 2, out, 3);
    build_int(c->b, ATTR_skip_empty, js_attr_bool(c, "skip_empty", true));
    js_give(c, 0, build_cast(c->b, out[0], PEN_DTYPE_I32));
    js_give(c, 1, out[1]);
    js_give(c, 2, build_cast(c->b, out[2], PEN_DTYPE_I32));
}

static void text(struct call *c, enum attr_key key, const char *name)
{
    char item[TEXT_MAX];
    build_text(c->b, key, js_attr_text(c, name, item, sizeof item));
}

static void replace(struct call *c)
{
    uint32_t y = build_1(c->b, OP_TextReplace, js_in(c, 0));
    text(c, ATTR_pattern, "pattern");
    text(c, ATTR_rewrite, "rewrite");
    build_int(c->b, ATTR_replace_all, js_attr_bool(c, "replace_global", true));
    js_give(c, 0, y);
}

/* words, where rows begin */
static void ngrams(struct call *c)
{
    int64_t widths[64];
    int count = js_attr_ints(c, "ngram_widths", widths, 64);
    uint32_t in[] = {js_in(c, 0), build_cast(c->b, js_in(c, 1), PEN_DTYPE_I64)}, out[2];
    if (count < 1) {
        build_stop(c->b, PEN_ERR_INVALID, "it has no width, or more than 64");
        return;
    }
    build_many(c->b, OP_TextNGrams, in, 2, out, 2);
    build_ints(c->b, ATTR_ngram_widths, widths, (uint32_t)count);
    text(c, ATTR_delimiter, "separator");
    text(c, ATTR_left_pad, "left_pad");
    text(c, ATTR_right_pad, "right_pad");
    build_int(c->b, ATTR_pad_width, js_attr_int(c, "pad_width", 0));
    build_int(c->b, ATTR_preserve_short_sequences, js_attr_bool(c, "preserve_short_sequences", false));
    js_give(c, 0, out[0]);
    js_give(c, 1, build_cast(c->b, out[1], PEN_DTYPE_I32));
}

const struct tfjs_row js_rows_text[] = {
    JS_ROW(StaticRegexReplace, replace, 0),
    JS_ROW(StringNGrams, ngrams, 0),
    JS_ROW(StringSplit, split, 0),
    JS_ROW(StringToHashBucketFast, hash, 0),
    {NULL, NULL, 0},
};
