#include "audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "logline.h"

#define LINE_BYTES 1024u

struct audit {
    int fd; /* -1: the log alone */
};

/* When a power cut left half a line at the end of the file, ends that line, so that the next entry begins a new one. */
static void end_line(const char *path, int fd)
{
    char last = '\n';
    struct stat facts;
    int old = fd >= 0 && fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0
                  ? open(path, O_RDONLY | O_CLOEXEC)
                  : -1;
    if (old >= 0 && pread(old, &last, 1, facts.st_size - 1) == 1 && last != '\n' && write(fd, "\n", 1) != 1)
        log_event(LOG_ERROR, "audit_failed", "error=%s", strerror(errno));
    if (old >= 0)
        close(old);
}

enum pen_status audit_new(const char *path, struct audit **ret_audit, struct pen_error *reterr)
{
    struct audit *audit = malloc(sizeof *audit);
    if (!audit)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the audit log");
    audit->fd = *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (*path && audit->fd < 0) {
        free(audit);
        return pen_error_set(reterr, PEN_ERR_IO, "cannot write --audit-log %.300s: %s", path, strerror(errno));
    }
    end_line(path, audit->fd);
    *ret_audit = audit;
    return PEN_OK;
}

void audit_free(struct audit *audit)
{
    if (audit && audit->fd >= 0)
        close(audit->fd);
    free(audit);
}

/* Control characters and quotes in a peer's text become '?', so that it cannot forge a line. */
static void clean(const char *from, char *to, size_t bytes)
{
    size_t i = 0;
    for (; from[i] && i + 1 < bytes; i++)
        to[i] = (unsigned char)from[i] < ' ' || from[i] == '"' || from[i] == 127 ? '?' : from[i];
    to[i] = '\0';
}

void audit_note(struct audit *audit, const char *who, unsigned long long client, const char *verb, const char *argument,
                enum pen_status status)
{
    char line[LINE_BYTES], name[128], what[256], stamp[32];
    struct timespec now;
    struct tm parts;
    log_event(LOG_INFO, "audit", "who=%s client=%016llx verb=%s argument=%s status=%s", who, client, verb, argument,
              pen_status_name(status));
    if (!audit || audit->fd < 0)
        return;
    clean(who, name, sizeof name);
    clean(argument, what, sizeof what);
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
    int bytes =
        snprintf(line, sizeof line, "ts=%s.%03ldZ who=\"%s\" client=%016llx verb=%s argument=\"%s\" status=%s\n", stamp,
                 now.tv_nsec / 1000000, name, client, verb, what, pen_status_name(status));
    if (bytes > 0 && write(audit->fd, line, (size_t)bytes) != bytes)
        log_event(LOG_ERROR, "audit_failed", "error=%s", strerror(errno));
}
