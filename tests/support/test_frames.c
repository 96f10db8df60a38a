/* The count of received frames: a wrong one would let a worker or a client forget them. */
#include <criterion/criterion.h>
#include <zmq.h>

#include "frames.h"

struct two {
    void *context, *from, *to;
};

static struct two two_open(void)
{
    struct two two = {.context = zmq_ctx_new()};
    two.from = zmq_socket(two.context, ZMQ_PAIR);
    two.to = zmq_socket(two.context, ZMQ_PAIR);
    cr_assert_eq(zmq_bind(two.to, "inproc://frames"), 0);
    cr_assert_eq(zmq_connect(two.from, "inproc://frames"), 0);
    return two;
}

static void two_close(struct two *two)
{
    zmq_close(two->from);
    zmq_close(two->to);
    zmq_ctx_term(two->context);
}

static void receive(struct two *two, zmq_msg_t *frame)
{
    static const char bytes[100] = {0};
    cr_assert_eq(zmq_send(two->from, bytes, sizeof bytes, 0), 100);
    cr_assert_eq(zmq_msg_init(frame), 0);
    cr_assert_eq(zmq_msg_recv(frame, two->to, 0), 100);
}

Test(frames, a_received_frame_is_open_until_it_is_closed_or_sent)
{
    struct two two = two_open();
    zmq_msg_t frame, other;
    receive(&two, &frame);
    cr_expect_eq(frames_open(), 1u);
    zmq_msg_init(&other);
    zmq_msg_move(&other, &frame);
    cr_expect_eq(frames_open(), 1u, "it moves");
    zmq_msg_close(&frame);
    cr_expect_eq(frames_open(), 1u, "what was moved away is not there to be closed");
    zmq_msg_close(&other);
    cr_expect_eq(frames_open(), 0u);
    receive(&two, &frame);
    cr_assert_eq(zmq_msg_send(&frame, two.from, 0), 100);
    cr_expect_eq(frames_open(), 0u);
    cr_expect_eq(frames_forgotten(), 0u);
    two_close(&two);
}

Test(frames, many_frames_are_told_apart)
{
    static zmq_msg_t frames[500];
    struct two two = two_open();
    for (size_t i = 0; i < 500; i++)
        receive(&two, &frames[i]);
    cr_expect_eq(frames_open(), 500u);
    for (size_t i = 0; i < 500; i += 2)
        zmq_msg_close(&frames[i]);
    cr_expect_eq(frames_open(), 250u);
    for (size_t i = 1; i < 500; i += 2)
        zmq_msg_close(&frames[i]);
    cr_expect_eq(frames_open(), 0u);
    two_close(&two);
}
