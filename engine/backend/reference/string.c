/* Operators on strings (UTF-8). Source: ONNX StringConcat, StringNormalizer, StringSplit, RegexFullMatch. */
#include "backend/reference/broadcast.h"
#include "backend/reference/pattern.h"

#include <regex.h>
#include <string.h>
#include <strings.h>

static char *text_new(struct kernel_call *k, size_t bytes)
{
    return kernel_scratch(k, bytes + 1);
}

enum pen_status kernel_string_concat(struct kernel_call *k)
{
    struct broadcast b;
    int64_t first, n;
    enum pen_status status = broadcast_init(k, 0, 2, &b);
    if (status == PEN_OK) {
        status = kernel_output(k, 0, PEN_DTYPE_STRING, &b.shape);
    }
    while (status == PEN_OK && broadcast_next(&b, &first, &n)) {
        for (int64_t i = 0; i < n; i++) {
            const struct string_view *x =
                (const struct string_view *)b.in[0].v->data + b.in[0].offset + i * b.in[0].step;
            const struct string_view *y =
                (const struct string_view *)b.in[1].v->data + b.in[1].offset + i * b.in[1].step;
            char *text = text_new(k, x->bytes + y->bytes);
            if (text == NULL) {
                return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for text");
            }
            memcpy(text, x->bytes > 0 ? x->text : "", x->bytes);
            memcpy(text + x->bytes, y->bytes > 0 ? y->text : "", y->bytes);
            ((struct string_view *)k->out[0].data)[first + i] = (struct string_view){text, x->bytes + y->bytes};
        }
    }
    return status;
}

/* ASCII letters change case; letters outside ASCII stay as they are. */
static enum pen_status change_case(struct kernel_call *k, bool upper, bool lower, struct string_view *s)
{
    char *text = text_new(k, s->bytes);
    if (text == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for text");
    }
    for (size_t i = 0; i < s->bytes; i++) {
        char c = s->text[i];
        c = upper && c >= 'a' && c <= 'z'   ? (char)(c - 'a' + 'A')
            : lower && c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a')
                                            : c;
        text[i] = c;
    }
    *s = (struct string_view){text, s->bytes};
    return PEN_OK;
}

static bool is_stopword(const struct attr *words, const struct string_view *s, bool exact)
{
    for (uint32_t i = 0; words != NULL && i < words->count; i++) {
        const struct string_view *w = &words->texts[i];
        if (w->bytes == s->bytes &&
            (exact ? memcmp(w->text, s->text, s->bytes) == 0 : strncasecmp(w->text, s->text, s->bytes) == 0)) {
            return true;
        }
    }
    return false;
}

/* Removes stopwords, then changes case; what remains of nothing is one empty string. Input [C] or [1, C]. */
enum pen_status kernel_string_normalizer(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    const struct attr *words = node_attr(k->n, ATTR_stopwords);
    const struct string_view *x = k->in[0].data;
    bool exact = node_int(k->n, ATTR_is_case_sensitive, 0) != 0;
    bool upper = node_text_is(k->n, ATTR_case_change_action, "UPPER", false),
         lower = node_text_is(k->n, ATTR_case_change_action, "LOWER", false);
    int64_t total = shape_elements(in), kept = 0;
    if (in->rank < 1 || in->rank > 2 || (in->rank == 2 && in->dim[0] != 1)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "needs one row of strings");
    }
    for (int64_t i = 0; i < total; i++) {
        kept += !is_stopword(words, &x[i], exact);
    }
    struct shape out = *in;
    out.dim[in->rank - 1] = kept == 0 ? 1 : kept;
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_STRING, &out);
    struct string_view *y = status == PEN_OK ? k->out[0].data : NULL;
    if (status == PEN_OK) {
        y[0] = (struct string_view){"", 0};
    }
    for (int64_t i = 0, at = 0; i < total && status == PEN_OK; i++) {
        if (!is_stopword(words, &x[i], exact)) {
            y[at] = x[i];
            status = upper || lower ? change_case(k, upper, lower, &y[at]) : PEN_OK;
            at++;
        }
    }
    return status;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next piece of *s behind delimiter d (empty: runs of white space); false at the end. `last`: take all that is left. */
static bool split_next(struct string_view *s, const struct string_view *d, bool last, bool *at_end,
                       struct string_view *ret)
{
    size_t n = 0;
    if (d->bytes == 0) {
        while (s->bytes > 0 && is_space(*s->text)) {
            s->text++;
            s->bytes--;
        }
        while (n < s->bytes && (last || !is_space(s->text[n]))) {
            n++;
        }
        *ret = (struct string_view){s->text, n};
        *s = (struct string_view){s->text + n, s->bytes - n};
        return n > 0;
    }
    if (*at_end) {
        return false;
    }
    while (n + d->bytes <= s->bytes && (last || memcmp(s->text + n, d->text, d->bytes) != 0)) {
        n++;
    }
    bool found = !last && n + d->bytes <= s->bytes;
    *ret = (struct string_view){s->text, found ? n : s->bytes};
    *at_end = !found;
    *s = found ? (struct string_view){s->text + n + d->bytes, s->bytes - n - d->bytes}
               : (struct string_view){s->text + s->bytes, 0};
    return true;
}

/* Pieces of one string, written to `to` when it is not NULL; gives their number. */
static int64_t split_one(struct string_view s, const struct string_view *d, int64_t most, struct string_view *to)
{
    int64_t count = 0;
    bool at_end = s.bytes == 0 && d->bytes > 0;
    struct string_view part;
    while (split_next(&s, d, most >= 0 && count == most, &at_end, &part)) {
        if (to != NULL) {
            to[count] = part;
        }
        count++;
    }
    return count;
}

enum pen_status kernel_string_split(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    const struct attr *d = node_attr(k->n, ATTR_delimiter), *limit = node_attr(k->n, ATTR_maxsplit);
    struct string_view delimiter = d != NULL ? d->text : (struct string_view){"", 0};
    const struct string_view *x = k->in[0].data;
    int64_t total = shape_elements(in), widest = 0, most = limit != NULL ? limit->i : -1;
    if (in->rank >= PEN_MAX_RANK) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "rank %d", in->rank);
    }
    for (int64_t i = 0; i < total; i++) {
        int64_t count = split_one(x[i], &delimiter, most, NULL);
        widest = count > widest ? count : widest;
    }
    struct shape out = *in;
    out.dim[out.rank++] = widest;
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_STRING, &out);
    if (status == PEN_OK) {
        status = kernel_output(k, 1, PEN_DTYPE_I64, in);
    }
    for (int64_t i = 0; i < total && status == PEN_OK; i++) {
        struct string_view *row = (struct string_view *)k->out[0].data + i * widest;
        int64_t count = split_one(x[i], &delimiter, most, row);
        ((int64_t *)k->out[1].data)[i] = count;
        for (; count < widest; count++) {
            row[count] = (struct string_view){"", 0};
        }
    }
    return status;
}

/* The whole string must match. */
enum pen_status kernel_regex_full_match(struct kernel_call *k)
{
    const struct attr *p = node_attr(k->n, ATTR_pattern);
    const struct string_view *x = k->in[0].data;
    char pattern[1024];
    regex_t re;
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_BOOL, &k->in[0].shape);
    if (status != PEN_OK) {
        return status;
    }
    if (p == NULL || !pattern_translate(&p->text, true, pattern, sizeof pattern) ||
        regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) != 0) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "the pattern is not understood or is above %zu bytes",
                           sizeof pattern - 8);
    }
    for (int64_t i = 0; i < shape_elements(&k->in[0].shape) && status == PEN_OK; i++) {
        char *text = text_new(k, x[i].bytes);
        if (text == NULL) {
            status = kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for text");
            break;
        }
        memcpy(text, x[i].bytes > 0 ? x[i].text : "", x[i].bytes);
        text[x[i].bytes] = '\0';
        ((uint8_t *)k->out[0].data)[i] = regexec(&re, text, 0, NULL, 0) == 0;
    }
    regfree(&re);
    return status;
}
