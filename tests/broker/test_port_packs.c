/* Packs at a real port: who asked for them gets them, nobody else does; order, large messages, peers that have gone. */
#include <criterion/criterion.h>
#include <string.h>

#include "pack.h"
#include "port.h"
#include "port_pack.h"
#include "process.h"

static void *context, *dealer;
static struct port port;
static char endpoint[256];
static uint32_t peer;
static unsigned gone_count;
static uint32_t gone_peer;

static void note_gone(void *unused, uint32_t who)
{
    (void)unused;
    gone_count++;
    gone_peer = who;
}

static struct message wait_message(void)
{
    struct message message = {.count = 0};
    for (int i = 0; i < 5000 && !port_receive(&port, &message); i++)
        support_sleep_ms(1);
    cr_assert_gt(message.count, 0, "nothing came");
    return message;
}

static void dealer_say(const void *bytes, size_t size)
{
    cr_assert_eq(zmq_send(dealer, bytes, size, 0), (int)size);
}

static void begin(void)
{
    struct pen_error error = {.status = PEN_OK};
    const int wait_ms = 5000;
    struct port_options options = {.endpoint = "tcp://127.0.0.1:*",
                                   .fd = -1,
                                   .monitor_name = "inproc://monitor",
                                   .frame_bytes_max = 1 << 20,
                                   .heartbeat_us = 1000000,
                                   .liveness_us = 5000000};
    context = zmq_ctx_new();
    cr_assert_eq(port_open(&port, context, &options, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(port_endpoint(&port, endpoint, sizeof endpoint), PEN_OK);
    port.gone = note_gone;
    dealer = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    cr_assert_eq(zmq_connect(dealer, endpoint), 0);
    dealer_say("hello", 5);
    struct message hello = wait_message();
    peer = hello.peer;
    message_fini(&hello);
}

static void end(void)
{
    const int none = 0;
    if (dealer) {
        zmq_setsockopt(dealer, ZMQ_LINGER, &none, sizeof none);
        zmq_close(dealer);
    }
    port_close(&port, 0);
    zmq_ctx_term(context);
}

TestSuite(port_packs, .init = begin, .fini = end, .timeout = 60);

/* A PING whose job's number is `number`. */
static void say(uint64_t number)
{
    struct envelope env = envelope_make(FRAME_PING);
    env.job.sequence = number;
    cr_assert(port_send(&port, peer, &env, NULL, 0));
}

static void say_frames(const size_t *sizes, size_t count)
{
    cr_assert(port.begin(&port, peer));
    for (size_t i = 0; i < count; i++) {
        zmq_msg_t frame;
        zmq_msg_init_size(&frame, sizes[i]);
        memset(zmq_msg_data(&frame), (int)i, sizes[i]);
        port.part(&port, &frame, i + 1 < count ? FRAME_MORE : FRAME_LAST);
    }
}

static size_t hear(uint8_t *ret_bytes, size_t room, bool *ret_more)
{
    int more = 0, size = zmq_recv(dealer, ret_bytes, room, 0);
    size_t bytes = sizeof more;
    cr_assert_geq(size, 0, "the dealer hears nothing: %s", zmq_strerror(errno));
    zmq_getsockopt(dealer, ZMQ_RCVMORE, &more, &bytes);
    *ret_more = more != 0;
    return (size_t)size;
}

static bool hears_nothing(void)
{
    uint8_t byte;
    support_sleep_ms(30);
    return zmq_recv(dealer, &byte, 1, ZMQ_DONTWAIT) < 0;
}

static uint64_t number_in(const uint8_t *frame, size_t size)
{
    struct envelope env;
    const uint8_t *meta;
    cr_assert_eq(envelope_decode(frame, size, &env, &meta, NULL), PEN_OK);
    cr_assert_eq(env.type, FRAME_PING);
    return env.job.sequence;
}

static struct pack_reader open_pack(const uint8_t *frame, size_t size)
{
    struct envelope env;
    const uint8_t *meta;
    struct pack_reader reader;
    struct pen_error error = {.status = PEN_OK};
    cr_assert(pack_is(frame, size));
    cr_assert_eq(envelope_decode(frame, size, &env, &meta, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pack_reader_open(&reader, meta, env.meta_bytes, &error), PEN_OK, "%s", error.text);
    return reader;
}

static void let_go(void *data, void *hint)
{
    (void)data;
    *(bool *)hint = true;
}

/* A message of one frame that is the test's own bytes; *gone is set when they are let go. */
static void say_own(uint8_t *bytes, size_t size, bool *gone)
{
    zmq_msg_t frame;
    struct envelope env = envelope_make(FRAME_PING);
    env.job.sequence = 9;
    env.meta_bytes = (uint32_t)(size - FRAME_ENVELOPE_BYTES);
    envelope_encode(&env, bytes);
    cr_assert(port.begin(&port, peer));
    zmq_msg_init_data(&frame, bytes, size, let_go, gone);
    port.part(&port, &frame, FRAME_LAST);
}

Test(port_packs, one_that_stays_alone_is_sent_as_it_is_and_one_that_does_not_is_copied)
{
    static uint8_t bytes[3][1000], heard[4096];
    bool gone[3] = {false, false, false}, more;
    port_takes_packs(&port, peer, 1 << 18);
    say_own(bytes[0], sizeof bytes[0], &gone[0]);
    cr_expect(!gone[0] && port_holds(&port), "it waits, and nobody has copied it");
    port_flush(&port);
    cr_assert(!port_holds(&port));
    cr_assert_eq(hear(heard, sizeof heard, &more), sizeof bytes[0]);
    cr_assert_eq(number_in(heard, sizeof bytes[0]), 9);
    say_own(bytes[1], sizeof bytes[1], &gone[1]);
    say_own(bytes[2], sizeof bytes[2], &gone[2]);
    cr_expect(gone[1] && gone[2]);
    port_flush(&port);
    size_t size = hear(heard, sizeof heard, &more);
    struct pack_reader reader = open_pack(heard, size);
    struct pack_item item;
    unsigned count = 0;
    for (; pack_next(&reader, &item); count++)
        cr_expect(item.bytes == sizeof bytes[0] && !item.more && number_in(item.data, item.bytes) == 9);
    cr_expect_eq(count, 2);
}

Test(port_packs, a_socket_is_dry_when_it_was_asked_in_vain_and_nothing_was_sent_since)
{
    struct message message = {.count = 0};
    cr_expect(!port_receive(&port, &message) && port.dry);
    say(1);
    cr_expect(!port.dry, "to send may have taken in what the descriptor would tell");
    cr_expect(!port_receive(&port, &message) && port.dry);
    dealer_say("more", 4);
    message = wait_message();
    message_fini(&message);
}

Test(port_packs, one_that_waits_alone_is_let_go_with_the_port)
{
    static uint8_t bytes[1000];
    static bool gone; /* the message is closed by the suite's end */
    port_takes_packs(&port, peer, 1 << 18);
    say_own(bytes, sizeof bytes, &gone);
    port_packs_free(&port);
    cr_expect(gone);
}

Test(port_packs, who_did_not_ask_gets_each_message_by_itself_at_once)
{
    uint8_t frame[256];
    bool more;
    say(1);
    say(2);
    cr_assert(!port_holds(&port));
    for (uint64_t i = 1; i <= 2; i++)
        cr_assert_eq(number_in(frame, hear(frame, sizeof frame, &more)), i);
}

Test(port_packs, what_waits_leaves_as_one_and_what_is_alone_as_it_is)
{
    static uint8_t frame[1 << 16];
    struct pack_item item;
    bool more;
    port_takes_packs(&port, peer, pack_bytes_taken(0));
    for (uint64_t i = 1; i <= 3; i++)
        say(i);
    cr_assert(port_holds(&port));
    cr_assert(hears_nothing(), "it waits for the flush");
    port_flush(&port);
    cr_assert(!port_holds(&port));
    struct pack_reader reader = open_pack(frame, hear(frame, sizeof frame, &more));
    for (uint64_t i = 1; i <= 3; i++)
        cr_assert(pack_next(&reader, &item) && number_in(item.data, item.bytes) == i);
    cr_assert(!pack_next(&reader, &item));
    say(4);
    port_flush(&port);
    cr_assert_eq(number_in(frame, hear(frame, sizeof frame, &more)), 4);
    port_takes_packs(&port, peer, 0);
    say(5);
    cr_assert_eq(number_in(frame, hear(frame, sizeof frame, &more)), 5, "no longer");
}

Test(port_packs, a_full_pack_does_not_wait)
{
    static uint8_t frame[1 << 16];
    bool more;
    port_takes_packs(&port, peer, pack_bytes_taken(0));
    for (uint64_t i = 0; i < PACK_SOON_FRAMES; i++)
        say(i + 1);
    cr_assert(!port_holds(&port));
    open_pack(frame, hear(frame, sizeof frame, &more));
}

/* Large frames are not copied: what came before them leaves first, then they themselves, frame by frame. */
Test(port_packs, large_messages_go_by_themselves_in_their_turn)
{
    static uint8_t frame[1 << 16];
    static const size_t sizes[] = {100, 200, PACK_FRAME_BYTES_MAX + 1, 50}, first[] = {20000, 30};
    bool more = true;
    port_takes_packs(&port, peer, pack_bytes_taken(0));
    say(1);
    say_frames(sizes, 4);
    cr_assert(!port_holds(&port));
    say(2);
    say_frames(first, 2);
    say(3);
    port_flush(&port);
    cr_assert_eq(number_in(frame, hear(frame, sizeof frame, &more)), 1);
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(hear(frame, sizeof frame, &more), sizes[i]);
        cr_assert(more == (i < 3) && frame[sizes[i] - 1] == i);
    }
    cr_assert_eq(number_in(frame, hear(frame, sizeof frame, &more)), 2);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(hear(frame, sizeof frame, &more), first[i]);
    cr_assert_eq(number_in(frame, hear(frame, sizeof frame, &more)), 3);
    cr_assert(hears_nothing());
}

Test(port_packs, a_message_of_small_frames_is_kept_whole)
{
    static uint8_t frame[1 << 16];
    static const size_t sizes[] = {100, 200};
    struct pack_item item;
    bool more;
    port_takes_packs(&port, peer, pack_bytes_taken(0));
    say_frames(sizes, 2);
    port_flush(&port);
    struct pack_reader reader = open_pack(frame, hear(frame, sizeof frame, &more));
    cr_assert(pack_next(&reader, &item) && item.bytes == 100 && item.more);
    cr_assert(pack_next(&reader, &item) && item.bytes == 200 && !item.more);
}

/* More peers than packs are written at a time: each gets all of its own. */
Test(port_packs, many_peers_at_once)
{
    enum { PEERS = 40, EACH = 3 };
    void *dealers[PEERS];
    uint32_t peers[PEERS];
    static uint8_t frame[1 << 16];
    const int wait_ms = 5000, none = 0;
    for (int i = 0; i < PEERS; i++) {
        dealers[i] = zmq_socket(context, ZMQ_DEALER);
        zmq_setsockopt(dealers[i], ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
        zmq_setsockopt(dealers[i], ZMQ_LINGER, &none, sizeof none);
        zmq_connect(dealers[i], endpoint);
        zmq_send(dealers[i], "hello", 5, 0);
        struct message hello = wait_message();
        peers[i] = hello.peer;
        message_fini(&hello);
        port_takes_packs(&port, peers[i], pack_bytes_taken(0));
    }
    for (uint64_t n = 1; n <= EACH; n++)
        for (int i = 0; i < PEERS; i++) {
            struct envelope env = envelope_make(FRAME_PING);
            env.job.sequence = (uint64_t)i * EACH + n;
            cr_assert(port_send(&port, peers[i], &env, NULL, 0));
        }
    port_flush(&port);
    for (int i = 0; i < PEERS; i++) {
        for (uint64_t n = 1; n <= EACH;) {
            int size = zmq_recv(dealers[i], frame, sizeof frame, 0);
            cr_assert_gt(size, 0);
            if (!pack_is(frame, (size_t)size)) {
                cr_assert_eq(number_in(frame, (size_t)size), (uint64_t)i * EACH + n++);
                continue;
            }
            struct pack_reader reader = open_pack(frame, (size_t)size);
            for (struct pack_item item; pack_next(&reader, &item);)
                cr_assert_eq(number_in(item.data, item.bytes), (uint64_t)i * EACH + n++);
        }
        zmq_close(dealers[i]);
    }
}

Test(port_packs, a_peer_that_has_gone_is_told_once)
{
    static const size_t large[] = {100, 20000, 100};
    const int none = 0;
    port_takes_packs(&port, peer, pack_bytes_taken(0));
    zmq_setsockopt(dealer, ZMQ_LINGER, &none, sizeof none);
    zmq_close(dealer);
    dealer = NULL;
    struct envelope env = envelope_make(FRAME_PING);
    for (int i = 0; i < 5000 && gone_count == 0; i++) {
        cr_assert(port_send(&port, peer, &env, NULL, 0), "nobody knows before the flush");
        port_flush(&port);
        support_sleep_ms(1);
    }
    cr_assert_eq(gone_count, 1);
    cr_assert_eq(gone_peer, peer);
    cr_assert(!port_holds(&port));
    cr_assert(!port.begin(&port, peer), "from now on it is known at once");
    port_takes_packs(&port, peer, pack_bytes_taken(0));
    say_frames(large, 3); /* its rest is dropped */
    cr_assert_eq(gone_count, 2);
    cr_assert(!port_holds(&port) && !port.begin(&port, peer));
}

Test(port_packs, messages_of_a_pack_are_received_one_by_one)
{
    struct pack_writer writer = {0};
    struct envelope env = envelope_make(FRAME_PING);
    pack_limit(&writer, pack_bytes_taken(0));
    for (uint64_t i = 1; i <= 3; i++) {
        env.job.sequence = i;
        envelope_encode(&env, pack_frame(&writer, FRAME_ENVELOPE_BYTES, i == 2));
        if (i == 2)
            memset(pack_frame(&writer, 7000, false), 9, 7000);
    }
    size_t bytes = pack_seal(&writer);
    dealer_say(writer.bytes, bytes);
    dealer_say("after", 5);
    for (uint64_t i = 1; i <= 3; i++) {
        struct message message = wait_message();
        cr_assert_eq(message.peer, peer);
        cr_assert_eq(message.count, i == 2 ? 2 : 1);
        cr_assert_geq(message_fd(&message), 0, "the connection is known");
        cr_assert_eq(number_in(zmq_msg_data(&message.frames[0]), zmq_msg_size(&message.frames[0])), i);
        message_fini(&message);
    }
    struct message message = wait_message();
    cr_assert_eq(zmq_msg_size(&message.frames[0]), 5);
    message_fini(&message);
    pack_fini(&writer);
}

/* A PACK that cannot be read stays what it is: a message that no handler knows. */
Test(port_packs, a_broken_pack_is_one_bad_message)
{
    uint8_t frame[FRAME_ENVELOPE_BYTES + 10] = {0};
    struct envelope env = envelope_make(FRAME_PACK);
    env.meta_bytes = 10;
    memset(envelope_encode(&env, frame), 0xFF, 10);
    dealer_say(frame, sizeof frame);
    struct message message = wait_message();
    cr_assert_eq(message.count, 1);
    cr_assert(pack_is(zmq_msg_data(&message.frames[0]), zmq_msg_size(&message.frames[0])));
    message_fini(&message);
}
