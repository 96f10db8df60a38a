/* message.c - the frames of a message that came (port.h). */
#include <stdlib.h>
#include <string.h>

#include "port.h"

#define FRAMES_KEPT 256u /* room kept between messages */

void message_cut(struct message *message, size_t count)
{
    while (message->count > count) {
        zmq_msg_t *last = &message->frames[--message->count];
        message->bytes -= zmq_msg_size(last);
        zmq_msg_close(last);
    }
    message->overflow = false;
}

void message_clear(struct message *message)
{
    for (size_t i = 0; i < message->count; i++)
        zmq_msg_close(&message->frames[i]);
    message->count = 0;
    message->bytes = 0;
    message->user = NULL;
    message->overflow = message->named = message->packed = message->borrowed = false;
    if (message->capacity > FRAMES_KEPT) {
        free(message->frames);
        message->frames = NULL;
        message->capacity = 0;
    }
}

void message_fini(struct message *message)
{
    message_clear(message);
    free(message->frames);
    *message = (struct message){0};
}

static enum pen_status message_grow(struct message *message)
{
    size_t capacity = message->capacity ? message->capacity * 2 : 16;
    zmq_msg_t *frames = malloc(capacity * sizeof *frames);
    if (!frames)
        return PEN_ERR_NO_MEMORY;
    for (size_t i = 0; i < message->count; i++) {
        zmq_msg_init(&frames[i]); /* a zmq_msg_t must be moved by the library */
        zmq_msg_move(&frames[i], &message->frames[i]);
        zmq_msg_close(&message->frames[i]);
    }
    free(message->frames);
    message->frames = frames;
    message->capacity = capacity;
    return PEN_OK;
}

enum pen_status message_add(struct message *message, zmq_msg_t *frame)
{
    if (message->count >= MESSAGE_FRAMES_MAX ||
        (message->count == message->capacity && message_grow(message) != PEN_OK)) {
        message->overflow = true;
        zmq_msg_close(frame);
        return PEN_ERR_TOO_LARGE;
    }
    zmq_msg_t *own = &message->frames[message->count++];
    zmq_msg_init(own);
    zmq_msg_move(own, frame);
    zmq_msg_close(frame);
    message->bytes += zmq_msg_size(own);
    return PEN_OK;
}

bool message_own(struct message *message)
{
    for (size_t i = 0; message->borrowed && i < message->count; i++) {
        zmq_msg_t copy, *frame = &message->frames[i];
        if (zmq_msg_init_size(&copy, zmq_msg_size(frame)) != 0)
            return false; /* those before it are copies already, which does no harm */
        memcpy(zmq_msg_data(&copy), zmq_msg_data(frame), zmq_msg_size(frame));
        zmq_msg_move(frame, &copy);
        zmq_msg_close(&copy);
    }
    if (message->packed)
        message->user = NULL; /* it goes with the PACK */
    message->borrowed = false;
    return true;
}

int message_fd(struct message *message)
{
    if (message->packed)
        return message->fd;
    return message->count ? zmq_msg_get(&message->frames[0], ZMQ_SRCFD) : -1;
}
