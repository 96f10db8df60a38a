/* transfer.c - threads take parts; whoever ends one carries the digest on over all that is there without a gap. */
#include "transfer.h"

#include "content_key.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 32u
#define TRIES_MAX   5u
#define PAUSE_NS    50000000L /* doubled with each try */
#define BLOCK_BYTES (256u * 1024u)

struct transfer {
    const struct transfer_asked *asked;
    struct partial *partial;
    char key[PLACE_KEY_BYTES];
    pthread_mutex_t lock;
    size_t next;              /* no part before it is open */
    unsigned char *taken;     /* [parts] */
    struct content_hash hash; /* of the parts before `hashed` */
    size_t hashed;
    bool hashing;
    uint64_t bytes;
    enum pen_status status;
    struct pen_error error;
};

static void fail(struct transfer *transfer, const struct pen_error *error)
{
    pthread_mutex_lock(&transfer->lock);
    if (transfer->status == PEN_OK) {
        transfer->status = error->status;
        transfer->error = *error;
    }
    pthread_mutex_unlock(&transfer->lock);
}

/* ---- the digest ---------------------------------------------------------------------------------------------------------------------- */

static bool part_hash(struct transfer *transfer, size_t part, unsigned char *block)
{
    uint64_t at = (uint64_t)part * PARTIAL_PART_BYTES, end = partial_part_end(transfer->partial, part);
    while (at < end) {
        ssize_t got =
            pread(transfer->partial->fd, block, end - at < BLOCK_BYTES ? (size_t)(end - at) : BLOCK_BYTES, (off_t)at);
        if (got <= 0)
            return false;
        content_hash_add(&transfer->hash, block, (size_t)got);
        at += (uint64_t)got;
    }
    return true;
}

static bool hash_may(const struct transfer *transfer)
{
    return transfer->hashed < transfer->partial->parts && transfer->partial->marks[transfer->hashed] == '1';
}

/* One thread at a time; the others go on fetching. */
static void hash_advance(struct transfer *transfer)
{
    unsigned char *block = malloc(BLOCK_BYTES);
    pthread_mutex_lock(&transfer->lock);
    bool mine = block && !transfer->hashing;
    transfer->hashing |= mine;
    while (mine && hash_may(transfer)) {
        pthread_mutex_unlock(&transfer->lock);
        bool good = part_hash(transfer, transfer->hashed, block);
        pthread_mutex_lock(&transfer->lock);
        if (!good)
            break;
        transfer->hashed++;
    }
    if (mine)
        transfer->hashing = false;
    pthread_mutex_unlock(&transfer->lock);
    free(block);
}

/* ---- one part ------------------------------------------------------------------------------------------------------------------------ */

struct part_run {
    struct transfer *transfer;
    size_t part;      /* the next one that will be whole */
    uint64_t at, end; /* what is wanted: [at, end) */
    int error;        /* errno of a write */
};

static void parts_end(struct part_run *run)
{
    struct transfer *transfer = run->transfer;
    pthread_mutex_lock(&transfer->lock);
    while (run->part < transfer->partial->parts && run->at >= partial_part_end(transfer->partial, run->part))
        partial_mark(transfer->partial, run->part++);
    pthread_mutex_unlock(&transfer->lock);
}

/* What lies before `at` is passed over: a server that knows no ranges sends it, too. */
static bool part_take(void *context, uint64_t position, const void *bytes, size_t count)
{
    struct part_run *run = context;
    const char *from = bytes;
    if (position + count <= run->at)
        return true;
    if (position > run->at)
        return false;
    from += run->at - position;
    count -= (size_t)(run->at - position);
    count = count < run->end - run->at ? count : (size_t)(run->end - run->at);
    if (!partial_write(run->transfer->partial, from, count, run->at)) {
        run->error = errno;
        return false;
    }
    run->at += count;
    parts_end(run);
    pthread_mutex_lock(&run->transfer->lock);
    run->transfer->bytes += count;
    pthread_mutex_unlock(&run->transfer->lock);
    return run->at < run->end;
}

static bool stopped(struct transfer *transfer)
{
    pthread_mutex_lock(&transfer->lock);
    bool failed = transfer->status != PEN_OK;
    pthread_mutex_unlock(&transfer->lock);
    return failed || (transfer->asked->stop && transfer->asked->stop());
}

static enum pen_status part_try(struct part_run *run, uint64_t last, struct pen_error *reterr)
{
    struct transfer *transfer = run->transfer;
    uint64_t before = run->at;
    struct place_part part = {.key = transfer->key, .first = run->at, .last = last, .sink = part_take, .context = run};
    enum pen_status status = place_read(transfer->asked->place, &part, reterr);
    if (run->error) {
        errno = run->error;
        return disk_failed("write", transfer->partial->path, reterr);
    }
    if (status == PEN_OK && run->at <= last)
        status = pen_error_set(reterr, run->at > before ? PEN_ERR_UNAVAILABLE : PEN_ERR_CORRUPT,
                               "%s of %.200s ends before its manifest says", transfer->key,
                               place_text(transfer->asked->place));
    return status;
}

/* From the place where the last try ended. */
static enum pen_status part_fetch(struct part_run *run, uint64_t last, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    long pause_ns = PAUSE_NS;
    for (unsigned tries = 0; tries < TRIES_MAX && !stopped(run->transfer); tries++) {
        uint64_t before = run->at;
        status = part_try(run, last, reterr);
        if (status != PEN_ERR_UNAVAILABLE && status != PEN_ERR_BUSY)
            return status;
        if (run->at > before) /* it moves: this try does not count */
            tries = 0, pause_ns = PAUSE_NS;
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        pause_ns *= 2;
    }
    return status == PEN_OK ? pen_error_set(reterr, PEN_ERR_CANCELLED, "the transfer was stopped") : status;
}

/* ---- all parts ----------------------------------------------------------------------------------------------------------------------- */

static bool part_choose(struct transfer *transfer, size_t *ret_part)
{
    pthread_mutex_lock(&transfer->lock);
    size_t part = transfer->next, parts = transfer->partial->parts;
    while (part < parts && (transfer->taken[part] || transfer->partial->marks[part] == '1'))
        part++;
    transfer->next = part;
    bool found = part < parts && transfer->status == PEN_OK;
    if (found)
        transfer->taken[part] = 1;
    pthread_mutex_unlock(&transfer->lock);
    *ret_part = part;
    return found;
}

/* rest: when the server knows no ranges, what follows the part is taken, too. */
static void part_run_all(struct transfer *transfer, size_t part, bool rest)
{
    struct pen_error error = {.status = PEN_OK};
    uint64_t end = partial_part_end(transfer->partial, part);
    struct part_run run = {.transfer = transfer,
                           .part = part,
                           .at = (uint64_t)part * PARTIAL_PART_BYTES,
                           .end = rest ? transfer->partial->bytes : end};
    if (part_fetch(&run, end - 1, &error) != PEN_OK)
        fail(transfer, &error);
    hash_advance(transfer);
}

static void *parts_run(void *context)
{
    struct transfer *transfer = context;
    size_t part;
    while (part_choose(transfer, &part))
        part_run_all(transfer, part, false);
    return NULL;
}

static size_t parts_missing(const struct transfer *transfer)
{
    size_t count = 0;
    for (size_t i = 0; i < transfer->partial->parts; i++)
        count += transfer->partial->marks[i] != '1';
    return count;
}

/* This thread is one of them. */
static void threads_run(struct transfer *transfer)
{
    pthread_t threads[THREADS_MAX];
    sigset_t all, before;
    size_t wanted = parts_missing(transfer), count = 0;
    wanted = wanted < transfer->asked->parallel ? wanted : transfer->asked->parallel;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (count + 1 < wanted && count < THREADS_MAX && pthread_create(&threads[count], NULL, parts_run, transfer) == 0)
        count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    parts_run(transfer);
    while (count > 0)
        pthread_join(threads[--count], NULL);
}

static enum pen_status verdict(struct transfer *transfer, struct pen_error *reterr)
{
    hash_advance(transfer);
    if (transfer->hashed < transfer->partial->parts)
        return pen_error_set(reterr, PEN_ERR_IO, "%.700s cannot be read again", transfer->partial->path);
    struct content_digest found = content_hash_end(&transfer->hash);
    if (content_digest_equal(&found, &transfer->partial->digest))
        return PEN_OK;
    partial_forget(transfer->partial);
    return pen_error_set(reterr, PEN_ERR_CORRUPT,
                         "%s of %.200s is not what its name says: its SHA-256 is %s; push the model again",
                         transfer->key, place_text(transfer->asked->place), found.hex);
}

static enum pen_status run_once(const struct transfer_asked *asked, uint64_t *bytes, bool *ret_resumed,
                                struct pen_error *reterr)
{
    struct transfer transfer = {.asked = asked, .partial = asked->partial};
    size_t first;
    *ret_resumed = parts_missing(&transfer) < asked->partial->parts;
    transfer.taken = calloc(asked->partial->parts + 1, 1);
    if (!transfer.taken)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a transfer");
    pthread_mutex_init(&transfer.lock, NULL);
    content_hash_begin(&transfer.hash);
    content_key(&asked->partial->digest, transfer.key);
    if (part_choose(&transfer, &first)) /* alone: it shows whether the server knows ranges */
        part_run_all(&transfer, first, true);
    if (transfer.status == PEN_OK && parts_missing(&transfer) > 0)
        threads_run(&transfer);
    enum pen_status status = transfer.status == PEN_OK
                                 ? verdict(&transfer, reterr)
                                 : pen_error_set(reterr, transfer.status, "%s", transfer.error.text);
    *bytes += transfer.bytes;
    pthread_mutex_destroy(&transfer.lock);
    free(transfer.taken);
    return status;
}

enum pen_status transfer_run(const struct transfer_asked *asked, uint64_t *ret_bytes, struct pen_error *reterr)
{
    bool resumed = false, other;
    *ret_bytes = 0;
    enum pen_status status = run_once(asked, ret_bytes, &resumed, reterr);
    if (status != PEN_ERR_CORRUPT || !resumed)
        return status;
    partial_forget(asked->partial); /* what an earlier transfer had left may be at fault */
    return run_once(asked, ret_bytes, &other, reterr);
}
