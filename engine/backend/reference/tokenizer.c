/* Tokenizer (com.microsoft): the words of each text, by an expression of a word or by separators. Source: onnxruntime's contrib operators. */
#include <regex.h>
#include <string.h>

#include "backend/reference/kernels.h"
#include "backend/reference/pattern.h"

#define SEPARATORS_MAX 64
#define PATTERN_BYTES  1024

struct tokenizer {
    regex_t words;                      /* what a word is, or ... */
    regex_t separators[SEPARATORS_MAX]; /* ... what stands between words; none: every character is a word */
    uint32_t words_count, separator_count;
    int64_t least; /* characters of a word */
    bool mark;
    struct string_view pad;
};

static bool compile(const struct string_view *pattern, regex_t *re)
{
    char text[PATTERN_BYTES];
    return pattern_translate(pattern, false, text, sizeof text) && regcomp(re, text, REG_EXTENDED) == 0;
}

static void tokenizer_fini(struct tokenizer *t)
{
    for (uint32_t i = 0; i < t->separator_count; i++) {
        regfree(&t->separators[i]);
    }
    if (t->words_count > 0) {
        regfree(&t->words);
    }
}

static enum pen_status tokenizer_init(struct kernel_call *k, struct tokenizer *t)
{
    const struct attr *words = node_attr(k->n, ATTR_tokenexp), *list = node_attr(k->n, ATTR_separators);
    const struct attr *pad = node_attr(k->n, ATTR_pad_value);
    memset(t, 0, sizeof *t);
    t->least = node_int(k->n, ATTR_mincharnum, 1);
    t->mark = node_int(k->n, ATTR_mark, 0) != 0;
    t->pad = pad != NULL && pad->type == ATTR_TEXT ? pad->text : (struct string_view){"", 0};
    bool ok = words == NULL || compile(&words->text, &t->words);
    t->words_count = words != NULL && ok;
    uint32_t count = list != NULL && words == NULL ? list->count : 0;
    bool characters = count == 1 && list->texts[0].bytes == 0;
    for (uint32_t i = 0; ok && !characters && i < count && count <= SEPARATORS_MAX; i++) {
        ok = compile(&list->texts[i], &t->separators[i]);
        t->separator_count += ok;
    }
    if (!ok || count > SEPARATORS_MAX) {
        tokenizer_fini(t);
        return kernel_fail(k, PEN_ERR_UNSUPPORTED,
                           "an expression is not understood, is above %d bytes, or there are above %d", PATTERN_BYTES,
                           SEPARATORS_MAX);
    }
    return PEN_OK;
}

/* The end of the UTF-8 character that `at` lies in or before. */
static size_t character_end(const char *text, size_t at)
{
    while (((unsigned char)text[at] & 0xC0) == 0x80) {
        at++;
    }
    return at;
}

static int64_t characters(const char *text, size_t bytes)
{
    int64_t count = 0;
    for (size_t i = 0; i < bytes; i++) {
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    return count;
}

/* The first match of the expression, or of the separator that begins first; false when there is none. Never empty. */
static bool match_next(const struct tokenizer *t, const char *text, size_t *ret_from, size_t *ret_to)
{
    const regex_t *list = t->words_count > 0 ? &t->words : t->separators;
    uint32_t count = t->words_count > 0 ? 1 : t->separator_count;
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        regmatch_t m;
        if (regexec(&list[i], text, 1, &m, 0) == 0 && m.rm_eo > m.rm_so && (!found || (size_t)m.rm_so < *ret_from)) {
            *ret_from = (size_t)m.rm_so;
            *ret_to = character_end(text, (size_t)m.rm_eo);
            found = true;
        }
    }
    return found;
}

/* Words of one text (NUL behind it), written to `to` when it is not NULL; gives their number. */
static int64_t words_of(const struct tokenizer *t, const char *text, struct string_view *to)
{
    int64_t count = 0;
    while (*text != '\0') {
        size_t from = 0, end = 0, length = strlen(text), word = 0, bytes = 0, next = 0;
        if (t->words_count > 0) {
            if (!match_next(t, text, &from, &end)) {
                break;
            }
            word = from;
            bytes = end - from;
            next = end;
        } else if (t->separator_count == 0) {
            bytes = next = character_end(text, 1);
        } else {
            bool found = match_next(t, text, &from, &end);
            bytes = found ? from : length;
            next = found ? end : length;
        }
        if (bytes > 0 && characters(text + word, bytes) >= t->least) {
            if (to != NULL) {
                to[count] = (struct string_view){text + word, bytes};
            }
            count++;
        }
        text += next;
    }
    return count;
}

static const char *terminated(struct kernel_call *k, const struct string_view *s)
{
    char *text = kernel_scratch(k, s->bytes + 1);
    if (text != NULL) {
        memcpy(text, s->bytes > 0 ? s->text : "", s->bytes);
        text[s->bytes] = '\0';
    }
    return text;
}

/* [..., most words]: shorter ones end with the pad value; marks stand first and last. */
static void row_write(const struct tokenizer *t, const char *text, struct string_view *row, int64_t width)
{
    static const struct string_view begin = {"\x02", 1}, end = {"\x03", 1};
    int64_t at = t->mark, count = words_of(t, text, row + t->mark);
    if (t->mark) {
        row[0] = begin;
        row[width - 1] = end;
    }
    for (at += count; at < width - t->mark; at++) {
        row[at] = t->pad;
    }
}

static enum pen_status tokenize(struct kernel_call *k, const struct tokenizer *t)
{
    const struct rt_value *x = &k->in[0];
    int64_t total = shape_elements(&x->shape), most = 0;
    const char **texts = kernel_scratch(k, (size_t)total * sizeof *texts);
    for (int64_t i = 0; i < total; i++) {
        const char *text = texts != NULL ? terminated(k, (const struct string_view *)x->data + i) : NULL;
        if (text == NULL) {
            return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld texts", (long long)total);
        }
        texts[i] = text;
        int64_t count = words_of(t, text, NULL);
        most = count > most ? count : most;
    }
    struct shape out = x->shape;
    if (out.rank >= PEN_MAX_RANK) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "rank %d", out.rank);
    }
    most += most > 0 && t->mark ? 2 : 0;
    out.dim[out.rank++] = most;
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_STRING, &out);
    for (int64_t i = 0; status == PEN_OK && most > 0 && i < total; i++) {
        row_write(t, texts[i], (struct string_view *)k->out[0].data + i * most, most);
    }
    return status;
}

enum pen_status kernel_tokenizer(struct kernel_call *k)
{
    struct tokenizer t;
    enum pen_status status = tokenizer_init(k, &t);
    if (status == PEN_OK) {
        status = tokenize(k, &t);
        tokenizer_fini(&t);
    }
    return status;
}
