#include "http_head.h"

#include <string.h>
#include <strings.h>

#define TRAILER_MAX 4096u

/* RFC 9110, 5.6.2: what a token may be made of, besides letters and digits. */
static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

size_t http_head_end(const char *text, size_t bytes)
{
    const char *at = text, *end = text + bytes;
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        if (at < end && *at == '\n')
            return (size_t)(at + 1 - text);
        if (end - at > 1 && at[0] == '\r' && at[1] == '\n')
            return (size_t)(at + 2 - text);
    }
    return 0;
}

#define TLS_HANDSHAKE 0x16 /* RFC 8446, 5.1: the first byte of a ClientHello */

const char *http_head_begins(const char *text, size_t bytes)
{
    if (bytes == 0 || is_token_char(text[0]) || text[0] == '\r' || text[0] == '\n')
        return NULL;
    return text[0] == TLS_HANDSHAKE ? "this address speaks HTTP without TLS: ask http://, or put a proxy before it"
                                    : "the request does not begin with a method";
}

/* The next line without its end, which becomes zeros. */
static char *take_line(char **at, const char *end)
{
    char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop)
        return NULL;
    *at = stop + 1;
    *stop = '\0';
    if (stop > line && stop[-1] == '\r')
        stop[-1] = '\0';
    return line;
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

/* "http://host/path" is what a proxy would be asked: the host is left out. */
static const char *path_of(char *target)
{
    if (strncasecmp(target, "http://", 7) != 0)
        return target;
    char *slash = strchr(target + 7, '/');
    return slash ? slash : "/";
}

static const char *parse_line(char *line, struct http_head *head, unsigned *ret_status)
{
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version)
        return "the first line of the request is not METHOD PATH HTTP/1.1";
    *target++ = *version++ = '\0';
    for (const char *c = line; *c || c == line; c++)
        if (!is_token_char(*c))
            return "the request's method is malformed";
    if (strncmp(version, "HTTP/1.", 7) != 0 || version[7] < '0' || version[7] > '9' || version[8]) {
        *ret_status = strncmp(version, "HTTP/", 5) == 0 ? 505 : 400;
        return "only HTTP/1.1 and HTTP/1.0 are spoken here";
    }
    if (!*target || !is_printable(target))
        return "the request's path is malformed";
    char *query = strchr(target, '?');
    if (query)
        *query++ = '\0';
    head->method = line;
    head->path = path_of(target);
    head->query = query ? query : "";
    head->minor = (unsigned)(version[7] - '0');
    return NULL;
}

static const char *parse_field(char *line, struct http_head *head, unsigned *ret_status)
{
    char *colon = strchr(line, ':');
    if (*line == ' ' || *line == '\t')
        return "a header goes on in a second line, which is no longer allowed";
    if (!colon || colon == line)
        return "a header has no name or no colon";
    for (const char *c = line; c < colon; c++)
        if (!is_token_char(*c))
            return "a header's name holds what no name may hold";
    *colon++ = '\0';
    colon += strspn(colon, " \t");
    char *end = colon + strlen(colon);
    while (end > colon && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = '\0';
    for (const char *c = colon; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
            return "a header's value holds a control character";
    if (head->fields_count == HTTP_FIELDS_MAX) {
        *ret_status = 431;
        return "the request has more than 100 headers";
    }
    head->fields[head->fields_count++] = (struct http_field){line, colon};
    return NULL;
}

const char *http_head_find(const struct http_head *head, const char *name)
{
    for (size_t i = 0; i < head->fields_count; i++)
        if (strcasecmp(head->fields[i].name, name) == 0)
            return head->fields[i].value;
    return NULL;
}

static size_t count_of(const struct http_head *head, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < head->fields_count; i++)
        count += strcasecmp(head->fields[i].name, name) == 0;
    return count;
}

/* "q=0", "q=0.000": the sender does not want it. */
static bool is_refused(const char *parameters)
{
    const char *weight = strstr(parameters, "q=");
    const char *end = parameters + strcspn(parameters, ",");
    if (!weight || weight >= end)
        return false;
    weight += 2;
    return *weight == '0' && strcspn(weight, "123456789") >= strcspn(weight, ", \t");
}

bool http_list_has(const char *list, const char *word)
{
    size_t length = strlen(word);
    while (*list) {
        list += strspn(list, " \t,");
        const char *behind = list + length;
        if (strncasecmp(list, word, length) == 0 && (!*behind || strchr(" \t,;", *behind)))
            return !is_refused(behind);
        list += strcspn(list, ",");
    }
    return false;
}

static const char *parse_length(const char *text, struct http_head *head)
{
    if (strspn(text, "0123456789") != strlen(text) || !*text || strlen(text) > 18)
        return "Content-Length is no number";
    for (; *text; text++)
        head->length = head->length * 10 + (uint64_t)(*text - '0');
    head->has_length = true;
    return NULL;
}

/* What says how long the body is must say it once. */
static const char *parse_framing(struct http_head *head, unsigned *ret_status)
{
    const char *length = http_head_find(head, "Content-Length"), *coding = http_head_find(head, "Transfer-Encoding");
    if (count_of(head, "Content-Length") > 1 || count_of(head, "Transfer-Encoding") > 1)
        return "the request says more than once how long its body is";
    if (length && coding)
        return "the request has both Content-Length and Transfer-Encoding";
    if (coding && (strcasecmp(coding, "chunked") != 0 || head->minor == 0)) {
        *ret_status = 501;
        return "no Transfer-Encoding but chunked is understood here, and that only in HTTP/1.1";
    }
    head->chunked = coding != NULL;
    return length ? parse_length(length, head) : NULL;
}

static const char *parse_rest(struct http_head *head, unsigned *ret_status)
{
    const char *connection = http_head_find(head, "Connection"), *expect = http_head_find(head, "Expect");
    if (count_of(head, "Host") > 1)
        return "the request has more than one Host header";
    if (head->minor > 0 && !http_head_find(head, "Host"))
        return "the request has no Host header";
    head->keep_alive = head->minor > 0 ? !(connection && http_list_has(connection, "close"))
                                       : connection && http_list_has(connection, "keep-alive");
    if (expect && *expect && strcasecmp(expect, "100-continue") != 0) {
        *ret_status = 417;
        return "nothing but 100-continue can be expected here";
    }
    head->expects = expect && *expect && head->minor > 0;
    return parse_framing(head, ret_status);
}

const char *http_head_parse(char *text, size_t bytes, struct http_head *ret_head, unsigned *ret_status)
{
    char *at = text, *line;
    *ret_head = (struct http_head){.method = "", .path = "", .query = ""};
    *ret_status = 400;
    if (memchr(text, 0, bytes))
        return "the request's head holds a zero byte";
    const char *why = (line = take_line(&at, text + bytes)) ? parse_line(line, ret_head, ret_status)
                                                            : "the request has no first line";
    while (!why && (line = take_line(&at, text + bytes)) && *line)
        why = parse_field(line, ret_head, ret_status);
    return why ? why : parse_rest(ret_head, ret_status);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool http_decode(char *text)
{
    char *to = text;
    for (const char *at = text; *at; to++) {
        if (*at != '%') {
            *to = *at++;
            continue;
        }
        int high = hex_digit(at[1]), low = high >= 0 ? hex_digit(at[2]) : -1;
        if (low < 0 || high + low == 0)
            return false;
        *to = (char)(high * 16 + low);
        at += 3;
    }
    *to = '\0';
    return true;
}

/* ---- chunks ---- */

static enum http_chunk_state chunk_size(struct http_chunks *chunks, char c)
{
    int digit = hex_digit(c);
    if (digit >= 0 && chunks->digits < 15) {
        chunks->left = chunks->left * 16 + (uint64_t)digit;
        chunks->digits++;
        return CHUNK_SIZE;
    }
    if (digit >= 0 || chunks->digits == 0)
        return CHUNK_BAD;
    chunks->digits = 0;
    return c == '\r' ? CHUNK_SIZE_END : c == ';' || c == ' ' || c == '\t' ? CHUNK_EXTENSION : CHUNK_BAD;
}

/* The state behind this character, which is no data. */
static enum http_chunk_state chunk_step(struct http_chunks *chunks, char c)
{
    switch (chunks->state) {
    case CHUNK_SIZE:
        return chunk_size(chunks, c);
    case CHUNK_EXTENSION:
        return ++chunks->trailer > TRAILER_MAX || c == '\n' ? CHUNK_BAD : c == '\r' ? CHUNK_SIZE_END : CHUNK_EXTENSION;
    case CHUNK_SIZE_END:
        return c != '\n' ? CHUNK_BAD : chunks->left ? CHUNK_DATA : CHUNK_TRAILER;
    case CHUNK_DATA_END:
        if (c == '\r' && chunks->digits++ == 0)
            return CHUNK_DATA_END;
        if (c != '\n' || chunks->digits != 1)
            return CHUNK_BAD;
        chunks->digits = 0;
        return CHUNK_SIZE;
    case CHUNK_TRAILER:
        return c == '\r' ? CHUNK_TRAILER_END : c == '\n' ? CHUNK_BAD : CHUNK_TRAILER_LINE;
    case CHUNK_TRAILER_LINE:
        return ++chunks->trailer > TRAILER_MAX ? CHUNK_BAD : c == '\n' ? CHUNK_TRAILER : CHUNK_TRAILER_LINE;
    case CHUNK_TRAILER_END:
        return c == '\n' ? CHUNK_DONE : CHUNK_BAD;
    default:
        return CHUNK_BAD;
    }
}

size_t http_chunks_take(struct http_chunks *chunks, const char *text, size_t bytes, const char **ret_data,
                        size_t *ret_count)
{
    size_t at = 0;
    *ret_count = 0;
    *ret_data = text;
    while (at < bytes && chunks->state != CHUNK_DATA && chunks->state != CHUNK_DONE && chunks->state != CHUNK_BAD)
        chunks->state = chunk_step(chunks, text[at++]);
    if (chunks->state != CHUNK_DATA)
        return at;
    size_t count = bytes - at < chunks->left ? bytes - at : (size_t)chunks->left;
    *ret_data = text + at;
    *ret_count = count;
    chunks->left -= count;
    if (chunks->left == 0)
        chunks->state = CHUNK_DATA_END;
    return at + count;
}
