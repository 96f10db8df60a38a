#include "folder.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"

void folder_new(char ret_path[FOLDER_PATH_BYTES])
{
    snprintf(ret_path, FOLDER_PATH_BYTES, "/tmp/penstock-test.XXXXXX");
    if (!mkdtemp(ret_path)) {
        support_fail("cannot make a folder in /tmp: %s", strerror(errno));
    }
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void folder_free(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void folder_make(const char *path)
{
    char part[1024];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash) {
            *slash = '\0';
        }
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            support_fail("cannot make %s: %s", part, strerror(errno));
        }
        if (!slash) {
            return;
        }
        *slash = '/';
    }
}

void file_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wbe");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        support_fail("cannot write %s: %s", path, strerror(errno));
    }
}

void *file_read(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "rbe");
    struct stat info;
    if (!file || fstat(fileno(file), &info) != 0) {
        support_fail("cannot read %s: %s", path, strerror(errno));
    }
    size_t size = (size_t)info.st_size;
    char *bytes = malloc(size + 1);
    if (!bytes || fread(bytes, 1, size, file) != size) {
        support_fail("cannot read all of %s", path);
    }
    fclose(file);
    bytes[size] = '\0';
    if (ret_size) {
        *ret_size = size;
    }
    return bytes;
}

void file_copy(const char *from, const char *to)
{
    size_t size;
    void *bytes = file_read(from, &size);
    file_write(to, bytes, size);
    free(bytes);
}

void model_folder_make(const char *models, const char *name, const char *model_file, const char *config)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/1", models, name);
    folder_make(path);
    snprintf(path, sizeof path, "%s/%s/1/model.onnx", models, name);
    file_copy(model_file, path);
    if (config) {
        snprintf(path, sizeof path, "%s/%s/config.json", models, name);
        file_write(path, config, strlen(config));
    }
}
