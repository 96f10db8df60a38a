/* parcel.c - the datagrams of the Unix socket: the two that bind it, and parcels. Both ends are on one host: numbers are
   in its order. */
#include "parcel.h"

#include "assertion.h"

#include <errno.h>
#include <sodium.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC       0x4C524350u /* "PCRL" */
#define STALE_MAX   4096u       /* parcels that no message named, in a row */
#define BLOCK_BYTES (sizeof(int) * PARCEL_BLOCKS_MAX)

enum kind { KIND_ASK_CLIENT = 1, KIND_ASK_WORKER = 2, KIND_BOUND = 3, KIND_PARCEL = 4 };

struct ask {
    uint32_t magic, kind;
    uint64_t uuid;
    uint8_t token[PARCEL_TOKEN_BYTES];
};

struct bound {
    uint32_t magic, kind;
    uint8_t proof[PARCEL_TOKEN_BYTES];
};

struct row {
    uint32_t block, zero;
    uint64_t offset, bytes;
};

struct datagram {
    uint32_t magic, kind, number, frames;
    struct row rows[FRAME_MAX_TENSORS];
};

_Static_assert(sizeof(struct ask) == PARCEL_HELLO_BYTES, "the datagrams have no gaps");
_Static_assert(sizeof(struct datagram) == PARCEL_DATAGRAM_BYTES, "nor has a parcel's");
_Static_assert(2 * PARCEL_TOKEN_BYTES == PARCEL_SECRET_BYTES, "a secret has a half for each side");

/* ---- parcels in memory ---- */

static uint32_t block_index(struct parcel *parcel, struct sealed *block)
{
    uint32_t index = 0;
    while (index < parcel->blocks_count && parcel->blocks[index] != block)
        index++;
    if (index == parcel->blocks_count && index < PARCEL_BLOCKS_MAX)
        parcel->blocks[parcel->blocks_count++] = block;
    return index;
}

bool parcel_add(struct parcel *parcel, struct sealed *block, size_t offset, size_t bytes)
{
    uint32_t index = block_index(parcel, block);
    if (index == PARCEL_BLOCKS_MAX || parcel->frames_count == FRAME_MAX_TENSORS)
        return false;
    parcel->frames[parcel->frames_count++] = (struct parcel_frame){.block = index, .offset = offset, .bytes = bytes};
    return true;
}

uint64_t parcel_bytes(const struct parcel *parcel)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < parcel->frames_count; i++)
        bytes += parcel->frames[i].bytes;
    return bytes;
}

void parcel_drop(struct parcel *parcel)
{
    for (uint32_t i = 0; i < parcel->blocks_count; i++)
        sealed_release(parcel->blocks[i]);
    parcel->blocks_count = parcel->frames_count = 0;
}

/* ---- reading ---- */

static bool row_read(const struct row *row, uint32_t blocks, const struct parcel_limits *limits, uint64_t *bytes,
                     struct parcel_frame *ret_frame)
{
    uint64_t most = limits->frame_bytes_max ? limits->frame_bytes_max : (uint64_t)SIZE_MAX / 4;
    if (row->block >= blocks || row->bytes == 0 || row->bytes > most || row->offset > SIZE_MAX / 4)
        return false;
    *bytes += row->bytes;
    *ret_frame = (struct parcel_frame){.block = row->block, .offset = row->offset, .bytes = row->bytes};
    return limits->bytes_max == 0 || *bytes <= limits->bytes_max;
}

bool parcel_read(const uint8_t *bytes, size_t count, uint32_t blocks, const struct parcel_limits *limits,
                 struct parcel *ret_parcel)
{
    struct datagram datagram;
    uint64_t total = 0;
    bool good = count >= offsetof(struct datagram, rows) && count <= sizeof datagram && blocks > 0 &&
                blocks <= PARCEL_BLOCKS_MAX;
    if (!good)
        return false;
    memcpy(&datagram, bytes, count);
    if (datagram.magic != MAGIC || datagram.kind != KIND_PARCEL || datagram.number == 0 || datagram.frames == 0 ||
        datagram.frames > FRAME_MAX_TENSORS ||
        count != offsetof(struct datagram, rows) + datagram.frames * sizeof(struct row))
        return false;
    *ret_parcel = (struct parcel){.number = datagram.number, .frames_count = datagram.frames};
    for (uint32_t i = 0; good && i < datagram.frames; i++)
        good = row_read(&datagram.rows[i], blocks, limits, &total, &ret_parcel->frames[i]);
    return good;
}

bool parcel_claim_read(const uint8_t *bytes, size_t count, struct parcel_claim *ret_claim)
{
    struct ask ask;
    if (count != sizeof ask)
        return false;
    memcpy(&ask, bytes, sizeof ask);
    *ret_claim = (struct parcel_claim){.uuid = ask.uuid, .worker = ask.kind == KIND_ASK_WORKER};
    memcpy(ret_claim->token, ask.token, sizeof ask.token);
    return ask.magic == MAGIC && (ask.kind == KIND_ASK_CLIENT || ask.kind == KIND_ASK_WORKER);
}

/* ---- binding ---- */

void parcel_close(struct parcel_link *link)
{
    if (link->state != PARCEL_NONE)
        close(link->fd);
    *link = (struct parcel_link){.state = PARCEL_NONE, .fd = -1};
}

bool parcel_ask(struct parcel_link *link, const char *name, const uint8_t secret[PARCEL_SECRET_BYTES], uint64_t uuid,
                bool worker)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ask ask = {.magic = MAGIC, .kind = worker ? KIND_ASK_WORKER : KIND_ASK_CLIENT, .uuid = uuid};
    size_t length = strlen(name);
    parcel_close(link);
    if (length == 0 || length >= sizeof address.sun_path)
        return false;
    memcpy(address.sun_path + 1, name, length); /* behind a zero byte: a name without a file */
    memcpy(ask.token, secret, sizeof ask.token);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    if (connect(fd, (struct sockaddr *)&address, size) != 0 ||
        send(fd, &ask, sizeof ask, MSG_NOSIGNAL) != (ssize_t)sizeof ask) {
        close(fd);
        return false;
    }
    *link = (struct parcel_link){.state = PARCEL_ASKED, .fd = fd};
    memcpy(link->proof, secret + PARCEL_TOKEN_BYTES, sizeof link->proof);
    return true;
}

bool parcel_bind(struct parcel_link *link, int fd, const struct parcel_claim *claim,
                 const uint8_t secret[PARCEL_SECRET_BYTES])
{
    struct bound bound = {.magic = MAGIC, .kind = KIND_BOUND};
    memcpy(bound.proof, secret + PARCEL_TOKEN_BYTES, sizeof bound.proof);
    if (link->state != PARCEL_NONE || sodium_memcmp(claim->token, secret, PARCEL_TOKEN_BYTES) != 0 ||
        send(fd, &bound, sizeof bound, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof bound) {
        close(fd);
        return false;
    }
    *link = (struct parcel_link){.state = PARCEL_BOUND, .fd = fd};
    return true;
}

bool parcel_ready(struct parcel_link *link)
{
    struct bound bound;
    if (link->state != PARCEL_ASKED)
        return link->state == PARCEL_BOUND;
    ssize_t count = recv(link->fd, &bound, sizeof bound, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (count != (ssize_t)sizeof bound || bound.magic != MAGIC || bound.kind != KIND_BOUND ||
        sodium_memcmp(bound.proof, link->proof, sizeof bound.proof) != 0) {
        parcel_close(link);
        return false;
    }
    link->state = PARCEL_BOUND;
    return true;
}

/* ---- sending ---- */

static size_t datagram_write(const struct parcel *parcel, struct datagram *datagram)
{
    datagram->magic = MAGIC;
    datagram->kind = KIND_PARCEL;
    datagram->number = parcel->number;
    datagram->frames = parcel->frames_count;
    for (uint32_t i = 0; i < parcel->frames_count; i++)
        datagram->rows[i] = (struct row){
            .block = parcel->frames[i].block, .offset = parcel->frames[i].offset, .bytes = parcel->frames[i].bytes};
    return offsetof(struct datagram, rows) + parcel->frames_count * sizeof(struct row);
}

/* Room for the descriptors, aligned as the kernel wants it. */
union control {
    struct cmsghdr header;
    uint8_t bytes[CMSG_SPACE(BLOCK_BYTES)];
};

static void descriptors_write(const struct parcel *parcel, union control *control, struct msghdr *message)
{
    size_t bytes = parcel->blocks_count * sizeof(int);
    memset(control, 0, sizeof *control);
    message->msg_control = control->bytes;
    message->msg_controllen = CMSG_SPACE(bytes);
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    for (uint32_t i = 0; i < parcel->blocks_count; i++) {
        int fd = sealed_descriptor(parcel->blocks[i]);
        memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
    }
}

/* A peer that does not read (EAGAIN), and too many descriptors on their way (ETOOMANYREFS), pass. */
static bool passes(int error)
{
    return error == EAGAIN || error == EINTR || error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM;
}

bool parcel_send(struct parcel_link *link, struct parcel *parcel)
{
    struct datagram datagram;
    union control control;
    PEN_ASSERT(parcel->frames_count > 0 && parcel->blocks_count > 0, "a parcel that is sent has frames");
    if (!parcel_ready(link))
        return false;
    link->numbers += link->numbers == UINT32_MAX ? 2 : 1; /* 0 means none */
    parcel->number = link->numbers;
    struct iovec bytes = {.iov_base = &datagram, .iov_len = datagram_write(parcel, &datagram)};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    descriptors_write(parcel, &control, &message);
    if (sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes.iov_len)
        return true;
    if (!passes(errno))
        parcel_close(link);
    return false;
}

/* ---- taking ---- */

/* A datagram as it came. */
struct arrival {
    struct datagram datagram;
    size_t count;
    int fds[PARCEL_BLOCKS_MAX];
    uint32_t fds_count;
    bool cut; /* by the kernel: the datagram is longer than any of ours, or no descriptor was free */
};

static void fds_close(struct arrival *arrival)
{
    while (arrival->fds_count > 0)
        close(arrival->fds[--arrival->fds_count]);
}

static void fds_collect(struct msghdr *message, struct arrival *arrival)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && arrival->fds_count < PARCEL_BLOCKS_MAX; i++)
            memcpy(&arrival->fds[arrival->fds_count++], CMSG_DATA(header) + i * sizeof(int), sizeof(int));
    }
}

/* False: nothing is there, or the peer has gone. */
static bool receive(int fd, struct arrival *arrival)
{
    union control control;
    struct iovec bytes = {.iov_base = &arrival->datagram, .iov_len = sizeof arrival->datagram};
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t count;
    do
        count = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (count < 0 && errno == EINTR);
    arrival->fds_count = 0;
    if (count <= 0)
        return false;
    arrival->count = (size_t)count;
    arrival->cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    fds_collect(&message, arrival);
    return true;
}

/* How many bytes of each block the frames need. */
static void extents(const struct parcel *parcel, size_t *ret_bytes)
{
    memset(ret_bytes, 0, PARCEL_BLOCKS_MAX * sizeof *ret_bytes);
    for (uint32_t i = 0; i < parcel->frames_count; i++) {
        const struct parcel_frame *frame = &parcel->frames[i];
        size_t end = (size_t)(frame->offset + frame->bytes);
        if (end > ret_bytes[frame->block])
            ret_bytes[frame->block] = end;
    }
}

static enum pen_status blocks_take(struct arrival *arrival, const struct parcel_limits *limits, struct parcel *parcel,
                                   struct pen_error *reterr)
{
    size_t bytes[PARCEL_BLOCKS_MAX];
    extents(parcel, bytes);
    for (uint32_t i = 0; i < arrival->fds_count; i++) {
        int fd = arrival->fds[i];
        arrival->fds[i] = -1;
        const struct sealed_need need = {.bytes = bytes[i], .whole = limits->whole};
        enum pen_status status = sealed_take(fd, &need, &parcel->blocks[parcel->blocks_count], reterr);
        if (status != PEN_OK) {
            while (++i < arrival->fds_count)
                close(arrival->fds[i]);
            parcel_drop(parcel);
            return status;
        }
        parcel->blocks_count++;
    }
    return PEN_OK;
}

static enum pen_status open_parcel(struct arrival *arrival, const struct parcel_limits *limits,
                                   struct parcel *ret_parcel, struct pen_error *reterr)
{
    if (arrival->cut) {
        fds_close(arrival);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY,
                             "a descriptor of sealed memory was not delivered: raise the limit of open files");
    }
    if (!parcel_read((const uint8_t *)&arrival->datagram, arrival->count, arrival->fds_count, limits, ret_parcel)) {
        fds_close(arrival);
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "a parcel of sealed memory that is malformed or too large");
    }
    return blocks_take(arrival, limits, ret_parcel, reterr);
}

/* The number of a datagram that is long enough to have one; 0: it has none. */
static uint32_t number_of(const struct arrival *arrival)
{
    return arrival->count >= offsetof(struct datagram, rows) ? arrival->datagram.number : 0;
}

static enum pen_status find(struct parcel_link *link, uint32_t number, const struct parcel_limits *limits,
                            struct parcel *ret_parcel, struct pen_error *reterr)
{
    struct arrival arrival;
    for (unsigned stale = 0; stale < STALE_MAX && receive(link->fd, &arrival); stale++) {
        if (number_of(&arrival) == number)
            return open_parcel(&arrival, limits, ret_parcel, reterr);
        fds_close(&arrival);
        if ((int32_t)(number_of(&arrival) - number) > 0)
            break;
    }
    return pen_error_set(reterr, PEN_ERR_CORRUPT,
                         "a message names sealed memory number %u, which was not sent before it", number);
}

enum pen_status parcel_take(struct parcel_link *link, uint32_t number, const struct parcel_limits *limits,
                            struct parcel *ret_parcel, struct pen_error *reterr)
{
    *ret_parcel = (struct parcel){.number = 0};
    if (number == 0 || !parcel_ready(link))
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "a message names sealed memory, and there is no socket for it");
    enum pen_status status = find(link, number, limits, ret_parcel, reterr);
    if (status != PEN_OK)
        parcel_close(link);
    return status;
}
