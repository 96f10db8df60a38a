/*
 * Messages at the broker's two doors, its whole logic behind them. The input is a run of chunks: a byte that says door, peer and what comes
 * next, a length, and that many bytes for one frame; bit 7 of the first byte joins the next chunk's frame to the same message.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "back.h"
#include "desk.h"
#include "front.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAMES_MAX 4u

static void deliver(struct desk *desk, uint8_t head, const uint8_t *bytes, const size_t *sizes, size_t count)
{
    struct message message = {.count = 0};
    desk_frames(&message, 1u + (head >> 1 & 3u), bytes, sizes, count);
    if (head & 1)
        back_message(&desk->broker, &message);
    else
        front_message(&desk->broker, &message);
    message_fini(&message);
    if (head & 8)
        desk_wait(desk, 20000);
    else
        desk_run(desk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct desk *desk = desk_new();
    uint8_t bytes[FRAMES_MAX * 512];
    size_t sizes[FRAMES_MAX], count = 0, used = 0;
    desk_open(desk);
    desk->clients.forget = desk->workers.forget = true;
    while (size >= 3) {
        uint8_t head = data[0];
        size_t length = (size_t)(data[1] | (size_t)data[2] << 8) % 512;
        data += 3;
        size -= 3;
        length = length < size ? length : size;
        memcpy(bytes + used, data, length);
        sizes[count++] = length;
        used += length;
        data += length;
        size -= length;
        if ((head & 0x80) && count < FRAMES_MAX)
            continue;
        deliver(desk, head, bytes, sizes, count);
        count = used = 0;
    }
    desk_free(desk);
    return 0;
}
