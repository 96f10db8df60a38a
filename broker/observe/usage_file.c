#include "usage_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "logline.h"
#include "mutex.h"
#include "usage_merge.h"

#define NAME_BYTES  64u
#define AGAIN_S     1                 /* after a failure */
#define MERGE_BYTES ((off_t)64 << 20) /* a larger file stays as it is */

struct usage_text {
    STAILQ_ENTRY(usage_text) next;
    uint32_t hour;
    size_t bytes;
    char *text;
};

struct usage_file {
    int folder;
    uint64_t broker;
    uint32_t keep_hours, hour; /* hour: of the last lines that were written */
    bool complained;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    STAILQ_HEAD(, usage_text) entries;
    size_t waiting; /* bytes */
    uint64_t failures;
    bool ending;
};

static void name_of(uint32_t hour, uint64_t broker, const char *behind, char name[NAME_BYTES])
{
    time_t seconds = (time_t)hour * 3600;
    struct tm parts;
    char stamp[24];
    gmtime_r(&seconds, &parts);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%HZ", &parts);
    snprintf(name, NAME_BYTES, "usage-%s-%016" PRIx64 ".jsonl%s", stamp, broker, behind);
}

static bool write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t put = write(fd, text, bytes);
        if (put < 0 && errno != EINTR)
            return false;
        text += put > 0 ? put : 0;
        bytes -= put > 0 ? (size_t)put : 0;
    }
    return fdatasync(fd) == 0;
}

/* All of it, or nothing. */
static bool append(const struct usage_file *file, const struct usage_text *entry)
{
    char name[NAME_BYTES];
    struct stat facts;
    name_of(entry->hour, file->broker, "", name);
    int fd = openat(file->folder, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);
    if (fd < 0)
        return false;
    bool done = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
    if (done && !write_all(fd, entry->text, entry->bytes)) {
        int error = errno;
        done = false;
        if (ftruncate(fd, facts.st_size) != 0)
            log_event(LOG_ERROR, "usage_half_written", "file=%s error=%s", name, strerror(errno));
        errno = error;
    }
    int error = errno;
    close(fd);
    errno = error;
    return done;
}

/* ---- when an hour is over ---- */

/* NUL-ended; NULL: not there, too large to be merged, or no memory. */
static char *read_whole(int folder, const char *name, size_t *ret_bytes)
{
    struct stat facts;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char *text = fd >= 0 && fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size <= MERGE_BYTES
                     ? malloc((size_t)facts.st_size + 1)
                     : NULL;
    size_t used = 0;
    while (text && used < (size_t)facts.st_size) {
        ssize_t got = read(fd, text + used, (size_t)facts.st_size - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            free(text);
            text = NULL;
            break;
        }
        used += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    if (text)
        text[used] = '\0';
    *ret_bytes = used;
    return text;
}

static bool replace(const struct usage_file *file, uint32_t hour, const struct writer *merged)
{
    char name[NAME_BYTES], fresh[NAME_BYTES];
    name_of(hour, file->broker, "", name);
    name_of(hour, file->broker, ".new", fresh);
    int fd = openat(file->folder, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
    bool done = fd >= 0 && write_all(fd, merged->text, merged->used);
    if (fd >= 0)
        close(fd);
    done = done && renameat(file->folder, fresh, file->folder, name) == 0;
    if (!done && fd >= 0)
        unlinkat(file->folder, fresh, 0);
    return done;
}

/* One line per account. Where that fails, the file keeps its many lines, which say the same. */
static void finish_hour(const struct usage_file *file, uint32_t hour)
{
    char name[NAME_BYTES];
    size_t bytes;
    struct writer merged = {.text = NULL};
    name_of(hour, file->broker, "", name);
    char *text = read_whole(file->folder, name, &bytes);
    if (text)
        usage_merge(text, bytes, &merged);
    if (text && !merged.failed && merged.used > 0)
        replace(file, hour, &merged);
    free(text);
    writer_fini(&merged);
}

static bool older(const char *name, const char *limit, size_t stamp_bytes)
{
    size_t bytes = strlen(name);
    return strncmp(name, "usage-", 6) == 0 && bytes > 6 + stamp_bytes && strcmp(name + bytes - 6, ".jsonl") == 0 &&
           memcmp(name, limit, 6 + stamp_bytes) < 0;
}

/* Names sort by time. Files of brokers that have gone go, too. */
static void remove_old(const struct usage_file *file, uint32_t hour)
{
    char limit[NAME_BYTES];
    int fd = file->keep_hours && hour > file->keep_hours ? openat(file->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                                         : -1;
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (!folder) {
        if (fd >= 0)
            close(fd);
        return;
    }
    name_of(hour - file->keep_hours, 0, "", limit);
    for (struct dirent *item; (item = readdir(folder)) != NULL;) {
        if (older(item->d_name, limit, sizeof "2026-11-23T15Z" - 1))
            unlinkat(file->folder, item->d_name, 0);
    }
    closedir(folder);
}

/* ---- the thread ---- */

static bool keep(struct usage_file *file, const struct usage_text *entry)
{
    if (file->hour && file->hour != entry->hour) {
        finish_hour(file, file->hour);
        remove_old(file, entry->hour);
    }
    file->hour = entry->hour;
    bool done = append(file, entry);
    if (!done && !file->complained)
        log_event(LOG_ERROR, "usage_unwritten", "error=%s next=%s", strerror(errno),
                  "the lines wait in memory and are tried again every second; make room in --usage-dir");
    if (done && file->complained)
        log_event(LOG_INFO, "usage_written", "lines=again");
    file->complained = !done;
    return done;
}

/* With the lock. */
static void pause_after_failure(struct usage_file *file)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += AGAIN_S;
    while (!file->ending && pthread_cond_timedwait(&file->changed, &file->lock, &until) == 0)
        continue;
}

static void drop_first(struct usage_file *file)
{
    struct usage_text *entry = STAILQ_FIRST(&file->entries);
    STAILQ_REMOVE_HEAD(&file->entries, next);
    file->waiting -= entry->bytes;
    free(entry->text);
    free(entry);
}

static void *usage_main(void *argument)
{
    struct usage_file *file = argument;
    mutex_take(&file->lock);
    while (!file->ending || !STAILQ_EMPTY(&file->entries)) {
        struct usage_text *entry = STAILQ_FIRST(&file->entries);
        if (!entry) {
            pthread_cond_wait(&file->changed, &file->lock);
            continue;
        }
        bool last = file->ending;
        mutex_give(&file->lock);
        bool done = keep(file, entry);
        mutex_take(&file->lock);
        file->failures += !done;
        if (done || last)
            drop_first(file);
        else
            pause_after_failure(file);
    }
    mutex_give(&file->lock);
    return NULL;
}

/* Signals go to the loop. */
static bool thread_start(struct usage_file *file)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&file->thread, NULL, usage_main, file) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static int folder_open(const char *folder)
{
    int fd = mkdir(folder, 0750) == 0 || errno == EEXIST ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0 && faccessat(fd, ".", W_OK | X_OK, 0) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    return fd;
}

enum pen_status usage_file_new(const char *folder, uint64_t broker, uint32_t keep_hours, struct usage_file **ret_file,
                               struct pen_error *reterr)
{
    pthread_condattr_t attributes;
    int fd = folder_open(folder);
    if (fd < 0)
        return pen_error_set(reterr, PEN_ERR_IO, "cannot write into the folder of --usage-dir, %.300s: %s", folder,
                             strerror(errno));
    struct usage_file *file = calloc(1, sizeof *file);
    if (!file) {
        close(fd);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for --usage-dir");
    }
    file->folder = fd;
    file->broker = broker;
    file->keep_hours = keep_hours;
    STAILQ_INIT(&file->entries);
    mutex_init(&file->lock);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&file->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    *ret_file = file;
    if (thread_start(file))
        return PEN_OK;
    pthread_cond_destroy(&file->changed);
    mutex_fini(&file->lock);
    close(fd);
    free(file);
    *ret_file = NULL;
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no thread for --usage-dir");
}

void usage_file_free(struct usage_file *file)
{
    if (!file)
        return;
    mutex_take(&file->lock);
    file->ending = true;
    pthread_cond_signal(&file->changed);
    mutex_give(&file->lock);
    pthread_join(file->thread, NULL);
    pthread_cond_destroy(&file->changed);
    mutex_fini(&file->lock);
    close(file->folder);
    free(file);
}

bool usage_file_idle(struct usage_file *file)
{
    mutex_take(&file->lock);
    bool idle = STAILQ_EMPTY(&file->entries);
    mutex_give(&file->lock);
    return idle;
}

bool usage_file_give(struct usage_file *file, uint32_t hour, char *text, size_t bytes)
{
    struct usage_text *entry = malloc(sizeof *entry);
    mutex_take(&file->lock);
    bool taken = entry && file->waiting + bytes <= USAGE_WAITING_MAX;
    if (taken) {
        *entry = (struct usage_text){.hour = hour, .bytes = bytes, .text = text};
        STAILQ_INSERT_TAIL(&file->entries, entry, next);
        file->waiting += bytes;
        pthread_cond_signal(&file->changed);
    }
    mutex_give(&file->lock);
    if (!taken)
        free(entry);
    return taken;
}

uint64_t usage_file_failures(struct usage_file *file)
{
    if (!file)
        return 0;
    mutex_take(&file->lock);
    uint64_t failures = file->failures;
    mutex_give(&file->lock);
    return failures;
}
