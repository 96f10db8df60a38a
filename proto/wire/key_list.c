#include "key_list.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEAL_START "# sealed"
#define SEAL_BYTES 128u
#define HASH_TEXT  (2u * crypto_hash_sha256_BYTES + 1u)

/* ---- what it holds ---- */

static unsigned line_of(const char *text, size_t at)
{
    unsigned line = 1;
    for (size_t i = 0; i < at; i++)
        line += text[i] == '\n';
    return line;
}

static bool is_key_line(const char *line)
{
    line += strspn(line, " \t\r");
    return *line != '#' && *line != '\n' && *line != '\0';
}

static size_t keys_count(const char *text)
{
    size_t count = 0;
    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        count += is_key_line(line);
    return count;
}

/* The line with its newline. */
static void seal_text(const char *body, size_t bytes, size_t keys, char text[SEAL_BYTES])
{
    uint8_t hash[crypto_hash_sha256_BYTES];
    char digits[HASH_TEXT];
    crypto_hash_sha256(hash, (const uint8_t *)body, bytes);
    snprintf(text, SEAL_BYTES, SEAL_START " keys=%zu sha256=%s\n", keys,
             sodium_bin2hex(digits, sizeof digits, hash, sizeof hash));
}

static enum pen_status seal_check(const char *path, enum key_seal seal, struct key_list *list, struct pen_error *reterr)
{
    char right[SEAL_BYTES];
    if (strncmp(list->text, SEAL_START, strlen(SEAL_START)) != 0)
        return PEN_OK;
    list->body = (size_t)(strchr(list->text, '\n') + 1 - list->text);
    list->sealed = true;
    seal_text(list->text + list->body, list->bytes - list->body, list->keys, right);
    if (seal == KEY_SEAL_ANY || (strlen(right) == list->body && memcmp(right, list->text, list->body) == 0))
        return PEN_OK;
    return pen_error_set(
        reterr, PEN_ERR_INVALID,
        "%.300s is not the list that its first line was written for (it has %zu keys now): damaged, cut, or "
        "changed; put the right one back, or run `penstock keys LIST --seal` if this is the right one",
        path, list->keys);
}

static enum pen_status whole_check(const char *path, enum key_seal seal, struct key_list *list,
                                   struct pen_error *reterr)
{
    const char *zero = memchr(list->text, '\0', list->bytes);
    if (zero)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "%.300s:%u: a byte of the list is 0: the file is damaged, as a power cut does it; put the "
                             "right one back",
                             path, line_of(list->text, (size_t)(zero - list->text)));
    if (list->bytes > 0 && list->text[list->bytes - 1] != '\n')
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "%.300s:%u: the list ends within a line: it was cut, or is still being written; a whole "
                             "one ends with a newline",
                             path, line_of(list->text, list->bytes));
    list->keys = keys_count(list->text);
    enum pen_status status = list->bytes > 0 ? seal_check(path, seal, list, reterr) : PEN_OK;
    if (status == PEN_OK && list->keys == 0 && !list->sealed && seal == KEY_SEAL_FITS)
        status =
            pen_error_set(reterr, PEN_ERR_INVALID,
                          "%.300s holds no key, so it may have been emptied by accident: add one, or run `penstock "
                          "keys LIST --seal` if nobody is to come in",
                          path);
    return status;
}

/* ---- the file ---- */

/* The file is read again when it changes, so it must be a regular file; a pipe would also block the loop until
   somebody writes to it. */
static int file_open(const char *path, size_t *ret_bytes, struct pen_error *reterr)
{
    struct stat facts = {.st_mode = 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size <= KEY_LIST_BYTES_MAX) {
        *ret_bytes = (size_t)facts.st_size;
        return fd;
    }
    bool other = facts.st_mode && !S_ISREG(facts.st_mode), large = facts.st_mode && !other;
    pen_error_set(reterr, large ? PEN_ERR_TOO_LARGE : PEN_ERR_IO, "cannot read the list of keys %.300s: %s", path,
                  other   ? "it is no ordinary file"
                  : large ? "it is larger than 8 MiB"
                          : strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* When there are more or fewer than `bytes`, the file is changing while it is read. */
static bool read_whole(int fd, char *text, size_t bytes)
{
    size_t used = 0;
    ssize_t got = 1;
    while (used <= bytes && (got = read(fd, text + used, bytes + 1 - used)) != 0) {
        if (got < 0 && errno != EINTR)
            return false;
        used += got > 0 ? (size_t)got : 0;
    }
    errno = EAGAIN;
    return used == bytes;
}

enum pen_status key_list_read(const char *path, enum key_seal seal, struct key_list *ret_list, struct pen_error *reterr)
{
    struct key_list list = {.text = NULL};
    struct pen_error error = {.status = PEN_ERR_IO};
    int fd = file_open(path, &list.bytes, &error);
    if (fd < 0)
        return pen_error_set(reterr, error.status, "%s", error.text);
    list.text = malloc(list.bytes + 2);
    bool good = list.text && read_whole(fd, list.text, list.bytes);
    enum pen_status status = PEN_OK;
    if (!good)
        status = pen_error_set(reterr, list.text ? PEN_ERR_IO : PEN_ERR_NO_MEMORY,
                               "cannot read the list of keys %.300s: %s", path,
                               !list.text        ? "no memory"
                               : errno == EAGAIN ? "it is being written"
                                                 : strerror(errno));
    close(fd);
    if (good) {
        list.text[list.bytes] = '\0';
        status = whole_check(path, seal, &list, reterr);
    }
    if (status == PEN_OK)
        *ret_list = list;
    else
        free(list.text);
    return status;
}

void key_list_fini(struct key_list *list)
{
    free(list->text);
    list->text = NULL;
}

/* ---- writing ---- */

/* Users who may read the old file may read the new one. Only root can give it to the old one's owner. */
static void keep_rights(int fd, const char *path)
{
    struct stat facts = {.st_mode = 0644};
    if (stat(path, &facts) == 0 && fchown(fd, facts.st_uid, facts.st_gid) != 0)
        facts.st_mode |= S_IRUSR; /* we own the new file */
    fchmod(fd, facts.st_mode & 0777);
}

static bool write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t wrote = write(fd, text, bytes);
        if (wrote < 0 && errno != EINTR)
            return false;
        text += wrote > 0 ? wrote : 0;
        bytes -= wrote > 0 ? (size_t)wrote : 0;
    }
    return true;
}

static void folder_sync(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

static bool replace_file(const char *path, const char *seal, const char *body, size_t bytes)
{
    char name[PATH_MAX];
    int fd = -1;
    errno = ENAMETOOLONG;
    if (snprintf(name, sizeof name, "%s.XXXXXX", path) < (int)sizeof name)
        fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return false;
    keep_rights(fd, path);
    bool good = write_all(fd, seal, strlen(seal)) && write_all(fd, body, bytes) && fsync(fd) == 0;
    good = good && rename(name, path) == 0;
    int error = errno;
    close(fd);
    if (good)
        folder_sync(path);
    else
        unlink(name);
    errno = error;
    return good;
}

enum pen_status key_list_write(const char *path, const struct key_list *list, const char *line, enum key_form form,
                               struct pen_error *reterr)
{
    char place[PATH_MAX], first[SEAL_BYTES] = "";
    size_t old = list->text ? list->bytes - list->body : 0, more = line ? strlen(line) : 0;
    char *body = malloc(old + more + 2);
    if (!body)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the list of keys %.300s", path);
    if (old)
        memcpy(body, list->text + list->body, old);
    memcpy(body + old, line ? line : "", more + 1);
    if (more && body[old + more - 1] != '\n')
        memcpy(body + old + more++, "\n", 2);
    if (form == KEYS_SEALED)
        seal_text(body, old + more, keys_count(body), first);
    bool good = replace_file(realpath(path, place) ? place : path, first, body, old + more);
    enum pen_status status =
        good ? PEN_OK
             : pen_error_set(reterr, PEN_ERR_IO, "cannot write the list of keys %.300s: %s", path, strerror(errno));
    free(body);
    return status;
}
