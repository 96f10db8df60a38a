#include "bulk_out.h"

#include "assertion.h"

#include <stdlib.h>
#include <string.h>

#define OUTS_MAX 1024u /* of one peer: beyond it payloads go as whole frames */

struct transfer_link *transfer_link_of(struct broker *broker, struct transfer_end *end)
{
    if (end->link)
        return end->link;
    struct transfer_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->end = end;
    link->moved_us = broker->now_us;
    TAILQ_INIT(&link->ins);
    TAILQ_INIT(&link->outs);
    TAILQ_INSERT_TAIL(&broker->transfers.links, link, in_hub);
    end->link = link;
    return link;
}

void transfer_out_free(struct transfer_link *link, struct transfer_out *out)
{
    PEN_ASSERT(link->outs_count > 0 && out->run.moved <= out->run.granted,
               "a payload that ends was counted, and no more of it was sent than was asked for");
    TAILQ_REMOVE(&link->outs, out, in_link);
    link->outs_count--;
    PEN_ASSERT((link->outs_count == 0) == TAILQ_EMPTY(&link->outs), "payloads on their way out are counted");
    shared_message_release(out->shared);
    free(out);
}

bool transfer_wanted(const struct broker *broker, const struct transfer_end *end, const struct shared_message *shared)
{
    uint64_t from = (uint64_t)broker->options->bulk_from;
    return end->able && from > 0 && shared->count > 1 &&
           shared_message_bytes(shared) - zmq_msg_size(&shared->frames[0]) > from &&
           !(end->link && end->link->outs_count >= OUTS_MAX);
}

bool transfer_busy(const struct transfer_end *end)
{
    return end->link && end->link->outs_count >= TRANSFER_REPLIES;
}

bool transfer_sends(const struct transfer_end *end)
{
    return end->link && end->link->outs_count > 0;
}

bool header_own(zmq_msg_t *header)
{
    zmq_msg_t copy;
    size_t bytes = zmq_msg_size(header);
    if (zmq_msg_init_size(&copy, bytes) != 0)
        return false;
    memcpy(zmq_msg_data(&copy), zmq_msg_data(header), bytes);
    zmq_msg_move(header, &copy);
    zmq_msg_close(&copy);
    return true;
}

bool transfer_begin(struct broker *broker, struct transfer_end *end, struct job_id id, struct shared_message *shared,
                    zmq_msg_t *header)
{
    struct transfer_link *link = transfer_link_of(broker, end);
    struct transfer_out *out = link ? malloc(sizeof *out) : NULL;
    if (!out)
        return false;
    link->numbers += link->numbers == UINT32_MAX ? 2 : 1; /* 0 means none */
    bulk_init(&out->run, link->numbers);
    for (uint32_t i = 1; i < shared->count; i++)
        bulk_add(&out->run, zmq_msg_size(&shared->frames[i]));
    if (!header_own(header)) {
        free(out);
        return false;
    }
    frame_set_transfer(zmq_msg_data(header), out->run.number);
    out->id = id;
    out->shared = shared_message_retain(shared);
    if (link->outs_count++ == 0)
        link->moved_us = broker->now_us;
    TAILQ_INSERT_TAIL(&link->outs, out, in_link);
    return true;
}

bool transfer_forget(struct transfer_end *end, struct job_id id)
{
    struct transfer_out *out, *next;
    bool any = false;
    for (out = end->link ? TAILQ_FIRST(&end->link->outs) : NULL; out; out = next) {
        next = TAILQ_NEXT(out, in_link);
        if (!job_id_equal(out->id, id))
            continue;
        transfer_out_free(end->link, out);
        any = true;
    }
    return any;
}
