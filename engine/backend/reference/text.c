/* TensorFlow's operators on texts: hash buckets, words, replacing, n-grams. Source: StringToHashBucketFast, StringSplit, StaticRegexReplace, StringNGrams. */
#include <regex.h>
#include <string.h>

#include "backend/reference/fingerprint.h"
#include "backend/reference/kernels.h"
#include "backend/reference/pattern.h"

#define GROUPS 10 /* that a replacement may name */

static struct string_view text_attr(const struct kernel_call *k, enum attr_key key)
{
    const struct attr *a = node_attr(k->n, key);
    return a != NULL && a->type == ATTR_TEXT ? a->text : (struct string_view){"", 0};
}

enum pen_status kernel_text_hash(struct kernel_call *k)
{
    const struct string_view *x = k->in[0].data;
    int64_t buckets = node_int(k->n, ATTR_buckets, 0);
    if (buckets < 1) {
        return kernel_fail(k, PEN_ERR_INVALID, "%lld buckets", (long long)buckets);
    }
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_I64, &k->in[0].shape);
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&k->in[0].shape); i++) {
        ((int64_t *)k->out[0].data)[i] = (int64_t)(fingerprint64(x[i].text, x[i].bytes) % (uint64_t)buckets);
    }
    return status;
}

/* ---- words --------------------------------------------------------------------------------------------------------- */

struct splitter {
    struct string_view at; /* each of its characters separates; none: every byte is a word */
    bool skip;             /* words of nothing */
};

static bool separates(const struct splitter *p, char c)
{
    return p->at.bytes > 0 && memchr(p->at.text, c, p->at.bytes) != NULL;
}

/* Words of one text, written to `to` unless it is NULL; gives their number. */
static int64_t words_of(const struct splitter *p, const struct string_view *s, struct string_view *to)
{
    int64_t count = 0;
    size_t from = 0;
    for (size_t i = 0; s->bytes > 0 && i <= s->bytes; i++) {
        bool bytes = p->at.bytes == 0, end = i == s->bytes;
        if (!end && !bytes && !separates(p, s->text[i])) {
            continue;
        }
        size_t n = bytes ? !end : i - from;
        if (n > 0 || (!bytes && !p->skip)) {
            if (to != NULL) {
                to[count] = (struct string_view){n > 0 ? s->text + (bytes ? i : from) : "", n};
            }
            count++;
        }
        from = i + 1;
    }
    return count;
}

/* texts [n], separators (a scalar) -> [words, 2] of text and place, [words], [2] */
enum pen_status kernel_text_split(struct kernel_call *k)
{
    const struct string_view *x = k->in[0].data;
    int64_t n = shape_elements(&k->in[0].shape), total = 0, widest = 0, at = 0;
    if (shape_elements(&k->in[1].shape) != 1) {
        return kernel_fail(k, PEN_ERR_SHAPE, "needs one text of separators");
    }
    struct splitter p = {.at = *(const struct string_view *)k->in[1].data,
                         .skip = node_int(k->n, ATTR_skip_empty, 1) != 0};
    for (int64_t i = 0; i < n; i++) {
        int64_t count = words_of(&p, &x[i], NULL);
        total += count;
        widest = count > widest ? count : widest;
    }
    struct shape indices = shape_of(2, (const int64_t[]){total, 2}), values = shape_of(1, &total),
                 dense = shape_of(1, (const int64_t[]){2});
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_I64, &indices);
    status = status == PEN_OK ? kernel_output(k, 1, PEN_DTYPE_STRING, &values) : status;
    status = status == PEN_OK ? kernel_output(k, 2, PEN_DTYPE_I64, &dense) : status;
    for (int64_t i = 0; status == PEN_OK && i < n; i++) {
        int64_t count = words_of(&p, &x[i], (struct string_view *)k->out[1].data + at);
        for (int64_t w = 0; w < count; w++, at++) {
            ((int64_t *)k->out[0].data)[2 * at] = i;
            ((int64_t *)k->out[0].data)[2 * at + 1] = w;
        }
    }
    if (status == PEN_OK) {
        ((int64_t *)k->out[2].data)[0] = n;
        ((int64_t *)k->out[2].data)[1] = widest;
    }
    return status;
}

/* ---- replacing -------------------------------------------------------------------------------------------------------- */

/* A text being written: once to count its bytes, once for real. */
struct sink {
    char *to; /* NULL: count */
    size_t bytes;
};

static void put(struct sink *s, const char *text, size_t bytes)
{
    if (s->to != NULL && bytes > 0) {
        memcpy(s->to + s->bytes, text, bytes);
    }
    s->bytes += bytes;
}

/* \0 to \9: what the group matched; \\: a backslash. */
static void put_rewrite(struct sink *s, const struct string_view *rewrite, const char *text, const regmatch_t *groups)
{
    for (size_t i = 0; i < rewrite->bytes; i++) {
        char c = rewrite->text[i], next = i + 1 < rewrite->bytes ? rewrite->text[i + 1] : '\0';
        if (c != '\\' || next == '\0') {
            put(s, &c, 1);
            continue;
        }
        i++;
        if (next >= '0' && next <= '9') {
            const regmatch_t *g = &groups[next - '0'];
            put(s, g->rm_so < 0 ? "" : text + g->rm_so, g->rm_so < 0 ? 0 : (size_t)(g->rm_eo - g->rm_so));
        } else {
            put(s, &next, 1);
        }
    }
}

static void replace_into(struct sink *s, const regex_t *re, const struct string_view *rewrite, const char *text,
                         bool all)
{
    regmatch_t groups[GROUPS];
    bool more = true;
    size_t left = strlen(text);
    for (int flags = 0; more && regexec(re, text, GROUPS, groups, flags) == 0; flags = REG_NOTBOL) {
        size_t from = (size_t)groups[0].rm_so, to = (size_t)groups[0].rm_eo;
        put(s, text, from);
        put_rewrite(s, rewrite, text, groups);
        if (from == to && to < left) { /* a match of nothing: the next one begins a byte further on */
            put(s, text + to, 1);
            to++;
        } else if (from == to) {
            more = false;
        }
        text += to;
        left -= to;
        more = more && all && left > 0;
    }
    put(s, text, left);
}

/* Groups are numbered by their brackets: translating (?:...) to (...) would number them anew. */
static bool groups_move(const struct string_view *pattern, const struct string_view *rewrite)
{
    bool unnumbered = false, named = false;
    for (size_t i = 0; i + 1 < pattern->bytes; i++) {
        unnumbered = unnumbered || (pattern->text[i] == '(' && pattern->text[i + 1] == '?');
    }
    for (size_t i = 0; i + 1 < rewrite->bytes; i++) {
        named = named || (rewrite->text[i] == '\\' && rewrite->text[i + 1] >= '1' && rewrite->text[i + 1] <= '9');
    }
    return unnumbered && named;
}

static enum pen_status replace_one(struct kernel_call *k, const regex_t *re, const struct string_view *rewrite,
                                   const struct string_view *x, struct string_view *y)
{
    bool all = node_int(k->n, ATTR_replace_all, 1) != 0;
    char *text = kernel_scratch(k, x->bytes + 1);
    if (text == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for text");
    }
    memcpy(text, x->bytes > 0 ? x->text : "", x->bytes);
    text[x->bytes] = '\0';
    struct sink count = {0}, real = {0};
    replace_into(&count, re, rewrite, text, all);
    real.to = kernel_scratch(k, count.bytes + 1);
    if (real.to == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for text");
    }
    replace_into(&real, re, rewrite, text, all);
    *y = (struct string_view){real.to, real.bytes};
    return PEN_OK;
}

enum pen_status kernel_text_replace(struct kernel_call *k)
{
    struct string_view pattern = text_attr(k, ATTR_pattern), rewrite = text_attr(k, ATTR_rewrite);
    char translated[1024];
    regex_t re;
    if (groups_move(&pattern, &rewrite) || !pattern_translate(&pattern, false, translated, sizeof translated) ||
        regcomp(&re, translated, REG_EXTENDED) != 0) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "the pattern is not understood or is above %zu bytes",
                           sizeof translated - 8);
    }
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_STRING, &k->in[0].shape);
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&k->in[0].shape); i++) {
        status = replace_one(k, &re, &rewrite, (const struct string_view *)k->in[0].data + i,
                             (struct string_view *)k->out[0].data + i);
    }
    regfree(&re);
    return status;
}

/* ---- n-grams ------------------------------------------------------------------------------------------------------------ */

struct grams {
    const int64_t *widths;
    uint32_t count;
    int64_t pad; /* on either side; -1: as many as fit */
    bool keep_short;
    struct string_view left, right, between;
};

static int64_t pad_of(const struct grams *g, int64_t width)
{
    return g->pad < 0 || g->pad > width - 1 ? width - 1 : g->pad;
}

static int64_t grams_of(const struct grams *g, int64_t words, int64_t width)
{
    int64_t n = words + 2 * pad_of(g, width) - width + 1;
    return n > 0 ? n : 0;
}

static int64_t grams_in_all(const struct grams *g, int64_t words)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        total += grams_of(g, words, g->widths[i]);
    }
    return total == 0 && g->keep_short && words > 0 ? 1 : total;
}

/* Gram `index` of `total` of that width; pad: words of padding that may be at either end. */
static void gram_write(const struct grams *g, const struct string_view *words, int64_t width, int64_t pad,
                       int64_t index, int64_t total, struct sink *s)
{
    int64_t left = pad > index ? pad - index : 0, behind = total - index - 1, right = pad > behind ? pad - behind : 0;
    const struct string_view *from = words + (left > 0 ? 0 : index - pad);
    for (int64_t i = 0; i < width; i++) {
        const struct string_view *w = i < left ? &g->left : i >= width - right ? &g->right : &from[i - left];
        put(s, i > 0 ? g->between.text : "", i > 0 ? g->between.bytes : 0);
        put(s, w->text, w->bytes);
    }
}

static enum pen_status gram_put(struct kernel_call *k, const struct grams *g, const struct string_view *words,
                                const int64_t *form, struct string_view *to)
{
    struct sink count = {0}, real = {0};
    gram_write(g, words, form[0], form[1], form[2], form[3], &count);
    real.to = kernel_scratch(k, count.bytes + 1);
    if (real.to == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for text");
    }
    gram_write(g, words, form[0], form[1], form[2], form[3], &real);
    *to = (struct string_view){real.to, real.bytes};
    return PEN_OK;
}

static enum pen_status row_put(struct kernel_call *k, const struct grams *g, const struct string_view *words,
                               int64_t count, struct string_view *to, int64_t total)
{
    enum pen_status status = PEN_OK;
    int64_t at = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        int64_t width = g->widths[i], n = grams_of(g, count, width);
        for (int64_t j = 0; j < n && status == PEN_OK; j++) {
            status = gram_put(k, g, words, (const int64_t[]){width, pad_of(g, width), j, n}, &to[at++]);
        }
    }
    if (at < total && status == PEN_OK) { /* too short for any: all of it is one */
        int64_t pad = g->pad < 0 ? 0 : g->pad;
        status = gram_put(k, g, words, (const int64_t[]){count + 2 * pad, pad, 0, 1}, to);
    }
    return status;
}

static enum pen_status grams_init(struct kernel_call *k, struct grams *g)
{
    *g = (struct grams){.pad = node_int(k->n, ATTR_pad_width, 0),
                        .keep_short = node_int(k->n, ATTR_preserve_short_sequences, 0) != 0,
                        .left = text_attr(k, ATTR_left_pad),
                        .right = text_attr(k, ATTR_right_pad),
                        .between = text_attr(k, ATTR_delimiter)};
    g->widths = node_ints(k->n, ATTR_ngram_widths, &g->count);
    for (uint32_t i = 0; g->widths != NULL && i < g->count; i++) {
        if (g->widths[i] < 1 || g->widths[i] > 65536) {
            return kernel_fail(k, PEN_ERR_INVALID, "n-grams of %lld words", (long long)g->widths[i]);
        }
    }
    return g->widths != NULL && g->pad <= 65536 ? PEN_OK : kernel_fail(k, PEN_ERR_INVALID, "n-grams of no width");
}

/* words [n], where each row's words begin [rows + 1] -> the n-grams of all rows, and where each row's begin */
enum pen_status kernel_text_ngrams(struct kernel_call *k)
{
    const struct string_view *words = k->in[0].data;
    int64_t n = shape_elements(&k->in[0].shape), rows = shape_elements(&k->in[1].shape) - 1, total = 0;
    struct grams g;
    enum pen_status status = grams_init(k, &g);
    if (status == PEN_OK) {
        status = kernel_output(k, 1, PEN_DTYPE_I64, &k->in[1].shape);
    }
    const int64_t *from = k->in[1].data;
    int64_t *to = status == PEN_OK ? k->out[1].data : NULL;
    for (int64_t r = 0; status == PEN_OK && r < rows; r++) {
        if (from[r] < 0 || from[r + 1] < from[r] || from[r + 1] > n) {
            return kernel_fail(k, PEN_ERR_INVALID, "row %lld lies outside of the words", (long long)r);
        }
        to[r] = total;
        total += grams_in_all(&g, from[r + 1] - from[r]);
    }
    if (status == PEN_OK && rows >= 0) {
        to[rows] = total;
    }
    struct shape out = shape_of(1, &total);
    status = status == PEN_OK ? kernel_output(k, 0, PEN_DTYPE_STRING, &out) : status;
    for (int64_t r = 0; status == PEN_OK && r < rows; r++) {
        status = row_put(k, &g, words + from[r], from[r + 1] - from[r], (struct string_view *)k->out[0].data + to[r],
                         to[r + 1] - to[r]);
    }
    return status;
}
