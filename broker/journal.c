#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "digest.h"
#include "frame.h"
#include "logline.h"

#define MAGIC     0x314A4B50u /* "PKJ1" */
#define DIGEST_AT 40u

struct batch {
    struct batch *next;
    uint64_t first, last;
    bool ok;
};

struct journal {
    struct journal_file own, *file;
    pthread_t thread;
    bool threaded, stop;
    pthread_mutex_t lock;
    pthread_cond_t more;
    uint8_t *queue; /* records one behind the other */
    size_t queued, room;
    uint64_t ticket, taken; /* handed over; given to a batch */
    uint64_t size, bytes_max;
    struct batch *done, **done_tail;
    int event;
    int error; /* of the last batch; 0 = it was written */
};

/* ---- records ---- */

static void put_u32(uint8_t *to, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void put_u64(uint8_t *to, uint64_t value)
{
    put_u32(to, (uint32_t)value);
    put_u32(to + 4, (uint32_t)(value >> 32));
}

static uint32_t get_u32(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static uint64_t get_u64(const uint8_t *from)
{
    return get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

static bool sign(const uint8_t *header, const uint8_t *payload, size_t bytes, struct digest *ret_digest)
{
    struct digest_stream *stream = digest_new(DIGEST_XXH3);
    if (!stream)
        return false;
    digest_update(stream, header, DIGEST_AT);
    digest_update(stream, payload, bytes);
    *ret_digest = digest_final(stream);
    digest_free(stream);
    return true;
}

static bool write_header(uint8_t header[JOURNAL_HEADER_BYTES], const struct journal_record *record)
{
    struct digest digest;
    memset(header, 0, JOURNAL_HEADER_BYTES);
    put_u32(header, MAGIC);
    header[4] = (uint8_t)record->type;
    put_u64(header + 8, record->id.client);
    put_u64(header + 16, record->id.sequence);
    put_u64(header + 24, record->expires_us);
    put_u64(header + 32, record->bytes);
    if (!sign(header, record->payload, record->bytes, &digest))
        return false;
    memcpy(header + DIGEST_AT, digest.bytes, sizeof digest.bytes);
    return true;
}

size_t journal_read(const uint8_t *bytes, size_t left, struct journal_record *ret_record)
{
    struct digest digest;
    if (left < JOURNAL_HEADER_BYTES || get_u32(bytes) != MAGIC || bytes[4] < JOURNAL_ACCEPTED ||
        bytes[4] > JOURNAL_GONE)
        return 0;
    uint64_t size = get_u64(bytes + 32);
    if (size > left - JOURNAL_HEADER_BYTES)
        return 0;
    const uint8_t *payload = bytes + JOURNAL_HEADER_BYTES;
    if (!sign(bytes, payload, (size_t)size, &digest) ||
        memcmp(digest.bytes, bytes + DIGEST_AT, sizeof digest.bytes) != 0)
        return 0;
    *ret_record = (struct journal_record){.type = (enum journal_type)bytes[4],
                                          .id = {.client = get_u64(bytes + 8), .sequence = get_u64(bytes + 16)},
                                          .expires_us = get_u64(bytes + 24),
                                          .payload = payload,
                                          .bytes = (size_t)size};
    return JOURNAL_HEADER_BYTES + (size_t)size;
}

uint8_t *journal_pack(const char *text, uint32_t status, const struct parcel *parcel, size_t *ret_bytes)
{
    size_t length = strlen(text), size = 12 + length;
    for (uint32_t i = 0; i < parcel->count; i++)
        size += 8 + zmq_msg_size(&parcel->frames[i]);
    uint8_t *payload = malloc(size), *at = payload;
    if (!payload)
        return NULL;
    put_u32(at, status);
    put_u32(at + 4, (uint32_t)length);
    put_u32(at + 8, parcel->count);
    memcpy(at + 12, text, length);
    at += 12 + length;
    for (uint32_t i = 0; i < parcel->count; i++) {
        zmq_msg_t *frame = (zmq_msg_t *)(uintptr_t)&parcel->frames[i];
        size_t bytes = zmq_msg_size(frame);
        put_u64(at, bytes);
        if (bytes)
            memcpy(at + 8, zmq_msg_data(frame), bytes);
        at += 8 + bytes;
    }
    *ret_bytes = size;
    return payload;
}

static bool unpack_frames(struct parcel *parcel, const uint8_t *at, size_t left)
{
    for (uint32_t i = 0; i < parcel->count; i++) {
        zmq_msg_t frame;
        uint64_t bytes = left >= 8 ? get_u64(at) : UINT64_MAX;
        if (left < 8 || bytes > left - 8 || zmq_msg_init_size(&frame, (size_t)bytes) != 0)
            return false;
        if (bytes)
            memcpy(zmq_msg_data(&frame), at + 8, (size_t)bytes);
        zmq_msg_move(&parcel->frames[i], &frame);
        zmq_msg_close(&frame);
        at += 8 + bytes;
        left -= 8 + (size_t)bytes;
    }
    return left == 0;
}

struct parcel *journal_unpack(const uint8_t *payload, size_t bytes, char *ret_text, size_t text_bytes,
                              uint32_t *ret_status)
{
    if (bytes < 12)
        return NULL;
    size_t length = get_u32(payload + 4), count = get_u32(payload + 8);
    if (length >= text_bytes || length > bytes - 12 || count == 0 || count > 1u + FRAME_MAX_TENSORS)
        return NULL;
    struct parcel *parcel = parcel_new(count);
    if (!parcel || !unpack_frames(parcel, payload + 12 + length, bytes - 12 - length)) {
        parcel_release(parcel);
        return NULL;
    }
    *ret_status = get_u32(payload);
    memcpy(ret_text, payload + 12, length);
    ret_text[length] = '\0';
    return parcel;
}

/* ---- the file ---- */

static int file_write(struct journal_file *file, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t put = write(file->fd, at, size);
        if (put < 0 && errno != EINTR)
            return errno;
        at += put > 0 ? put : 0;
        size -= put > 0 ? (size_t)put : 0;
    }
    return 0;
}

static int file_sync(struct journal_file *file)
{
    return fdatasync(file->fd) == 0 ? 0 : errno;
}

static int file_cut(struct journal_file *file, uint64_t size)
{
    return ftruncate(file->fd, (off_t)size) == 0 && lseek(file->fd, (off_t)size, SEEK_SET) >= 0 ? 0 : errno;
}

enum pen_status journal_file_open(const char *path, uint64_t size, struct journal_file *ret_file,
                                  struct pen_error *reterr)
{
    *ret_file = (struct journal_file){.write = file_write, .sync = file_sync, .cut = file_cut};
    ret_file->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (ret_file->fd >= 0 && file_cut(ret_file, size) == 0)
        return PEN_OK;
    pen_error_set(reterr, PEN_ERR_IO, "cannot write --journal %.300s: %s", path, strerror(errno));
    if (ret_file->fd >= 0)
        close(ret_file->fd);
    return PEN_ERR_IO;
}

/* ---- life ---- */

enum pen_status journal_open_file(struct journal_file *file, uint64_t size, uint64_t bytes_max,
                                  struct journal **ret_journal)
{
    struct journal *journal = calloc(1, sizeof *journal);
    if (!journal)
        return PEN_ERR_NO_MEMORY;
    journal->file = file;
    journal->size = size;
    journal->bytes_max = bytes_max;
    journal->done_tail = &journal->done;
    journal->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&journal->lock, NULL);
    pthread_cond_init(&journal->more, NULL);
    *ret_journal = journal;
    return PEN_OK;
}

static void *journal_main(void *arg)
{
    struct journal *journal = arg;
    pthread_mutex_lock(&journal->lock);
    while (!journal->stop || journal->queued > 0) {
        if (journal->queued == 0) {
            pthread_cond_wait(&journal->more, &journal->lock);
            continue;
        }
        pthread_mutex_unlock(&journal->lock);
        journal_work(journal);
        pthread_mutex_lock(&journal->lock);
    }
    pthread_mutex_unlock(&journal->lock);
    return NULL;
}

enum pen_status journal_open(const char *path, uint64_t size, uint64_t bytes_max, struct journal **ret_journal,
                             struct pen_error *reterr)
{
    struct journal *journal = NULL;
    struct journal_file file;
    enum pen_status status = journal_file_open(path, size, &file, reterr);
    if (status != PEN_OK)
        return status;
    if (journal_open_file(NULL, size, bytes_max, &journal) != PEN_OK) {
        close(file.fd);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the journal");
    }
    journal->own = file;
    journal->file = &journal->own;
    journal->threaded = pthread_create(&journal->thread, NULL, journal_main, journal) == 0;
    if (!journal->threaded) {
        journal_free(journal);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "cannot start the journal's thread");
    }
    *ret_journal = journal;
    return PEN_OK;
}

void journal_free(struct journal *journal)
{
    if (!journal)
        return;
    if (journal->threaded) {
        pthread_mutex_lock(&journal->lock);
        journal->stop = true;
        pthread_cond_signal(&journal->more);
        pthread_mutex_unlock(&journal->lock);
        pthread_join(journal->thread, NULL);
    }
    if (journal->file == &journal->own)
        close(journal->own.fd);
    while (journal->done) {
        struct batch *batch = journal->done;
        journal->done = batch->next;
        free(batch);
    }
    close(journal->event);
    pthread_mutex_destroy(&journal->lock);
    pthread_cond_destroy(&journal->more);
    free(journal->queue);
    free(journal);
}

/* ---- in ---- */

static bool make_room(struct journal *journal, size_t size)
{
    if (journal->room - journal->queued >= size)
        return true;
    size_t room = journal->room ? journal->room : 65536;
    while (room - journal->queued < size)
        room *= 2;
    uint8_t *grown = realloc(journal->queue, room);
    if (!grown)
        return false;
    journal->queue = grown;
    journal->room = room;
    return true;
}

enum pen_status journal_append(struct journal *journal, const struct journal_record *record, uint64_t *ret_ticket,
                               struct pen_error *reterr)
{
    size_t size = JOURNAL_HEADER_BYTES + record->bytes;
    uint8_t header[JOURNAL_HEADER_BYTES];
    if (!write_header(header, record))
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a record of the journal");
    enum pen_status status = PEN_OK;
    pthread_mutex_lock(&journal->lock);
    if (journal->size + journal->queued + size > journal->bytes_max)
        status = pen_error_set(reterr, PEN_ERR_BUSY, "the journal is as large as it may be (--journal-bytes)");
    else if (journal->queued > 0 && journal->queued + size > JOURNAL_QUEUE_BYTES)
        status = pen_error_set(reterr, PEN_ERR_BUSY, "the disk does not keep up with the journal; try again later");
    else if (!make_room(journal, size))
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a record of the journal");
    if (status == PEN_OK) {
        memcpy(journal->queue + journal->queued, header, sizeof header);
        if (record->bytes)
            memcpy(journal->queue + journal->queued + sizeof header, record->payload, record->bytes);
        journal->queued += size;
        *ret_ticket = ++journal->ticket;
        pthread_cond_signal(&journal->more);
    }
    pthread_mutex_unlock(&journal->lock);
    return status;
}

/* ---- out ---- */

static int write_batch(struct journal *journal, const uint8_t *bytes, size_t size)
{
    int error = journal->file->write(journal->file, bytes, size);
    if (error == 0)
        error = journal->file->sync(journal->file);
    if (error != 0)
        journal->file->cut(journal->file, journal->size); /* half a batch must not stand before the next */
    return error;
}

static void note_error(struct journal *journal, int error)
{
    if (error != 0 && journal->error == 0)
        log_event(LOG_ERROR, "journal_failed", "error=%s", strerror(error));
    else if (error == 0 && journal->error != 0)
        log_event(LOG_INFO, "journal_works", "bytes=%llu", (unsigned long long)journal->size);
    journal->error = error;
}

bool journal_work(struct journal *journal)
{
    struct batch *batch = malloc(sizeof *batch);
    uint64_t one = 1;
    pthread_mutex_lock(&journal->lock);
    uint8_t *bytes = journal->queue;
    size_t size = journal->queued;
    if (size == 0 || !batch) {
        pthread_mutex_unlock(&journal->lock);
        free(batch);
        return false;
    }
    *batch = (struct batch){.first = journal->taken + 1, .last = journal->ticket};
    journal->taken = journal->ticket;
    journal->queue = NULL;
    journal->queued = journal->room = 0;
    pthread_mutex_unlock(&journal->lock);
    int error = write_batch(journal, bytes, size);
    free(bytes);
    pthread_mutex_lock(&journal->lock);
    note_error(journal, error);
    batch->ok = error == 0;
    journal->size += batch->ok ? size : 0;
    *journal->done_tail = batch;
    journal->done_tail = &batch->next;
    pthread_mutex_unlock(&journal->lock);
    if (write(journal->event, &one, sizeof one) < 0)
        return true; /* it is readable already */
    return true;
}

/* The descriptor first: what comes after this look rings it again. */
bool journal_poll(struct journal *journal, uint64_t *ret_first, uint64_t *ret_last, bool *ret_ok)
{
    uint64_t count;
    if (read(journal->event, &count, sizeof count) < 0 && errno != EAGAIN)
        return false;
    pthread_mutex_lock(&journal->lock);
    struct batch *batch = journal->done;
    if (batch) {
        journal->done = batch->next;
        if (!journal->done)
            journal->done_tail = &journal->done;
    }
    pthread_mutex_unlock(&journal->lock);
    if (!batch)
        return false;
    *ret_first = batch->first;
    *ret_last = batch->last;
    *ret_ok = batch->ok;
    free(batch);
    return true;
}

int journal_descriptor(const struct journal *journal)
{
    return journal->event;
}

uint64_t journal_bytes(const struct journal *journal)
{
    return journal->size;
}
