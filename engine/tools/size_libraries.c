#include "tools/size_libraries.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static enum pen_status fail(struct pen_error *reterr, const char *what, const char *path)
{
    return pen_error_set(reterr, PEN_ERR_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

/* The loader that a program names (PT_INTERP). False: a static program, which would run if it were started, or a library. */
static bool loader_of(const char *program, char *ret_loader, size_t room)
{
    char head[4096];
    int fd = open(program, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, head, sizeof head - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    const char *name = got > 0 ? memmem(head, (size_t)got, "/ld-", 4) : NULL;
    if (name == NULL) {
        return false;
    }
    head[got] = '\0';
    while (name > head && name[-1] != '\0') {
        name--;
    }
    const size_t length = strlen(name);
    if (length >= room) {
        return false;
    }
    memcpy(ret_loader, name, length + 1);
    return true;
}

/* Which loader can list the libraries: a library names none, and takes ours. */
static bool loader_find(const char *program, char *ret_loader, size_t room)
{
    const bool library = strstr(program, ".so") != NULL;
    return loader_of(program, ret_loader, room) || (library && loader_of("/proc/self/exe", ret_loader, room));
}

/* The dynamic loader lists instead of starting the program; its lines come through the pipe. */
static FILE *loader_start(const char *loader, const char *program, pid_t *ret_pid)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return NULL;
    }
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl(loader, loader, "--list", program, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *ret_pid = pid;
    FILE *f = pid > 0 ? fdopen(ends[0], "r") : NULL;
    if (f == NULL) {
        close(ends[0]);
    }
    return f;
}

/* "\tlibm.so.6 => /lib/.../libm.so.6 (0x...)", or "\t/lib64/ld-linux... (0x...)". */
static void line_take(struct size_libraries *list, const char *line)
{
    const char *path = strchr(line, '/');
    struct stat st;
    char name[256];
    if (path == NULL || list->count == SIZE_LIBRARIES_MAX) {
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(path, " \n"), path);
    if (stat(name, &st) == 0) {
        struct size_library *l = &list->items[list->count++];
        snprintf(l->path, sizeof l->path, "%s", name);
        l->bytes = (uint64_t)st.st_size;
        list->bytes += l->bytes;
    }
}

static int by_bytes(const void *a, const void *b)
{
    const struct size_library *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : strcmp(x->path, y->path);
}

enum pen_status size_libraries_read(const char *program, struct size_libraries *ret_list, struct pen_error *reterr)
{
    struct stat st;
    *ret_list = (struct size_libraries){.count = 0};
    if (stat(program, &st) != 0) {
        return fail(reterr, "look at", program);
    }
    ret_list->program = (uint64_t)st.st_size;
    char line[512], loader[256], path[PATH_MAX];
    if (realpath(program, path) == NULL) {
        return fail(reterr, "look at", program);
    }
    if (!loader_find(path, loader, sizeof loader)) {
        return PEN_OK;
    }
    pid_t pid = 0;
    int status = 0;
    FILE *f = loader_start(loader, path, &pid);
    if (f == NULL) {
        return fail(reterr, "start", program);
    }
    while (fgets(line, sizeof line, f) != NULL) {
        line_take(ret_list, line);
    }
    fclose(f);
    waitpid(pid, &status, 0);
    qsort(ret_list->items, ret_list->count, sizeof ret_list->items[0], by_bytes);
    return PEN_OK;
}

/* ---- a folder for a container ---- */

static enum pen_status folders_make(const char *file, struct pen_error *reterr)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", file);
    for (char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST) {
            return fail(reterr, "make the folder", path);
        }
        *at = '/';
    }
    return PEN_OK;
}

static enum pen_status bytes_copy(int in, int out, const char *to, struct pen_error *reterr)
{
    char block[65536];
    for (ssize_t got = read(in, block, sizeof block); got != 0; got = read(in, block, sizeof block)) {
        if (got < 0 || write(out, block, (size_t)got) != got) {
            return fail(reterr, "write", to);
        }
    }
    return PEN_OK;
}

static enum pen_status file_copy(const char *from, const char *to, struct pen_error *reterr)
{
    enum pen_status status = folders_make(to, reterr);
    int in = status == PEN_OK ? open(from, O_RDONLY | O_CLOEXEC) : -1;
    int out = in >= 0 ? open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755) : -1;
    if (status == PEN_OK) {
        status = out >= 0 ? bytes_copy(in, out, to, reterr) : fail(reterr, "copy", in < 0 ? from : to);
    }
    if (in >= 0) {
        close(in);
    }
    if (out >= 0 && close(out) != 0 && status == PEN_OK) {
        status = fail(reterr, "write", to);
    }
    return status;
}

static enum pen_status dockerfile_write(const char *folder, const char *name, struct pen_error *reterr)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/Dockerfile", folder);
    FILE *f = fopen(path, "we");
    if (f == NULL) {
        return fail(reterr, "write", path);
    }
    fprintf(f,
            "# docker build -t %s .   (nothing but the program and the libraries that it loads)\nFROM scratch\n"
            "COPY rootfs /\nENV LD_LIBRARY_PATH=/lib\nUSER 65532\nENTRYPOINT [\"/usr/bin/%s\"]\n",
            name, name);
    return fclose(f) == 0 ? PEN_OK : fail(reterr, "write", path);
}

enum pen_status size_image_write(const char *folder, const char *program, const struct size_libraries *list,
                                 struct pen_error *reterr)
{
    char to[PATH_MAX], name[256], copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", program);
    snprintf(name, sizeof name, "%s", basename(copy));
    if (mkdir(folder, 0755) != 0) {
        return fail(reterr, "make the folder", folder);
    }
    snprintf(to, sizeof to, "%s/rootfs/usr/bin/%s", folder, name);
    enum pen_status status = file_copy(program, to, reterr);
    for (size_t i = 0; status == PEN_OK && i < list->count; i++) {
        const char *path = list->items[i].path, *last = strrchr(path, '/');
        bool loader = strstr(path, "/ld-") != NULL; /* the program names it by its whole path */
        snprintf(to, sizeof to, "%s/rootfs%s%s", folder, loader ? "" : "/lib", loader ? path : last);
        status = file_copy(path, to, reterr);
    }
    return status == PEN_OK ? dockerfile_write(folder, name, reterr) : status;
}
