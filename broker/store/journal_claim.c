/* journal_claim.c - checks before a journal is read and written anew: is it a journal, and does only this process
   use it? */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "journal.h"

/* A device, a socket or a link is refused, because the compaction would replace it by a regular file. */
static enum pen_status check_kind(const char *path, struct pen_error *reterr)
{
    struct stat facts;
    if (lstat(path, &facts) != 0)
        return PEN_OK; /* a new journal; errors in the path are found when it is written */
    if (S_ISLNK(facts.st_mode))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "--journal %.300s is a link, which a new file would replace; name the file itself", path);
    if (!S_ISREG(facts.st_mode))
        return pen_error_set(reterr, PEN_ERR_INVALID, "--journal %.300s is no regular file", path);
    return PEN_OK;
}

static enum pen_status check_begin(const char *path, struct pen_error *reterr)
{
    uint8_t first[JOURNAL_MAGIC_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return PEN_OK;
    ssize_t got = fd >= 0 ? pread(fd, first, sizeof first, 0) : -1;
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (got < 0)
        return pen_error_set(reterr, PEN_ERR_IO, "cannot read --journal %.300s: %s", path, strerror(error));
    if (journal_begins(first, (size_t)got))
        return PEN_OK;
    return pen_error_set(
        reterr, PEN_ERR_INVALID,
        "--journal %.300s is there and no journal of a broker; it was left as it is: name another file", path);
}

enum pen_status journal_claim(const char *path, int *ret_lock, struct pen_error *reterr)
{
    char lock_path[560];
    enum pen_status status = check_kind(path, reterr);
    if (status == PEN_OK)
        status = check_begin(path, reterr);
    if (status != PEN_OK)
        return status;
    snprintf(lock_path, sizeof lock_path, "%.512s.lock", path);
    int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return pen_error_set(reterr, PEN_ERR_IO, "cannot write --journal %.300s: %s: %s", path, lock_path,
                             strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) { /* the file system has no locks: goes on without */
        close(fd);
        return pen_error_set(reterr, PEN_ERR_IO,
                             "--journal %.300s belongs to another broker that runs; each needs a file of its own",
                             path);
    }
    *ret_lock = fd;
    return PEN_OK;
}
