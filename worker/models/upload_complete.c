/* upload_complete.c - the signs: no model, an empty file, a file open for writing, a pointer of git-lfs. */
#include "upload_complete.h"

#include "model_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define ITEMS_MAX 10000u /* looked at in one folder */
#define DEPTH_MAX 4u     /* of the folders that shards lie in */

static const char pointer_start[] = "version https://git-lfs.github.com/spec/";

enum pen_status upload_pointer_check(const char *path, struct pen_error *reterr)
{
    char start[sizeof pointer_start - 1];
    int fd;
    if (model_file_open(path, &fd, NULL, NULL) != PEN_OK)
        return PEN_OK;
    ssize_t got = pread(fd, start, sizeof start, 0);
    close(fd);
    if (got != (ssize_t)sizeof start || memcmp(start, pointer_start, sizeof start) != 0)
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_INVALID,
                         "%.512s is a pointer of git-lfs, not the model itself: run git lfs pull in that checkout",
                         path);
}

/* NFS and SMB clients also refuse a lease with EAGAIN while the server has not delegated the file to them, which may
   be for ever. */
bool upload_lease_tells(uint32_t system)
{
    return system != NFS_SUPER_MAGIC && system != CIFS_SUPER_MAGIC && system != SMB2_SUPER_MAGIC;
}

/*
 * The kernel grants a read lease only while nobody has the file open for writing; it is given back at once. A process
 * that opens the file for writing in between waits that long, and the kernel sends us a signal: SIGURG is chosen
 * because it does no harm (background.h).
 */
static bool is_being_written(int fd)
{
    struct statfs system;
    if (fstatfs(fd, &system) != 0 || !upload_lease_tells((uint32_t)system.f_type))
        return false;
    fcntl(fd, F_SETSIG, SIGURG);
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
        fcntl(fd, F_SETLEASE, F_UNLCK);
        return false;
    }
    return errno == EAGAIN; /* anything else: it cannot be known */
}

static enum pen_status file_check(const char *path, struct pen_error *reterr)
{
    int fd;
    size_t bytes;
    if (model_file_open(path, &fd, &bytes, NULL) != PEN_OK)
        return PEN_OK; /* loading tells why */
    bool written = is_being_written(fd);
    close(fd);
    if (written)
        return pen_error_set(reterr, PEN_ERR_BUSY, "%.512s is still open for writing (%zu bytes so far)", path, bytes);
    return PEN_OK;
}

static enum pen_status folder_check(const char *folder, unsigned depth, struct pen_error *reterr)
{
    char path[MODEL_FILE_PATH_BYTES];
    struct dirent *item;
    struct stat info;
    enum pen_status status = PEN_OK;
    DIR *dir = opendir(folder);
    if (!dir)
        return PEN_OK; /* loading tells why */
    for (size_t i = 0; status == PEN_OK && i < ITEMS_MAX && (item = readdir(dir)); i++) {
        if (item->d_name[0] == '.' ||
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, item->d_name) >= sizeof path || stat(path, &info) != 0)
            continue;
        if (S_ISDIR(info.st_mode) && depth + 1 < DEPTH_MAX)
            status = folder_check(path, depth + 1, reterr);
        else if (S_ISREG(info.st_mode) && model_file_counts(item->d_name))
            status = file_check(path, reterr);
    }
    closedir(dir);
    return status;
}

enum pen_status upload_complete(const char *folder, struct pen_error *reterr)
{
    char path[MODEL_FILE_PATH_BYTES];
    struct stat info;
    struct pen_error inner = {0};
    enum pen_status status = model_file_find(folder, path, &inner);
    if (status == PEN_ERR_NOT_FOUND)
        return pen_error_set(reterr, PEN_ERR_BUSY, "%.900s", inner.text);
    if (status != PEN_OK)
        return PEN_OK; /* waiting does not help: loading tells why */
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0)
        return pen_error_set(reterr, PEN_ERR_BUSY, "%.512s is empty so far", path);
    if (upload_pointer_check(path, &inner) != PEN_OK)
        return pen_error_set(reterr, PEN_ERR_BUSY, "%.900s", inner.text);
    return folder_check(folder, 0, reterr);
}
