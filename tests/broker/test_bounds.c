/* Small rules at their bounds: characters, addresses, probes, what is kept of a decision, who is done when; and values on their way to Redis and back. */
#include <criterion/criterion.h>
#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "decision.h"
#include "fleet.h"
#include "link.h"
#include "loss.h"
#include "match.h"
#include "redis_mail.h"
#include "utf8.h"

/* ---- characters ------------------------------------------------------------------------------------------------------ */

/* As RFC 3629 writes them; the number of bytes. */
static size_t encode(uint32_t point, unsigned char bytes[5])
{
    memset(bytes, 0, 5);
    if (point < 0x80) {
        bytes[0] = (unsigned char)point;
        return 1;
    }
    size_t count = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = count; i-- > 1; point >>= 6)
        bytes[i] = (unsigned char)(0x80 | (point & 0x3F));
    bytes[0] = (unsigned char)((0xF00 >> count) | point);
    return count;
}

Test(utf8, each_character_has_its_length)
{
    unsigned char bytes[5];
    for (uint32_t point = 1; point <= 0x10FFFF; point++) {
        size_t count = encode(point, bytes);
        bool surrogate = point >= 0xD800 && point <= 0xDFFF;
        cr_assert_eq(utf8_sequence(bytes), surrogate ? 0 : count, "U+%04X", point);
    }
    cr_expect_eq(utf8_sequence((const unsigned char *)""), 1u);
}

Test(utf8, whatever_else_begins_none)
{
    static const char *const wrong[] = {"\x80",
                                        "\xBF",
                                        "\xC0\x80",
                                        "\xC1\xBF",
                                        "\xC2",
                                        "\xC2\x7F",
                                        "\xC2\xC0",
                                        "\xE0\x9F\xBF",
                                        "\xE1\x80",
                                        "\xE1\x80\x7F",
                                        "\xE1\x80\xC0",
                                        "\xED\xA0\x80",
                                        "\xF0\x8F\xBF\xBF",
                                        "\xF4\x90\x80\x80",
                                        "\xF5\x80\x80\x80",
                                        "\xF1\x80\x80",
                                        "\xF1\x80\x80\x41",
                                        "\xF1\x80\x41\x80",
                                        "\xFF",
                                        "\xFE\x80"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_expect_eq(utf8_sequence((const unsigned char *)wrong[i]), 0u, "%zu", i);
}

/* ---- addresses ------------------------------------------------------------------------------------------------------- */

static bool parses(const char *text, int family, unsigned port)
{
    struct sockaddr_storage to;
    socklen_t size = 0;
    struct pen_error error = {.status = PEN_OK};
    if (address_parse(text, &to, &size, &error) != PEN_OK)
        return false;
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)&to;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)&to;
    cr_expect_eq(to.ss_family, family, "%s", text);
    cr_expect_eq(ntohs(family == AF_INET6 ? six->sin6_port : four->sin_port), port, "%s", text);
    cr_expect_eq(size, family == AF_INET6 ? sizeof *six : sizeof *four, "%s", text);
    return true;
}

Test(address, has_a_host_and_a_port)
{
    static const char *const wrong[] = {"",
                                        ":1",
                                        "127.0.0.1",
                                        "127.0.0.1:",
                                        "127.0.0.1:0",
                                        "127.0.0.1:65536",
                                        "127.0.0.1:1x",
                                        "127.0.0.1:-1",
                                        "::1",
                                        "[::1]",
                                        "[]:1",
                                        "[::1:1",
                                        "::1]:1",
                                        "[127.0.0.1]:1",
                                        "host:1",
                                        "127.0.0.1:**",
                                        "[::1]x:1",
                                        "1111111111111111111111111111111111111111111111111111111111111111:1"};
    cr_expect(parses("127.0.0.1:1", AF_INET, 1) && parses("0.0.0.0:65535", AF_INET, 65535) &&
              parses("127.0.0.1:*", AF_INET, 0));
    cr_expect(parses("[::1]:8002", AF_INET6, 8002) && parses("[::]:*", AF_INET6, 0));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_expect_not(parses(wrong[i], AF_INET, 0), "%s", wrong[i]);
}

Test(address, of_this_host)
{
    static const char *const local[] = {"localhost", "LocalHost:80", "127.0.0.1",  "127.9.9.9:1",
                                        "[::1]",     "[::1]:8002",   "localhost:*"};
    static const char *const others[] = {"localhos",
                                         "localhostx",
                                         "localhost.evil",
                                         "128.0.0.1",
                                         "127.evil.example",
                                         "[::2]",
                                         "[::1",
                                         "::1",
                                         "127.0.0.1:80, evil.example",
                                         "localhost:80x",
                                         "[::1]x",
                                         "",
                                         "example:80",
                                         "[::1]:8a"};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        cr_expect(address_host_local(local[i]), "%s", local[i]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_not(address_host_local(others[i]), "%s", others[i]);
}

static bool collector(const char *url, const char *host, const char *port, const char *path)
{
    struct collector_address to;
    struct pen_error error = {.status = PEN_OK};
    if (address_collector(url, &to, &error) != PEN_OK)
        return false;
    cr_expect(strcmp(to.host, host) == 0 && strcmp(to.port, port) == 0 && strcmp(to.path, path) == 0, "%s: %s %s %s",
              url, to.host, to.port, to.path);
    return true;
}

Test(address, of_a_collector)
{
    static const char *const wrong[] = {"https://a:1",
                                        "http://a",
                                        "http://:1",
                                        "http://a:",
                                        "http://a:0",
                                        "http://a:65536",
                                        "http://a:1x",
                                        "http://a:123456",
                                        "http://[::1:1",
                                        "http://[]:1",
                                        "http://a:1/a b",
                                        "a:1",
                                        ""};
    cr_expect(collector("http://a:1", "a", "1", "/v1/traces") &&
              collector("http://a:65535/", "a", "65535", "/v1/traces"));
    cr_expect(collector("http://[::1]:4318/x", "::1", "4318", "/x") &&
              collector("http://a.b:80/x/y", "a.b", "80", "/x/y"));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_expect_not(collector(wrong[i], "", "", ""), "%s", wrong[i]);
}

/* ---- links ------------------------------------------------------------------------------------------------------------ */

Test(line, a_peer_that_takes_nothing_is_asked_and_is_full_at_the_cap)
{
    struct link link;
    link_init(&link, 7, 3, 50);
    cr_expect(link.peer == 7 && link.fd == 3 && link.heard_us == 50 && link.sent_us == 50 && !link_probing(&link));
    link_sent(&link, 100, 60);
    cr_expect_eq(link.sent_us, 60u);
    cr_expect_not(link_wants_ping(&link, 800));
    link_sent(&link, 1, 61);
    cr_expect(link_wants_ping(&link, 800), "more than an eighth is not taken");
    cr_expect_not(link_full(&link, 101));
    cr_expect(link_full(&link, 100));
    link_pinged(&link, 70);
    cr_expect(link.sent_us == 70 && !link_wants_ping(&link, 800), "one question at a time");
    link_sent(&link, 9, 71);
    link_pinged(&link, 72);
    link_ponged(&link);
    cr_expect_eq(link.bytes_taken, 101u, "what was sent before the first ping");
    link_ponged(&link);
    link_ponged(&link);
    cr_expect(link.pongs == 2 && link.bytes_taken == 101, "an answer to nothing changes nothing");
}

Test(line, probes_have_their_times)
{
    struct link link;
    link_init(&link, 1, -1, 0);
    cr_expect_eq(link_probe_next_us(&link), UINT64_MAX);
    cr_expect_eq(link_probed_us(&link, 5), 0u);
    link_probe(&link, 1000);
    cr_expect(link_probe_due(&link, 1000) && !link_probe_due(&link, 1099) && link_probe_due(&link, 1100));
    cr_expect_eq(link_probe_next_us(&link), 1300u);
    cr_expect_eq(link_probed_us(&link, 1250), 250u);
    cr_expect_eq(link_probed_us(&link, 1201000), 1200000u);
    cr_expect_eq(link_probed_us(&link, 1201001), 0u, "the last one was sent long ago");
    for (unsigned i = 2; i < LINK_PROBES; i++)
        cr_expect(link_probing(&link) && link_probe_due(&link, 9000000));
    cr_expect(!link_probing(&link) && !link_probe_due(&link, 9000000));
}

Test(line, a_run_is_slow_beyond_a_second_and_eight_times_what_was_expected)
{
    cr_expect(!loss_slow(1000000, 1) && loss_slow(1000001, 1));
    cr_expect(!loss_slow(8000000, 1000000) && loss_slow(8000008, 1000000));
    cr_expect_eq(loss_of_silent(-1, 1000000), LOSS_SILENT);
    static const char *const names[] = {"closed", "frozen", "cut", "silent"};
    for (unsigned i = 0; i < LOSS_COUNT; i++)
        cr_expect_str_eq(loss_name((enum loss)i), names[i]);
}

/* ---- decisions ---------------------------------------------------------------------------------------------------------- */

Test(decision, keeps_the_chosen_one_and_the_quickest_others)
{
    struct worker workers[7];
    struct offer offers[7], *list[7];
    struct match_candidate candidates[7];
    static const uint64_t us[] = {70, 20, 60, 10, 50, 30, 40};
    struct decision decision;
    for (size_t i = 0; i < 7; i++) {
        workers[i] = (struct worker){.uuid = us[i]};
        offers[i] = (struct offer){.worker = &workers[i]};
        list[i] = &offers[i];
        candidates[i] = (struct match_candidate){
            .backlog_us = us[i] - 6, .expect_us = 3, .transfer_us = 2, .load_us = 1, .credit = i % 2 == 0};
    }
    decision_fill(&decision, list, candidates, 7, 2);
    cr_assert(decision.count == 4 && decision.capable == 7);
    static const uint64_t kept[] = {60, 10, 20, 30};
    for (size_t i = 0; i < 4; i++) {
        const struct weighed *w = &decision.kept[i];
        cr_expect(w->worker == kept[i] && weighed_completion_us(w) == kept[i] && w->chosen == (i == 0));
        cr_expect(w->backlog_us == kept[i] - 6 && w->expect_us == 3 && w->transfer_us == 2 && w->load_us == 1 &&
                  w->credit == (i == 0));
    }
    decision_fill(&decision, list, candidates, 3, MATCH_WAIT);
    cr_expect(decision.count == 3 && decision.kept[0].worker == 20 && decision.kept[1].worker == 60 &&
              decision.kept[2].worker == 70);
    cr_expect(!decision.kept[0].chosen && decision.capable == 3);
    candidates[0].backlog_us = UINT64_C(1) << 40;
    decision_fill(&decision, list, candidates, 1, 0);
    cr_expect(decision.count == 1 && decision.kept[0].backlog_us == UINT32_MAX, "more than it can say");
}

Test(decision, who_is_aside_counts_jobs_of_no_time_as_of_one_microsecond)
{
    uint64_t rank;
    struct match_candidate c[] = {{.backlog_us = 5}, {.expect_us = 8, .credit = true}};
    cr_expect_eq(match_aside(c, 2, 4, &rank), 1);
    cr_expect_eq(rank, 4u);
    cr_expect_eq(match_aside(c, 2, 3, &rank), MATCH_WAIT);
    c[0].backlog_us = 8;
    cr_expect(match_aside(c, 2, 9, &rank) == 1 && rank == 1, "done at the same time");
    c[0].backlog_us = 9;
    cr_expect(match_aside(c, 2, 9, &rank) == 1 && rank == 0, "done later");
}

Test(decision, a_slow_worker_helps_when_it_is_done_no_later_and_the_deadline_holds)
{
    struct match_candidate c[] = {{.expect_us = 10}, {.expect_us = 30, .credit = true}};
    cr_expect_eq(match_choose(c, 2, 2, UINT64_MAX), 1, "30 is not later than 10 and 2 more of 10");
    cr_expect_eq(match_choose(c, 2, 1, UINT64_MAX), MATCH_WAIT);
    cr_expect_eq(match_choose(c, 2, 9, 30), 1);
    cr_expect_eq(match_choose(c, 2, 9, 29), MATCH_WAIT, "the fast one keeps the deadline");
    cr_expect_eq(match_choose(c, 2, 9, 10), MATCH_WAIT);
    cr_expect_eq(match_choose(c, 2, 9, 9), 1, "nobody does");
    c[0].credit = true;
    cr_expect_eq(match_choose(c, 2, 9, UINT64_MAX), 0);
    c[0].load_us = 5;
    c[0].transfer_us = 15;
    cr_expect_eq(match_best(c, 2), 0, "a tie of those that can start goes to the first");
    c[0].credit = false;
    cr_expect_eq(match_best(c, 2), 1, "and else to the one that can start");
    c[0].load_us = 4;
    cr_expect_eq(match_best(c, 2), 0);
}

/* ---- values in Redis ------------------------------------------------------------------------------------------------------ */

/* Frame i has 100 * i + 7 bytes, all of them i. */
static struct shared_message *message_of(size_t frames)
{
    struct shared_message *shared = shared_message_new(frames);
    for (size_t i = 0; i < frames; i++)
        memset(shared_message_make(shared, i, 100 * i + 7), (int)i, 100 * i + 7);
    return shared;
}

Test(mail, a_message_of_any_number_of_frames_comes_back_as_it_was)
{
    for (size_t frames = 1; frames <= FRAME_MAX_TENSORS + 1; frames += frames < 4 ? 1 : 5) {
        struct shared_message *shared = message_of(frames);
        size_t bytes;
        uint8_t *value = value_encode(shared, &bytes);
        struct shared_message *back = value_decode(value, bytes);
        cr_assert(back && back->count == frames, "%zu", frames);
        for (size_t i = 0; i < frames; i++) {
            cr_assert_eq(zmq_msg_size(&back->frames[i]), 100 * i + 7);
            cr_expect_eq(memcmp(zmq_msg_data(&back->frames[i]), zmq_msg_data(&shared->frames[i]), 100 * i + 7), 0);
        }
        for (size_t cut = 0; cut < bytes; cut += 1 + cut / 3)
            cr_expect_null(value_decode(value, cut), "%zu of %zu bytes", cut, bytes);
        for (size_t at = 0; at < bytes; at += 1 + at / 4) {
            value[at] ^= 1;
            cr_expect_null(value_decode(value, bytes), "byte %zu is another one", at);
            value[at] ^= 1;
        }
        free(value);
        shared_message_release(shared);
        shared_message_release(back);
    }
}

/* With the right digest behind it. */
static struct shared_message *decoded(const uint32_t head[2], const uint64_t *sizes, size_t sizes_count, size_t data)
{
    uint8_t bytes[2048] = {0};
    size_t used = 8 + 8 * sizes_count + data;
    memcpy(bytes, head, 8);
    memcpy(bytes + 8, sizes, 8 * sizes_count);
    struct digest_stream *stream = digest_new(DIGEST_XXH3);
    digest_update(stream, bytes, used);
    struct digest digest = digest_final(stream);
    digest_free(stream);
    memcpy(bytes + used, digest.bytes, 16);
    return value_decode(bytes, used + 16);
}

Test(mail, what_says_more_than_it_has_is_no_value)
{
    static const uint64_t sizes[FRAME_MAX_TENSORS + 2] = {5};
    uint32_t head[2] = {0x31565350, 1};
    struct shared_message *good = decoded(head, sizes, 1, 5);
    cr_expect_not_null(good);
    shared_message_release(good);
    cr_expect_null(decoded(head, sizes, 1, 4), "a frame of five bytes");
    head[1] = 0;
    cr_expect_null(decoded(head, sizes, 0, 5), "no frames");
    head[1] = 2;
    cr_expect_null(decoded(head, sizes, 1, 7), "sizes of two");
    head[1] = FRAME_MAX_TENSORS + 2;
    cr_expect_null(decoded(head, sizes, FRAME_MAX_TENSORS + 2, 5), "more frames than a message has");
    head[1] = 1;
    head[0]++;
    cr_expect_null(decoded(head, sizes, 1, 5), "another form");
}
