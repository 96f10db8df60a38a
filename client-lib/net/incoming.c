#include "incoming.h"

#include <string.h>

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

/* 1, or -1: dropped. total: raw frames that came. */
static int judge(struct incoming *in, size_t total, struct pen_error *reterr)
{
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

/* ---- packs ---- */

void incoming_pack_drop(struct incoming_pack *pack)
{
    if (pack->open) {
        zmq_msg_close(&pack->frame);
    }
    pack->open = false;
}

bool incoming_pack_holds(const struct incoming_pack *pack)
{
    return pack->open && pack->reader.at != pack->reader.end;
}

/* Takes the PACK that lies in in->header. -1: it cannot be read, and was dropped. */
static int pack_take(struct incoming_pack *pack, struct incoming *in, struct pen_error *reterr)
{
    struct pack_reader reader;
    enum pen_status status =
        envelope_decode(zmq_msg_data(&in->header), zmq_msg_size(&in->header), &in->env, &in->meta, reterr);
    if (status == PEN_OK) {
        status = pack_reader_open(&reader, in->meta, in->env.meta_bytes, reterr);
    }
    if (status != PEN_OK) {
        incoming_fini(in);
        return -1;
    }
    zmq_msg_init(&pack->frame);
    zmq_msg_move(&pack->frame, &in->header);
    zmq_msg_close(&in->header);
    pack->reader = reader; /* its bytes are too many to lie in the zmq_msg_t that moved */
    pack->open = true;
    return 1;
}

static bool copy_make(const struct pack_item *item, zmq_msg_t *ret_frame)
{
    if (zmq_msg_init_size(ret_frame, item->bytes) != 0) {
        return false;
    }
    memcpy(zmq_msg_data(ret_frame), item->data, item->bytes);
    return true;
}

/* The next message of the PACK, copied, because results are kept. 0: there is none, or no memory for it now. */
static int pack_receive(struct incoming_pack *pack, struct incoming *in, struct pen_error *reterr)
{
    struct pack_reader reader = pack->reader;
    struct pack_item item;
    size_t total = 0;
    if (!pack_next(&reader, &item) || !copy_make(&item, &in->header)) {
        return 0;
    }
    for (; item.more && pack_next(&reader, &item); total++) {
        if (in->frames_count == FRAME_MAX_TENSORS) {
            continue; /* counted, and refused */
        }
        if (!copy_make(&item, &in->frames[in->frames_count])) {
            incoming_fini(in);
            return 0;
        }
        in->frames_count++;
    }
    pack->reader = reader;
    return judge(in, total, reterr);
}

int incoming_receive(void *socket, struct incoming_pack *pack, struct incoming *in, struct pen_error *reterr)
{
    in->frames_count = 0;
    if (incoming_pack_holds(pack)) {
        return pack_receive(pack, in, reterr);
    }
    incoming_pack_drop(pack);
    zmq_msg_init(&in->header);
    if (zmq_msg_recv(&in->header, socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&in->header);
        return 0;
    }
    if (pack_is(zmq_msg_data(&in->header), zmq_msg_size(&in->header)) && !zmq_msg_more(&in->header)) {
        return pack_take(pack, in, reterr) < 0 ? -1 : pack_receive(pack, in, reterr);
    }
    return judge(in, receive_rest(socket, in), reterr);
}
