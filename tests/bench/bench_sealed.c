/*
 * bench_sealed BYTES COUNT - what the way through sealed memory takes of a processor, for a payload that goes from a client by a broker to a worker.
 *
 * Three ends of two real Unix sockets in one process, one behind the other; so a figure is the sum of what the three processes do.
 * memory_us  a plain copy to memory that is there: what a client's own copy takes
 * copy_us    the same into a new block, with the kernel's work to find its pages
 * path_us    the path itself: two parcels sent, taken, checked and mapped, and frames made of them
 * read_us    the worker's first look at each page
 * free_us    the three ends let go, and the kernel takes its pages back: behind the answer, not before it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "parcel_door.h"
#include "parcel_frames.h"
#include "process.h"

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Two bound ends. */
static void bind_pair(struct parcel_door *door, struct parcel_link *peer, struct parcel_link *broker)
{
    static const uint8_t secret[PARCEL_SECRET_BYTES] = {1, 2, 3};
    struct parcel_claim claim;
    int fd;
    if (!parcel_ask(peer, door->name, secret, 1, false) || !parcel_door_next(door, 0, &claim, &fd) ||
        !parcel_bind(broker, fd, &claim, secret) || !parcel_ready(peer))
        support_fail("the sockets cannot be bound");
}

static void frame_take(struct parcel_link *link, uint32_t number, zmq_msg_t *ret_frame)
{
    const struct parcel_limits limits = {.whole = true};
    struct pen_error error = {.status = PEN_OK};
    struct parcel parcel;
    if (parcel_take(link, number, &limits, &parcel, &error) != PEN_OK || parcel_frames_make(&parcel, ret_frame) != 0)
        support_fail("a parcel cannot be taken: %s", error.text);
    parcel_drop(&parcel);
}

static uint32_t frame_give(struct parcel_link *link, const zmq_msg_t *frame)
{
    struct parcel parcel = {.number = 0};
    if (!parcel_add_frame(&parcel, frame) || !parcel_send(link, &parcel))
        support_fail("a parcel cannot be sent");
    return parcel.number;
}

struct way {
    struct parcel_link client, broker_in, broker_out, worker;
};

enum step { STEP_MEMORY, STEP_COPY, STEP_PATH, STEP_READ, STEP_FREE, STEPS };

/* The time since *at, which becomes now. */
static uint64_t lap(uint64_t *at)
{
    uint64_t now = now_ns(), ns = now - *at;
    *at = now;
    return ns;
}

static void look(zmq_msg_t *frame)
{
    const volatile uint8_t *bytes = zmq_msg_data(frame);
    for (size_t at = 0; at < zmq_msg_size(frame); at += 4096)
        (void)bytes[at];
}

/* From the client's bytes to a frame at the worker; then each end lets go of it. */
static void pass(struct way *way, const uint8_t *data, uint8_t *own, size_t bytes, uint64_t *ret_ns)
{
    const struct sealed_piece piece = {data, bytes};
    struct parcel parcel = {.number = 0};
    zmq_msg_t broker, worker;
    size_t offset;
    uint64_t at = now_ns();
    memcpy(own, data, bytes);
    ret_ns[STEP_MEMORY] = lap(&at);
    struct sealed *block = sealed_copy(&piece, 1, &offset);
    ret_ns[STEP_COPY] = lap(&at);
    if (!block || !parcel_add(&parcel, block, 0, bytes) || !parcel_send(&way->client, &parcel))
        support_fail("a parcel cannot be sent");
    frame_take(&way->broker_in, parcel.number, &broker);
    frame_take(&way->worker, frame_give(&way->broker_out, &broker), &worker);
    ret_ns[STEP_PATH] = lap(&at);
    look(&worker);
    ret_ns[STEP_READ] = lap(&at);
    zmq_msg_close(&worker);
    zmq_msg_close(&broker);
    sealed_release(block);
    ret_ns[STEP_FREE] = lap(&at);
}

static int compare(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static void print_middle(const char *name, uint64_t (*ns)[STEPS], enum step step, size_t count)
{
    uint64_t *values = malloc(count * sizeof *values);
    for (size_t i = 0; values && i < count; i++)
        values[i] = ns[i][step];
    if (!values)
        support_fail("no memory");
    qsort(values, count, sizeof *values, compare);
    printf(",\"%s_us\":%.1f", name, (double)values[count / 2] / 1000.0);
    free(values);
}

int main(int argc, char **argv)
{
    static const char *const names[STEPS] = {"memory", "copy", "path", "read", "free"};
    size_t bytes = argc == 3 ? strtoul(argv[1], NULL, 10) : 0, count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (bytes == 0 || count == 0 || count > 1000000)
        support_fail("usage: bench_sealed BYTES COUNT");
    struct pen_error error = {.status = PEN_OK};
    struct parcel_door door;
    struct way way = {.client = {.state = PARCEL_NONE}};
    uint8_t *data = malloc(bytes), *own = malloc(bytes);
    uint64_t(*ns)[STEPS] = malloc(count * sizeof *ns);
    if (!data || !own || !ns || parcel_door_open(&door, &error) != PEN_OK)
        support_fail("cannot begin: %s", error.text);
    memset(data, 1, bytes);
    memset(own, 2, bytes);
    bind_pair(&door, &way.client, &way.broker_in);
    bind_pair(&door, &way.worker, &way.broker_out);
    for (size_t i = 0; i < count; i++)
        pass(&way, data, own, bytes, ns[i]);
    printf("{\"bytes\":%zu", bytes);
    for (enum step step = 0; step < STEPS; step++)
        print_middle(names[step], ns, step, count);
    puts("}");
    return 0;
}
