/* grpc_server.h over real sockets: several messages under way, answers in order, faults with a sentence, and peers that are too slow - by the server's own clock. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "deadline.h"
#include "grpc_message.h"
#include "h2_client.h"

#define WINDOW 1000000u
#define SECOND UINT64_C(1000000)

static struct grpc_request *given[32];
static unsigned given_count, gone_count, released_count, ended_count;
static struct grpc_server *server;
static struct peer peer;

static bool streams(void *context, const char *path)
{
    (void)context;
    return strncmp(path, "/stream/", 8) == 0;
}

static void on_gone(void *arg)
{
    gone_count++;
    *(struct grpc_request **)arg = NULL;
}

static void on_request(void *context, struct grpc_request *request)
{
    (void)context;
    if (request->ended) {
        ended_count++;
        grpc_end(request, GRPC_OK, "");
        return;
    }
    request->waiter = &given[given_count];
    request->gone = on_gone;
    given[given_count++] = request;
    if (strcmp(request->path, "/stream/ahead") == 0)
        grpc_next(request);
}

static void begin_with(uint32_t window, struct grpc_server_options options)
{
    server = serve(streams, on_request, options);
    peer_open(&peer, window);
}

static const struct grpc_server_options usual = {.connections_max = 4,
                                                 .address_max = 4,
                                                 .streams_max = 4,
                                                 .head_max = 4096,
                                                 .message_max = 100000,
                                                 .idle_us = 60 * SECOND};

static void begin(void)
{
    begin_with(WINDOW, usual);
}

static void finish(void)
{
    peer_close(&peer);
    cr_assert_eq(grpc_server_under_way(server), 0u);
    cr_assert_eq(hold_budget_used(), 0u, "all memory of messages is given back");
    grpc_server_free(server);
}

TestSuite(grpc_server, .init = begin, .fini = finish, .timeout = 30);

static void on_release(void *arg)
{
    (void)arg;
    released_count++;
}

static void answer(unsigned index, const char *text, enum grpc_then then)
{
    struct grpc_answer answer = {.release = on_release};
    bytes_text(&answer.text, text);
    grpc_send(given[index], &answer, then);
    settle(&peer);
}

/* The texts of the messages that came, one behind the other. */
static const char *texts(const struct peer_call *call)
{
    static char text[ANSWER_BYTES];
    size_t used = 0;
    for (size_t at = 0; at + GRPC_PREFIX_BYTES <= call->got_bytes;) {
        size_t bytes = (size_t)call->got[at + 3] << 8 | call->got[at + 4];
        memcpy(text + used, call->got + at + GRPC_PREFIX_BYTES, bytes);
        used += bytes;
        at += GRPC_PREFIX_BYTES + bytes;
    }
    text[used] = '\0';
    return text;
}

/* ---- calls ---- */

Test(grpc_server, a_call_is_given_answered_and_ended)
{
    struct peer_call call;
    peer_call(&peer, &call, "/one/a", (const char *const[]){"authorization", "Bearer x", "traceparent", "00-1", NULL});
    peer_say(&peer, &call, "hello", 5, false, true);
    cr_assert_eq(given_count, 1u);
    cr_assert_str_eq(given[0]->path, "/one/a");
    cr_assert_str_eq(given[0]->authorization, "Bearer x");
    cr_assert_str_eq(given[0]->traceparent, "00-1");
    cr_assert(given[0]->message_bytes == 5 && memcmp(given[0]->message, "hello", 5) == 0);
    answer(0, "back", GRPC_LAST);
    cr_assert_str_eq(texts(&call), "back");
    cr_assert(call.ended && strcmp(call.grpc_status, "0") == 0 && strcmp(call.status, "200") == 0);
    cr_assert_eq(released_count, 1u);
}

Test(grpc_server, answers_to_messages_under_way_go_out_in_order)
{
    struct peer_call call;
    peer_call(&peer, &call, "/stream/ahead", NULL);
    for (unsigned i = 0; i < 3; i++)
        peer_say(&peer, &call, &"abc"[i], 1, false, i == 2);
    cr_assert_eq(given_count, 3u, "all three are under way");
    cr_assert_eq(ended_count, 1u);
    answer(2, "C", GRPC_NEXT);
    answer(1, "B", GRPC_NEXT);
    cr_assert_str_eq(texts(&call), "", "the first one is awaited");
    answer(0, "A", GRPC_NEXT);
    cr_assert_str_eq(texts(&call), "ABC");
    cr_assert(call.ended && strcmp(call.grpc_status, "0") == 0);
}

Test(grpc_server, so_many_messages_of_a_call_are_under_way)
{
    struct peer_call call;
    peer_call(&peer, &call, "/stream/ahead", NULL);
    for (unsigned i = 0; i < 20; i++)
        peer_say(&peer, &call, "x", 1, false, i == 19);
    cr_assert_eq(given_count, 8u);
    for (unsigned i = 0; i < 20; i++)
        answer(i, "y", GRPC_NEXT);
    cr_assert_str_eq(texts(&call), "yyyyyyyyyyyyyyyyyyyy");
    cr_assert(call.ended && ended_count == 1);
}

Test(grpc_server, the_next_message_waits_where_the_handler_does_not_ask_for_it)
{
    struct peer_call call;
    peer_call(&peer, &call, "/stream/plain", NULL);
    for (unsigned i = 0; i < 3; i++)
        peer_say(&peer, &call, &"abc"[i], 1, false, false);
    cr_assert_eq(given_count, 1u);
    answer(0, "A", GRPC_NEXT);
    cr_assert_eq(given_count, 2u);
    answer(1, "B", GRPC_MORE);
    answer(1, "B", GRPC_MORE);
    cr_assert_eq(given_count, 2u, "more answers to the same message");
    grpc_end(given[1], GRPC_ABORTED, "no more");
    settle(&peer);
    cr_assert_str_eq(texts(&call), "ABB");
    cr_assert(call.ended && strcmp(call.grpc_status, "10") == 0 && strcmp(call.grpc_message, "no more") == 0);
}

Test(grpc_server, an_end_comes_behind_earlier_answers_and_drops_later_messages)
{
    struct peer_call call;
    peer_call(&peer, &call, "/stream/ahead", NULL);
    for (unsigned i = 0; i < 3; i++)
        peer_say(&peer, &call, &"abc"[i], 1, false, false);
    grpc_end(given[1], GRPC_INTERNAL, "b failed");
    settle(&peer);
    cr_assert_not(call.ended);
    answer(0, "A", GRPC_NEXT);
    cr_assert_str_eq(texts(&call), "A");
    cr_assert(call.ended && strcmp(call.grpc_message, "b failed") == 0);
    cr_assert(gone_count == 1 && !given[2], "the handler of the third is told");
}

Test(grpc_server, a_peer_that_resets_its_call_gives_up_all_its_messages)
{
    struct peer_call call;
    peer_call(&peer, &call, "/stream/ahead", NULL);
    for (unsigned i = 0; i < 3; i++)
        peer_say(&peer, &call, "x", 1, false, false);
    nghttp2_submit_rst_stream(peer.session, NGHTTP2_FLAG_NONE, call.id, NGHTTP2_CANCEL);
    settle(&peer);
    cr_assert_eq(gone_count, 3u);
    cr_assert_eq(grpc_server_under_way(server), 0u);
}

Test(grpc_server, large_answers_go_out_whole)
{
    struct peer_call call;
    static char large[3000000];
    const struct iovec parts[] = {{large, 1000000}, {large + 1000000, 0}, {large + 1000000, 2000000}};
    struct grpc_answer answer = {.parts = parts, .parts_count = 3, .release = on_release};
    nghttp2_session_set_local_window_size(peer.session, NGHTTP2_FLAG_NONE, 0, 4000000);
    peer_call(&peer, &call, "/one/a", NULL);
    peer_say(&peer, &call, "x", 1, false, true);
    grpc_send(given[0], &answer, GRPC_LAST);
    for (unsigned i = 0; i < 200 && !call.ended; i++)
        settle(&peer);
    cr_assert_eq(call.got_bytes, sizeof large + GRPC_PREFIX_BYTES);
    cr_assert(call.ended && released_count == 1);
}

/* ---- compressed messages ---- */

Test(grpc_server, the_coding_of_messages_is_told)
{
    struct peer_call call;
    peer_call(&peer, &call, "/one/a",
              (const char *const[]){"grpc-encoding", "gzip", "grpc-accept-encoding", "identity,deflate,gzip", NULL});
    peer_say(&peer, &call, "zipped", 6, true, true);
    cr_assert(given[0]->packed == CODING_GZIP && given[0]->wanted == CODING_GZIP);
    answer(0, "x", GRPC_LAST);
    cr_assert_str_eq(call.encoding, "gzip");
    struct peer_call plain;
    peer_call(&peer, &plain, "/one/a", (const char *const[]){"grpc-encoding", "gzip", NULL});
    peer_say(&peer, &plain, "as it is", 8, false, true);
    cr_assert(given[1]->packed == CODING_NONE && given[1]->wanted == CODING_NONE, "its flag says so");
    answer(1, "x", GRPC_LAST);
}

/* ---- faults ---- */

struct fault {
    const char *code, *words;
};

static void expect_fault(const struct peer_call *call, struct fault fault)
{
    cr_assert(call->ended && strcmp(call->grpc_status, fault.code) == 0 && strstr(call->grpc_message, fault.words),
              "%s: %s %s", fault.words, call->grpc_status, call->grpc_message);
}

Test(grpc_server, each_wrong_call_is_told_why)
{
    struct peer_call call;
    static char large[100001];
    peer_call(&peer, &call, "/one/a", (const char *const[]){"grpc-encoding", "brotli", NULL});
    expect_fault(&call, (struct fault){"12", "grpc-encoding"});
    peer_call(&peer, &call, "/one/a", (const char *const[]){"grpc-timeout", "1x", NULL});
    expect_fault(&call, (struct fault){"3", "grpc-timeout"});
    memset(large, 'x', 5000);
    large[5000] = '\0';
    peer_call(&peer, &call, "/one/a", (const char *const[]){"mine", large, NULL});
    expect_fault(&call, (struct fault){"8", "--max-head"});
    peer_call(&peer, &call, "/one/a", NULL);
    peer_say(&peer, &call, "x", 1, true, true);
    expect_fault(&call, (struct fault){"13", "grpc-encoding"});
    peer_call(&peer, &call, "/one/a", NULL);
    peer_say(&peer, &call, large, sizeof large, false, true);
    expect_fault(&call, (struct fault){"8", "--max-body"});
    peer_call(&peer, &call, "/one/a", NULL);
    peer_say(&peer, &call, "x", 1, false, false);
    peer_say(&peer, &call, "y", 1, false, true);
    expect_fault(&call, (struct fault){"13", "one message"});
    peer_call(&peer, &call, "/stream/ahead", NULL);
    bytes_add(&call.given, "\7\0\0\0\0", 5);
    call.ends = true;
    nghttp2_session_resume_data(peer.session, call.id);
    settle(&peer);
    expect_fault(&call, (struct fault){"13", "a flag of 0 or 1"});
    peer_call(&peer, &call, "/stream/ahead", NULL);
    bytes_add(&call.given, "\0\0\0\0\5ab", 7);
    call.ends = true;
    nghttp2_session_resume_data(peer.session, call.id);
    settle(&peer);
    expect_fault(&call, (struct fault){"13", "ended before its message"});
    cr_assert_eq(given_count, 0u);
}

Test(grpc_server, what_is_ahead_finds_no_memory_and_the_handler_is_told)
{
    struct peer_call call;
    static char message[60000];
    peer_call(&peer, &call, "/stream/plain", NULL);
    peer_say(&peer, &call, "x", 1, false, false);
    hold_budget_set(hold_budget_used() + 1000);
    peer_say(&peer, &call, message, sizeof message, false, false);
    answer(0, "A", GRPC_NEXT);
    cr_assert_str_eq(texts(&call), "A", "what is under way is answered first");
    expect_fault(&call, (struct fault){"8", "--body-memory"});
}

Test(grpc_server, plain_http2_is_told_where_it_is)
{
    struct peer_call call;
    peer_call(&peer, &call, "/v2", (const char *const[]){"content-type", "text/plain", NULL});
    cr_assert_str_eq(call.status, "415");
    cr_assert(memmem(call.got, call.got_bytes, "application/grpc", 16), "a sentence");
}

/* ---- frames ---- */

/* A frame with a wrong length, stream or content: a GOAWAY with the error of RFC 9113, and the connection ends. */
Test(grpc_server, malformed_frames_end_their_connection_with_the_error_of_http2)
{
    static const struct {
        const char *what;
        unsigned char frame[24];
        size_t bytes;
        uint32_t error;
    } cases[] = {
        {"DATA of no stream", {0, 0, 1, 0, 0, 0, 0, 0, 0, 'x'}, 10, NGHTTP2_PROTOCOL_ERROR},
        {"HEADERS of no stream", {0, 0, 1, 1, 4, 0, 0, 0, 0, 0x82}, 10, NGHTTP2_PROTOCOL_ERROR},
        {"an even stream", {0, 0, 1, 1, 4, 0, 0, 0, 2, 0x82}, 10, NGHTTP2_PROTOCOL_ERROR},
        {"an unknown index of HPACK", {0, 0, 1, 1, 4, 0, 0, 0, 1, 0xff}, 10, NGHTTP2_COMPRESSION_ERROR},
        {"SETTINGS of 5 bytes", {0, 0, 5, 4, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}, 14, NGHTTP2_FRAME_SIZE_ERROR},
        {"a PING of 7 bytes", {0, 0, 7, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7}, 16, NGHTTP2_FRAME_SIZE_ERROR},
        {"a PING of a stream", {0, 0, 8, 6, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8}, 17, NGHTTP2_PROTOCOL_ERROR},
        {"WINDOW_UPDATE of 0", {0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 13, NGHTTP2_PROTOCOL_ERROR},
        {"a window beyond 2^31", {0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff}, 13, NGHTTP2_FLOW_CONTROL_ERROR},
        {"CONTINUATION alone", {0, 0, 1, 9, 4, 0, 0, 0, 1, 0x82}, 10, NGHTTP2_PROTOCOL_ERROR},
        {"PUSH_PROMISE of a client", {0, 0, 4, 5, 4, 0, 0, 0, 1, 0, 0, 0, 2}, 13, NGHTTP2_PROTOCOL_ERROR},
        {"RST_STREAM of no stream", {0, 0, 4, 3, 0, 0, 0, 0, 9, 0, 0, 0, 8}, 13, NGHTTP2_PROTOCOL_ERROR},
        {"a frame that is too large", {0x10, 0, 0, 0, 0, 0, 0, 0, 1}, 9, NGHTTP2_FRAME_SIZE_ERROR},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct peer bad;
        uint64_t before = grpc_server_counts(server).bad;
        peer_open(&bad, WINDOW);
        peer_say_raw(&bad, cases[i].frame, cases[i].bytes);
        cr_assert(bad.went_away && bad.goaway == cases[i].error, "%s: %u %u", cases[i].what, bad.went_away, bad.goaway);
        cr_assert(bad.closed && grpc_server_counts(server).bad == before + 1, "%s", cases[i].what);
        nghttp2_session_del(bad.session);
        close(bad.fd);
    }
}

Test(grpc_server, who_resets_without_end_is_let_go)
{
    unsigned begun = 0;
    for (struct peer_call call; begun < 3000 && !peer.closed; begun++) {
        peer_call(&peer, &call, "/one/a", NULL);
        nghttp2_submit_rst_stream(peer.session, NGHTTP2_FLAG_NONE, call.id, NGHTTP2_CANCEL);
        settle(&peer);
    }
    cr_assert(begun > 900 && begun < 2000, "%u", begun);
}

/* ---- time ---- */

static void look_after(uint64_t us)
{
    grpc_server_look(server, clock_now_us() + us);
    settle(&peer);
}

Test(grpc_server, a_connection_without_calls_ends_when_it_is_idle)
{
    look_after(59 * SECOND);
    cr_assert_not(peer.closed);
    look_after(61 * SECOND);
    cr_assert(peer.went_away && peer.goaway == NGHTTP2_NO_ERROR && peer.closed);
}

Test(grpc_server, a_stream_without_messages_ends_when_it_is_idle)
{
    struct peer_call call;
    peer_call(&peer, &call, "/stream/ahead", NULL);
    peer_say(&peer, &call, "x", 1, false, false);
    look_after(3600 * SECOND);
    cr_assert_not(call.ended, "the peer waits for us");
    answer(0, "A", GRPC_NEXT);
    look_after(61 * SECOND);
    expect_fault(&call, (struct fault){"4", "--idle"});
}

Test(grpc_server, a_message_that_drips_is_late)
{
    struct peer_call call;
    peer_call(&peer, &call, "/one/a", NULL);
    bytes_add(&call.given, "\0\0\1\0\0abc", 8);
    nghttp2_session_resume_data(peer.session, call.id);
    settle(&peer);
    look_after(9 * SECOND);
    cr_assert_not(call.ended);
    look_after(11 * SECOND);
    expect_fault(&call, (struct fault){"4", "too slowly"});
    cr_assert_eq(grpc_server_counts(server).late, 1u);
}

Test(grpc_server, who_does_not_read_his_answer_is_reset_and_what_it_held_is_released)
{
    struct peer slow;
    struct peer_call call;
    static char large[200000];
    const struct iovec part = {large, sizeof large};
    struct grpc_answer answer = {.parts = &part, .parts_count = 1, .release = on_release};
    peer_open(&slow, 1000);
    peer_call(&slow, &call, "/one/a", NULL);
    peer_say(&slow, &call, "x", 1, false, true);
    nghttp2_session_set_local_window_size(slow.session, NGHTTP2_FLAG_NONE, call.id, 1000);
    grpc_send(given[0], &answer, GRPC_LAST);
    grpc_server_look(server, clock_now_us() + 9 * SECOND);
    cr_assert_eq(released_count, 0u);
    grpc_server_look(server, clock_now_us() + 30 * SECOND);
    grpc_server_look(server, clock_now_us() + 31 * SECOND);
    grpc_server_look(server, clock_now_us() + 32 * SECOND);
    settle(&slow);
    cr_assert(call.was_reset && call.reset == NGHTTP2_CANCEL);
    cr_assert(released_count == 1 && grpc_server_counts(server).late == 1, "once: %u %llu", released_count,
              (unsigned long long)grpc_server_counts(server).late);
    nghttp2_session_del(slow.session);
    close(slow.fd);
}

Test(grpc_server, a_deadline_ends_the_call_and_tells_the_handler)
{
    struct peer_call call;
    peer_call(&peer, &call, "/one/a", (const char *const[]){"grpc-timeout", "5S", NULL});
    peer_say(&peer, &call, "x", 1, false, true);
    look_after(4 * SECOND);
    cr_assert_not(call.ended);
    look_after(6 * SECOND);
    expect_fault(&call, (struct fault){"4", "grpc-timeout is over"});
    cr_assert_eq(gone_count, 1u);
}

Test(grpc_server, at_the_end_calls_under_way_are_answered_and_no_others_begun)
{
    struct peer_call call;
    peer_call(&peer, &call, "/one/a", NULL);
    peer_say(&peer, &call, "x", 1, false, true);
    grpc_server_drain(server);
    settle(&peer);
    cr_assert(peer.went_away && peer.goaway == NGHTTP2_NO_ERROR && !peer.closed);
    answer(0, "A", GRPC_LAST);
    cr_assert_str_eq(texts(&call), "A");
    cr_assert_eq(grpc_server_under_way(server), 0u);
}
