/*
 * Messages at the broker's two doors, its whole logic behind them (chunks.h). Of a message's first byte: bit 0 the workers' door, bits 1 and 2 the
 * peer, bit 3: 20 ms pass behind it.
 */
#include "worker_handler.h"
#include "chunks.h"
#include "desk.h"
#include "client_handler.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void deliver(struct desk *desk, const struct chunk *chunk)
{
    struct message message = {.count = 0};
    desk_frames(&message, 1u + (chunk->head >> 1 & 3u), chunk->bytes, chunk->sizes, chunk->count);
    if (chunk->head & 1)
        worker_message(&desk->broker, &message);
    else
        client_message(&desk->broker, &message);
    message_fini(&message);
    if (chunk->head & 8)
        desk_wait(desk, 20000);
    else
        desk_run(desk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct desk *desk = desk_new();
    struct chunk chunk;
    desk_open(desk);
    desk->clients.forget = desk->workers.forget = true;
    while (chunk_next(&data, &size, &chunk))
        deliver(desk, &chunk);
    desk_free(desk);
    return 0;
}
