#include "incoming.h"

void incoming_move(struct incoming *to, struct incoming *from)
{
    zmq_msg_init(&to->header);
    zmq_msg_move(&to->header, &from->header);
    envelope_decode(zmq_msg_data(&to->header), zmq_msg_size(&to->header), &to->env, &to->meta, NULL); /* good before */
    to->frames_count = from->frames_count;
    for (size_t i = 0; i < to->frames_count; i++) {
        zmq_msg_init(&to->frames[i]);
        zmq_msg_move(&to->frames[i], &from->frames[i]);
    }
}

void incoming_fini(struct incoming *in)
{
    zmq_msg_close(&in->header);
    for (size_t i = 0; i < in->frames_count; i++) {
        zmq_msg_close(&in->frames[i]);
    }
    in->frames_count = 0;
}

/* Reads what follows the header; frames beyond the cap are counted and dropped. */
static size_t receive_rest(void *socket, struct incoming *in)
{
    size_t total = 0;
    for (int more = zmq_msg_more(&in->header); more; total++) {
        zmq_msg_t spare, *msg = in->frames_count < FRAME_MAX_TENSORS ? &in->frames[in->frames_count] : &spare;
        zmq_msg_init(msg);
        if (zmq_msg_recv(msg, socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(msg);
            break;
        }
        more = zmq_msg_more(msg);
        if (msg == &spare) {
            zmq_msg_close(msg);
        } else {
            in->frames_count++;
        }
    }
    return total;
}

/* Raw frames that are announced come as chunks. */
static bool frames_right(const struct incoming *in, size_t total)
{
    return in->env.transfer && in->env.type == FRAME_RESULT ? total == 0 : in->env.frames == total;
}

int incoming_receive(void *socket, struct incoming *in, struct pen_error *reterr)
{
    in->frames_count = 0;
    zmq_msg_init(&in->header);
    if (zmq_msg_recv(&in->header, socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&in->header);
        return 0;
    }
    size_t total = receive_rest(socket, in);
    enum pen_status status =
        envelope_decode(zmq_msg_data(&in->header), zmq_msg_size(&in->header), &in->env, &in->meta, reterr);
    if (status == PEN_OK && !frames_right(in, total)) {
        status = pen_error_set(reterr, PEN_ERR_CORRUPT, "the broker sent %zu tensor frames where its envelope says %u.",
                               total, (unsigned)in->env.frames);
    }
    if (status != PEN_OK) {
        incoming_fini(in);
        return -1;
    }
    return 1;
}
