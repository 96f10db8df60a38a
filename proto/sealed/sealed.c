/* sealed.c - blocks of sealed memory: made, taken from a peer, counted. */
#include "sealed.h"

#include "assertion.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SEALS       (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)
#define ALIGN       64u
#define STAT_BLOCK  512u /* st_blocks counts in these */
#define SHARE_FILES 4u   /* blocks may have this part of the files that the process may open */
#define SPARE_FILES 12u  /* and leave so many to connections; at most a quarter */

struct sealed {
    atomic_uint references;
    int fd;
    bool high;
    size_t bytes;
    uint8_t *data;
};

static atomic_uint blocks_open, blocks_max, blocks_high;
static struct memory_groups own;

static void groups_open(void)
{
    memory_groups_open_own(&own);
}

static unsigned blocks_limit(void)
{
    struct rlimit files;
    unsigned limit = atomic_load(&blocks_max);
    if (limit > 0)
        return limit;
    limit = SEALED_BLOCKS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / SHARE_FILES < limit)
        limit = (unsigned)(files.rlim_cur / SHARE_FILES);
    limit = limit ? limit : 1;
    atomic_store(&blocks_max, limit);
    return limit;
}

/* The kernel gives the lowest number that is free: a high one tells that few descriptors are left. */
static bool high(int fd)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return false;
    const rlim_t quarter = files.rlim_cur / SHARE_FILES, spare = quarter < SPARE_FILES ? quarter : SPARE_FILES;
    return (rlim_t)fd >= files.rlim_cur - spare;
}

bool sealed_full(void)
{
    return atomic_load(&blocks_open) >= blocks_limit() || atomic_load(&blocks_high) > 0;
}

/* Takes the descriptor. The mapping is shared and cannot be written: what is in it costs nothing until it is read. Pages
   that are read fault in 16 at a time; MAP_POPULATE takes three times as long. */
static struct sealed *block_new(int fd, size_t bytes)
{
    struct sealed *block = malloc(sizeof *block);
    void *data = block ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (data == MAP_FAILED) {
        free(block);
        close(fd);
        return NULL;
    }
    atomic_init(&block->references, 1);
    block->fd = fd;
    block->bytes = bytes;
    block->data = data;
    block->high = high(fd);
    atomic_fetch_add(&blocks_open, 1);
    atomic_fetch_add(&blocks_high, block->high);
    return block;
}

/* ---- made here ---- */

static bool write_all(int fd, const uint8_t *data, size_t bytes, off_t at)
{
    while (bytes > 0) {
        ssize_t count = pwrite(fd, data, bytes, at);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        data += count;
        bytes -= (size_t)count;
        at += count;
    }
    return true;
}

static bool pieces_write(int fd, const struct sealed_piece *pieces, size_t count, size_t *ret_offsets,
                         size_t *ret_bytes)
{
    size_t at = 0, end = 0;
    for (size_t i = 0; i < count; i++) {
        at = (end + ALIGN - 1) / ALIGN * ALIGN;
        if (!write_all(fd, pieces[i].data, pieces[i].bytes, (off_t)at))
            return false;
        ret_offsets[i] = at;
        end = at + pieces[i].bytes;
    }
    *ret_bytes = end;
    return end > 0;
}

/* Opened once: a process seldom changes its groups, and their limits are read anew each time. */
static const struct memory_groups *groups_own(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, groups_open);
    return &own;
}

bool sealed_room(const struct memory_groups *groups, size_t bytes)
{
    uint64_t limit, used;
    if (!memory_groups_read(groups, false, &limit, &used) || (used <= limit / 2 && bytes <= limit / 2 - used))
        return true;
    return memory_groups_read(groups, true, &limit, &used) && used <= limit / 2 && bytes <= limit / 2 - used;
}

static size_t pieces_bytes(const struct sealed_piece *pieces, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += pieces[i].bytes;
    return bytes;
}

struct sealed *sealed_copy(const struct sealed_piece *pieces, size_t count, size_t *ret_offsets)
{
    size_t bytes = 0;
    if (sealed_full() || !sealed_room(groups_own(), pieces_bytes(pieces, count)))
        return NULL;
    int fd = memfd_create("penstock", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return NULL;
    if (high(fd) || !pieces_write(fd, pieces, count, ret_offsets, &bytes) ||
        fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) != 0) {
        close(fd);
        return NULL;
    }
    return block_new(fd, bytes);
}

/* ---- taken from a peer ---- */

/* A file of a disk has no seals (EINVAL). A block of huge pages has, and is refused, because it is mapped otherwise. Holes
   would make who reads them take memory for them. */
static enum pen_status check(int fd, const struct sealed_need *need, struct pen_error *reterr)
{
    struct stat stat;
    struct statfs system;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC || fstat(fd, &stat) != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "the descriptor is no sealed memory: make it with memfd_create()");
    if ((seals & SEALS) != SEALS)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "the memory is not sealed against writing, shrinking and growing (fcntl F_ADD_SEALS)");
    if (need->bytes == 0 || stat.st_size < 0 || (size_t)stat.st_size < need->bytes ||
        (need->whole && (size_t)stat.st_size != need->bytes))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the memory has %lld bytes where the frames need %zu",
                             (long long)stat.st_size, need->bytes);
    if ((uint64_t)stat.st_blocks * STAT_BLOCK < (uint64_t)stat.st_size)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the memory has holes: write all of it before it is sealed");
    return PEN_OK;
}

enum pen_status sealed_take(int fd, const struct sealed_need *need, struct sealed **ret_block, struct pen_error *reterr)
{
    enum pen_status status = check(fd, need, reterr);
    if (status != PEN_OK) {
        close(fd);
        return status;
    }
    *ret_block = block_new(fd, need->bytes);
    return *ret_block ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%zu bytes cannot be mapped", need->bytes);
}

/* ---- shared ---- */

struct sealed *sealed_retain(struct sealed *block)
{
    if (block)
        atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    return block;
}

void sealed_release(struct sealed *block)
{
    unsigned held = block ? atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel) : 0;
    PEN_ASSERT(!block || held > 0, "a block is given back only by who holds it");
    if (held != 1)
        return;
    munmap(block->data, block->bytes);
    close(block->fd);
    atomic_fetch_sub(&blocks_high, block->high);
    free(block);
    atomic_fetch_sub(&blocks_open, 1);
}

const uint8_t *sealed_data(const struct sealed *block)
{
    return block->data;
}

size_t sealed_bytes(const struct sealed *block)
{
    return block->bytes;
}

int sealed_descriptor(const struct sealed *block)
{
    return block->fd;
}
