/* http_head.h: heads, chunks, lists and paths. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "http_head.h"

static struct http_head head;
static unsigned status;
static char text[65536];

static const char *parse(const char *from)
{
    size_t bytes = strlen(from);
    memcpy(text, from, bytes);
    cr_assert_eq(http_head_end(text, bytes), bytes);
    return http_head_parse(text, bytes, &head, &status);
}

Test(http_head, a_request_is_taken_apart)
{
    cr_assert_null(parse("POST /v2/models/a%20b/infer?x=1 HTTP/1.1\r\nHost: h\r\ncontent-LENGTH:  12 \r\nX:\r\n\r\n"));
    cr_assert_str_eq(head.method, "POST");
    cr_assert_str_eq(head.path, "/v2/models/a%20b/infer");
    cr_assert_str_eq(head.query, "x=1");
    cr_assert(head.minor == 1 && head.keep_alive && head.has_length && head.length == 12 && !head.chunked &&
              !head.expects);
    cr_assert_str_eq(http_head_find(&head, "x"), "");
    cr_assert_null(http_head_find(&head, "y"));
    cr_assert_null(parse("GET http://h/v2 HTTP/1.0\n\n"));
    cr_assert_str_eq(head.path, "/v2");
    cr_assert_not(head.keep_alive);
    cr_assert_null(parse("GET / HTTP/1.1\r\nHost:\r\nConnection: Foo, Close\r\nExpect: 100-Continue\r\n\r\n"));
    cr_assert(!head.keep_alive && head.expects);
}

Test(http_head, it_ends_where_the_empty_line_does)
{
    cr_assert_eq(http_head_end("A\r\n\r\nB", 6), 5);
    cr_assert_eq(http_head_end("A\n\nB", 4), 3);
    cr_assert_eq(http_head_end("A\r\n\r", 4), 0);
    cr_assert_eq(http_head_end("", 0), 0);
}

Test(http_head, what_could_be_read_in_two_ways_is_refused)
{
    static const struct {
        const char *text;
        unsigned status;
    } cases[] = {{"GET /\r\n\r\n", 400},
                 {"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
                 {"GE(T / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
                 {"GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 505},
                 {"GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505},
                 {"GET / HTTP/1.1\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\nA b: c\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\nA : c\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\n: c\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\nA\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\nA: \x01\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999999999999999\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
                 {"GET / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
                 {"GET / HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n", 417}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_not_null(parse(cases[i].text), "%s", cases[i].text);
        cr_assert_eq(status, cases[i].status, "%s: %u", cases[i].text, status);
    }
}

Test(http_head, paths_are_decoded_in_place)
{
    static const struct {
        const char *from, *to;
    } cases[] = {{"a%20b", "a b"}, {"%61", "a"}, {"%c3%A9x", "\xc3\xa9x"}, {"", ""}, {"%", NULL}, {"%4", NULL},
                 {"%zz", NULL},    {"%00", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy(text, cases[i].from);
        cr_assert(http_decode(text) == (cases[i].to != NULL), "%s", cases[i].from);
        if (cases[i].to)
            cr_assert_str_eq(text, cases[i].to);
    }
}

Test(http_head, lists_name_words_and_weights)
{
    cr_assert(http_list_has("gzip", "gzip") && http_list_has("deflate , GZIP;q=0.5", "gzip") &&
              http_list_has("a,gzip", "gzip"));
    cr_assert(!http_list_has("gzipx", "gzip") && !http_list_has("", "gzip") && !http_list_has("gzip;q=0", "gzip") &&
              !http_list_has("gzip; q=0.000, br", "gzip"));
    cr_assert(http_list_has("br;q=0, gzip", "gzip") && http_list_has("gzip;q=0.001", "gzip"));
}

/* However it is cut into pieces. */
static bool unchunk(const char *from, size_t piece, char *to)
{
    struct http_chunks chunks = {.left = 0};
    size_t bytes = strlen(from), at = 0, used = 0;
    while (at < bytes && chunks.state != CHUNK_DONE && chunks.state != CHUNK_BAD) {
        const char *data;
        size_t count, room = bytes - at < piece ? bytes - at : piece;
        at += http_chunks_take(&chunks, from + at, room, &data, &count);
        memcpy(to + used, data, count);
        used += count;
    }
    to[used] = '\0';
    return chunks.state == CHUNK_DONE && at == bytes;
}

Test(http_head, chunks_come_together)
{
    static const char *const bad[] = {
        "x\r\n", "\r\n",          "1\n",         "1\r\nab\r\n0\r\n\r\n", "ffffffffffffffff1\r\n",
        "1 \n",  "0\r\n\r\n\r\n", "1\r\na\n\r\n"};
    char to[256];
    for (size_t piece = 1; piece < 40; piece++) {
        cr_assert(unchunk("3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", piece, to), "in pieces of %zu", piece);
        cr_assert_str_eq(to, "abc0123456789");
        cr_assert(unchunk("00\r\nTrailer: a\r\n\r\n", piece, to) && *to == '\0');
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(!unchunk(bad[i], 100, to), "%s", bad[i]);
}

Test(http_head, what_begins_no_request_is_told_from_its_first_byte)
{
    cr_expect_null(http_head_begins("", 0));
    cr_expect_null(http_head_begins("G", 1));
    cr_expect_null(http_head_begins("\r\n", 2));
    cr_expect(strstr(http_head_begins("\x16\x03\x01", 3), "without TLS"));
    cr_expect(strstr(http_head_begins("\0", 1), "a method"));
    cr_expect(strstr(http_head_begins(" GET", 4), "a method"));
}
