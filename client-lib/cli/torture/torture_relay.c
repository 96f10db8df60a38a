/* torture_relay.c - a TCP relay whose connections can be made to carry nothing. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "torture_relay.h"

#define LANES_MAX  8u
#define PAIRS_MAX  256u
#define CHUNK      65536u
#define LOOK_MS    5
#define FLOW_COUNT 2u

/* One direction of a connection: what was read and is not yet written. */
struct flow {
    int from, to;
    size_t used, sent;
    unsigned char bytes[CHUNK];
};

struct pair {
    int lane;
    struct flow flows[FLOW_COUNT]; /* to the target, back */
};

struct lane {
    int listener, port, target;
    atomic_uint directions;
    atomic_ullong until_us;
    atomic_bool reset;
};

struct relay {
    pthread_t thread;
    atomic_bool stop;
    atomic_uint lanes_count;
    struct lane lanes[LANES_MAX];
    struct pair *pairs[PAIRS_MAX];
    size_t pairs_count;
};

static int socket_new(void)
{
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void no_delay(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int relay_add(struct relay *relay, int port)
{
    unsigned index = atomic_load(&relay->lanes_count);
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    int fd = index < LANES_MAX ? socket_new() : -1;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    struct lane *lane = &relay->lanes[index];
    lane->listener = fd;
    lane->port = ntohs(address.sin_port);
    lane->target = port;
    atomic_store(&relay->lanes_count, index + 1);
    return (int)index;
}

int relay_port(const struct relay *relay, int lane)
{
    return relay->lanes[lane].port;
}

void relay_cut(struct relay *relay, int lane, unsigned directions, uint64_t until_us)
{
    atomic_store(&relay->lanes[lane].directions, directions);
    atomic_store(&relay->lanes[lane].until_us, until_us);
}

void relay_reset(struct relay *relay, int lane)
{
    atomic_store(&relay->lanes[lane].reset, true);
}

static void accept_one(struct relay *relay, int index)
{
    struct sockaddr_in address = loopback(relay->lanes[index].target);
    int from = accept4(relay->lanes[index].listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (from < 0) {
        return;
    }
    int to = relay->pairs_count < PAIRS_MAX ? socket_new() : -1;
    struct pair *pair = to >= 0 ? malloc(sizeof *pair) : NULL;
    if (!pair || (connect(to, (struct sockaddr *)&address, sizeof address) != 0 && errno != EINPROGRESS)) {
        free(pair);
        close(from);
        if (to >= 0) {
            close(to);
        }
        return;
    }
    no_delay(from);
    no_delay(to);
    pair->lane = index;
    pair->flows[0].from = pair->flows[1].to = from;
    pair->flows[0].to = pair->flows[1].from = to;
    for (size_t i = 0; i < FLOW_COUNT; i++) {
        pair->flows[i].used = pair->flows[i].sent = 0;
    }
    relay->pairs[relay->pairs_count++] = pair;
}

static void pair_drop(struct relay *relay, size_t index)
{
    struct pair *pair = relay->pairs[index];
    close(pair->flows[0].from);
    close(pair->flows[0].to);
    free(pair);
    relay->pairs[index] = relay->pairs[--relay->pairs_count];
}

/* False: the connection has ended. */
static bool flow_move(struct flow *flow)
{
    if (flow->used == 0) {
        ssize_t got = read(flow->from, flow->bytes, CHUNK);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            return false;
        }
        flow->used = got > 0 ? (size_t)got : 0;
        flow->sent = 0;
    }
    while (flow->sent < flow->used) {
        ssize_t put = send(flow->to, flow->bytes + flow->sent, flow->used - flow->sent, MSG_NOSIGNAL);
        if (put < 0) {
            return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
        }
        flow->sent += (size_t)put;
    }
    flow->used = 0;
    return true;
}

/* A cut direction is neither read nor written: the kernels hold what is on its way, and it goes on after the cut. */
static bool is_cut(const struct relay *relay, const struct pair *pair, size_t direction, uint64_t now_us)
{
    const struct lane *lane = &relay->lanes[pair->lane];
    return now_us < atomic_load(&lane->until_us) && (atomic_load(&lane->directions) >> direction & 1u);
}

static nfds_t poll_set(struct relay *relay, struct pollfd *fds, uint64_t now_us)
{
    nfds_t count = 0;
    for (unsigned i = 0; i < atomic_load(&relay->lanes_count); i++) {
        fds[count++] = (struct pollfd){.fd = relay->lanes[i].listener, .events = POLLIN};
    }
    for (size_t i = 0; i < relay->pairs_count; i++) {
        for (size_t d = 0; d < FLOW_COUNT; d++) {
            const struct flow *flow = &relay->pairs[i]->flows[d];
            bool cut = is_cut(relay, relay->pairs[i], d, now_us);
            fds[count++] = (struct pollfd){.fd = cut          ? -1
                                                 : flow->used ? flow->to
                                                              : flow->from,
                                           .events = flow->used ? POLLOUT : POLLIN};
        }
    }
    return count;
}

static void move_all(struct relay *relay, uint64_t now_us)
{
    for (size_t i = relay->pairs_count; i-- > 0;) {
        struct pair *pair = relay->pairs[i];
        bool alive = !atomic_load(&relay->lanes[pair->lane].reset);
        for (size_t d = 0; alive && d < FLOW_COUNT; d++) {
            alive = is_cut(relay, pair, d, now_us) || flow_move(&pair->flows[d]);
        }
        if (!alive) {
            pair_drop(relay, i);
        }
    }
    for (unsigned i = 0; i < atomic_load(&relay->lanes_count); i++) {
        atomic_store(&relay->lanes[i].reset, false);
    }
}

static void *relay_main(void *arg)
{
    struct relay *relay = arg;
    static struct pollfd fds[LANES_MAX + PAIRS_MAX * FLOW_COUNT];
    while (!atomic_load(&relay->stop)) {
        unsigned lanes = atomic_load(&relay->lanes_count);
        nfds_t count = poll_set(relay, fds, clock_now_us());
        poll(fds, count, LOOK_MS);
        for (unsigned i = 0; i < lanes; i++) {
            if (fds[i].revents & POLLIN) {
                accept_one(relay, (int)i);
            }
        }
        move_all(relay, clock_now_us());
    }
    return NULL;
}

struct relay *relay_new(void)
{
    struct relay *relay = calloc(1, sizeof *relay);
    if (relay && pthread_create(&relay->thread, NULL, relay_main, relay) != 0) {
        free(relay);
        return NULL;
    }
    return relay;
}

void relay_free(struct relay *relay)
{
    if (!relay) {
        return;
    }
    atomic_store(&relay->stop, true);
    pthread_join(relay->thread, NULL);
    while (relay->pairs_count > 0) {
        pair_drop(relay, 0);
    }
    for (unsigned i = 0; i < atomic_load(&relay->lanes_count); i++) {
        close(relay->lanes[i].listener);
    }
    free(relay);
}
