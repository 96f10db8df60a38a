/* redis_password.c - the password of Redis comes from a file: options and URLs are seen by everybody who can list processes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "redis_place.h"
#include "small_file.h"

enum pen_status redis_password_read(const char *path, struct redis_place *place, struct pen_error *reterr)
{
    char first[256] = "", second[256] = "", line[520] = "";
    struct stat facts;
    ssize_t got = small_file_read(path, line, sizeof line - 1, &facts);
    if (got < 0)
        return pen_error_set(reterr, PEN_ERR_IO, "cannot read --redis-password-file %.300s: %s", path,
                             small_file_reason(errno));
    if (strlen(line) != (size_t)got) {
        explicit_bzero(line, sizeof line);
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "a byte of --redis-password-file %.300s is 0: it is damaged, put the right one back",
                             path);
    }
    line[strcspn(line, "\n")] = '\0';
    if (S_ISREG(facts.st_mode) && (facts.st_mode & 077) != 0)
        return pen_error_set(reterr, PEN_ERR_DENIED, "others may read --redis-password-file %.300s; chmod 600 it",
                             path);
    int words = got > 0 ? sscanf(line, "%255s %255s", first, second) : 0;
    memset(line, 0, sizeof line);
    if (words < 1 || (words == 2 && strlen(first) >= sizeof place->user))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "--redis-password-file %.300s holds no `PASSWORD` or `USER PASSWORD`", path);
    snprintf(place->user, sizeof place->user, "%.127s", words == 2 ? first : "");
    snprintf(place->password, sizeof place->password, "%s", words == 2 ? second : first);
    place->password_file = S_ISREG(facts.st_mode) ? path : NULL; /* a pipe has it once */
    return PEN_OK;
}
