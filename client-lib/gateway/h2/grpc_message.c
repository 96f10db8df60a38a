#include "grpc_message.h"

#include <string.h>

#define FIRST_ROOM 65536u

void grpc_prefix_write(uint64_t bytes, bool packed, unsigned char prefix[GRPC_PREFIX_BYTES])
{
    prefix[0] = packed;
    for (unsigned i = 1; i < GRPC_PREFIX_BYTES; i++)
        prefix[i] = (unsigned char)(bytes >> (8 * (GRPC_PREFIX_BYTES - 1 - i)));
}

static enum grpc_take take_prefix(struct grpc_message *message, size_t bytes_max)
{
    const unsigned char *prefix = message->prefix;
    message->bytes = (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
    if (prefix[0] > 1)
        return GRPC_TAKE_MALFORMED;
    message->packed = prefix[0] == 1;
    return message->bytes > bytes_max ? GRPC_TAKE_LARGE : GRPC_TAKE_DONE;
}

static bool make_room(struct grpc_message *message)
{
    size_t room = message->room ? message->room * 4 : FIRST_ROOM;
    room = room < message->bytes ? room : message->bytes;
    if (!message->hold)
        message->hold = hold_new();
    char *data = !message->hold  ? NULL
                 : message->room ? hold_resize(message->hold, room)
                                 : hold_take(message->hold, room);
    if (!data)
        return false;
    message->data = data;
    message->room = room;
    return true;
}

enum grpc_take grpc_message_take(struct grpc_message *message, const uint8_t *data, size_t count, size_t bytes_max,
                                 size_t *ret_taken)
{
    size_t taken = 0;
    *ret_taken = 0;
    while (message->prefix_used < GRPC_PREFIX_BYTES && taken < count) {
        message->prefix[message->prefix_used++] = data[taken++];
        enum grpc_take found =
            message->prefix_used == GRPC_PREFIX_BYTES ? take_prefix(message, bytes_max) : GRPC_TAKE_DONE;
        if (found != GRPC_TAKE_DONE)
            return found;
    }
    while (taken < count && message->used < message->bytes) {
        if (message->used == message->room && !make_room(message))
            return GRPC_TAKE_NO_MEMORY;
        size_t part = message->room - message->used < count - taken ? message->room - message->used : count - taken;
        memcpy(message->data + message->used, data + taken, part);
        message->used += part;
        taken += part;
    }
    *ret_taken = taken;
    return message->prefix_used == GRPC_PREFIX_BYTES && message->used == message->bytes ? GRPC_TAKE_DONE
                                                                                        : GRPC_TAKE_MORE;
}

bool grpc_message_begun(const struct grpc_message *message)
{
    return message->prefix_used > 0;
}

void grpc_message_fini(struct grpc_message *message)
{
    hold_release(message->hold);
    *message = (struct grpc_message){.hold = NULL};
}
