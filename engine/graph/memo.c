#include "graph/memo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/build_id.h"

#define HEAD_BYTES   32u /* magic, records, body bytes, digest */
#define RECORD_BYTES 24u /* before its value */

static const uint8_t magic[8] = {'P', 'E', 'N', 'M', 'E', 'M', 'O', '1'};
static atomic_uint_least64_t made, found;

struct memo {
    char *folder;
    void (*content)(void *context, uint8_t ret_digest[16]);
    void *context;
};

struct memo *memo_new(const char *folder, void (*content)(void *context, uint8_t ret_digest[16]), void *context)
{
    struct memo *memo = malloc(sizeof *memo);
    char *copy = memo != NULL ? strdup(folder) : NULL;
    if (copy == NULL) {
        free(memo);
        return NULL;
    }
    *memo = (struct memo){.folder = copy, .content = content, .context = context};
    return memo;
}

void memo_free(struct memo *memo)
{
    if (memo != NULL) {
        free(memo->folder);
        free(memo);
    }
}

struct digest_stream *memo_key(const struct memo *memo, enum memo_kind kind)
{
    uint8_t content[16];
    struct digest_stream *stream = digest_new(DIGEST_SHA256);
    if (stream != NULL) {
        memo->content(memo->context, content);
        digest_update(stream, content, sizeof content);
        digest_update_text(stream, build_id());
        digest_update_u64(stream, kind);
    }
    return stream;
}

void memo_count_made(void)
{
    atomic_fetch_add(&made, 1);
}

void memo_count_found(void)
{
    atomic_fetch_add(&found, 1);
}

void memo_counts(uint64_t *ret_made, uint64_t *ret_found)
{
    *ret_made = made;
    *ret_found = found;
}

/* ---- the form ---- */

static uint32_t u32_at(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void u32_put(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> 8 * i);
    }
}

static bool digest_of(const uint8_t *body, size_t bytes, struct digest *ret_digest)
{
    struct digest_stream *stream = digest_new(DIGEST_SHA256);
    if (stream == NULL) {
        return false;
    }
    digest_update(stream, body, bytes);
    *ret_digest = digest_final(stream);
    digest_free(stream);
    return true;
}

static bool records_parse(const uint8_t *at, size_t bytes, size_t count, struct memo_record *records)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes < RECORD_BYTES || u32_at(at + 20) > bytes - RECORD_BYTES || u32_at(at + 20) > MEMO_VALUE_MAX) {
            return false;
        }
        records[i] = (struct memo_record){
            .key = at, .value = at + RECORD_BYTES, .kind = u32_at(at + 16), .bytes = u32_at(at + 20)};
        bytes -= RECORD_BYTES + records[i].bytes;
        at += RECORD_BYTES + records[i].bytes;
    }
    return bytes == 0;
}

bool memo_parse(const uint8_t *file, size_t bytes, struct memo_record ret_records[MEMO_RECORDS], size_t *ret_count)
{
    struct digest digest;
    *ret_count = 0;
    if (bytes < HEAD_BYTES || bytes > MEMO_BYTES_MAX || memcmp(file, magic, sizeof magic) != 0 ||
        u32_at(file + 8) > MEMO_RECORDS || u32_at(file + 12) != bytes - HEAD_BYTES ||
        !digest_of(file + HEAD_BYTES, bytes - HEAD_BYTES, &digest) ||
        memcmp(file + 16, digest.bytes, sizeof digest.bytes) != 0 ||
        !records_parse(file + HEAD_BYTES, bytes - HEAD_BYTES, u32_at(file + 8), ret_records)) {
        return false;
    }
    *ret_count = u32_at(file + 8);
    return true;
}

/* ---- files ---- */

static bool read_all(int fd, uint8_t *to, size_t bytes)
{
    while (bytes > 0) {
        ssize_t got = read(fd, to, bytes);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return false;
        }
        to += got > 0 ? got : 0;
        bytes -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* Gives the file's bytes (free); NULL: there is none, or it is no regular file of a size that we write. */
static uint8_t *file_read(int folder, size_t *ret_bytes)
{
    struct stat info;
    uint8_t *file = NULL;
    int fd = openat(folder, MEMO_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size >= (off_t)HEAD_BYTES &&
        info.st_size <= (off_t)MEMO_BYTES_MAX) {
        *ret_bytes = (size_t)info.st_size;
        file = malloc(*ret_bytes);
    }
    if (file != NULL && !read_all(fd, file, *ret_bytes)) {
        free(file);
        file = NULL;
    }
    close(fd);
    return file;
}

static int folder_open(const struct memo *memo)
{
    return open(memo->folder[0] != '\0' ? memo->folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static const struct memo_record *record_find(const struct memo_record *records, size_t count, const struct digest *key,
                                             enum memo_kind kind)
{
    for (size_t i = 0; i < count; i++) {
        if (records[i].kind == (uint32_t)kind && memcmp(records[i].key, key->bytes, sizeof key->bytes) == 0) {
            return &records[i];
        }
    }
    return NULL;
}

bool memo_find(const struct memo *memo, const struct digest *key, enum memo_kind kind, void *ret, size_t room,
               size_t *ret_bytes)
{
    struct memo_record records[MEMO_RECORDS];
    size_t bytes = 0, count = 0;
    int folder = folder_open(memo);
    uint8_t *file = folder >= 0 ? file_read(folder, &bytes) : NULL;
    const struct memo_record *record = NULL;
    if (file != NULL && memo_parse(file, bytes, records, &count)) {
        record = record_find(records, count, key, kind);
    }
    bool there = record != NULL && record->bytes <= room;
    if (there) {
        memcpy(ret, record->value, record->bytes);
        *ret_bytes = record->bytes;
    }
    free(file);
    if (folder >= 0) {
        close(folder);
    }
    return there;
}

static uint8_t *record_put(uint8_t *at, const uint8_t *key, uint32_t kind, const void *value, size_t bytes)
{
    memcpy(at, key, 16);
    u32_put(at + 16, kind);
    u32_put(at + 20, (uint32_t)bytes);
    memcpy(at + RECORD_BYTES, value, bytes);
    return at + RECORD_BYTES + bytes;
}

/* The new record, then those of the old file that it does not replace, as far as there is room. Gives the bytes of the new file. */
static size_t file_make(uint8_t *file, const struct memo_record *fresh, const struct memo_record *old, size_t count)
{
    struct digest digest;
    uint32_t kept = 1;
    uint8_t *at = record_put(file + HEAD_BYTES, fresh->key, fresh->kind, fresh->value, fresh->bytes);
    for (size_t i = 0; i < count && kept < MEMO_RECORDS; i++) {
        bool replaced = old[i].kind == fresh->kind && memcmp(old[i].key, fresh->key, 16) == 0;
        if (!replaced && (size_t)(at - file) + RECORD_BYTES + old[i].bytes <= MEMO_BYTES_MAX) {
            at = record_put(at, old[i].key, old[i].kind, old[i].value, old[i].bytes);
            kept++;
        }
    }
    size_t body = (size_t)(at - file) - HEAD_BYTES;
    memcpy(file, magic, sizeof magic);
    u32_put(file + 8, kept);
    u32_put(file + 12, (uint32_t)body);
    if (!digest_of(file + HEAD_BYTES, body, &digest)) {
        return 0;
    }
    memcpy(file + 16, digest.bytes, sizeof digest.bytes);
    return HEAD_BYTES + body;
}

/* Under another name, then renamed: who reads sees the old file or the new one. The caller has the folder's lock, so that a file of this name is what a writer
 * left that was killed. */
static bool file_write(int folder, const uint8_t *file, size_t bytes)
{
    static const char name[] = MEMO_FILE ".new";
    unlinkat(folder, name, 0);
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        return false;
    }
    bool done = true;
    for (size_t at = 0; done && at < bytes;) {
        ssize_t put = write(fd, file + at, bytes - at);
        done = put > 0 || (put < 0 && errno == EINTR);
        at += put > 0 ? (size_t)put : 0;
    }
    done = close(fd) == 0 && done && renameat(folder, name, folder, MEMO_FILE) == 0;
    if (!done) {
        unlinkat(folder, name, 0);
    }
    return done;
}

bool memo_put(const struct memo *memo, const struct digest *key, enum memo_kind kind, const void *value, size_t bytes)
{
    struct memo_record records[MEMO_RECORDS];
    const struct memo_record fresh = {
        .key = key->bytes, .value = value, .kind = (uint32_t)kind, .bytes = (uint32_t)bytes};
    size_t old_bytes = 0, count = 0, made_bytes = 0;
    int folder = bytes <= MEMO_VALUE_MAX ? folder_open(memo) : -1;
    uint8_t *file = folder >= 0 ? malloc(MEMO_BYTES_MAX) : NULL;
    bool locked = file != NULL && flock(folder, LOCK_EX) == 0;
    uint8_t *old = locked ? file_read(folder, &old_bytes) : NULL;
    if (old != NULL && !memo_parse(old, old_bytes, records, &count)) {
        count = 0;
    }
    if (locked) {
        made_bytes = file_make(file, &fresh, records, count);
    }
    bool done = made_bytes > 0 && file_write(folder, file, made_bytes);
    free(old);
    free(file);
    if (folder >= 0) {
        close(folder); /* ends the lock */
    }
    return done;
}
