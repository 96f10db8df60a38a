#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keys.h"
#include "small_file.h"

static char folder[] = "/tmp/penstock-small-XXXXXX", path[64], other[64];
static struct stat facts;
static char text[64];

static void open_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(other, sizeof other, "%s/other", folder);
}

static void remove_folder(void)
{
    unlink(path);
    unlink(other);
    rmdir(folder);
}

static void write_words(const char *words)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    cr_assert_eq(write(fd, words, strlen(words)), (ssize_t)strlen(words));
    close(fd);
}

Test(small_file, is_read_to_its_end_or_to_the_capacity_through_links_too, .init = open_folder, .fini = remove_folder)
{
    write_words("twelve bytes");
    cr_assert_eq(symlink(path, other), 0);
    cr_assert_eq(small_file_read(other, text, sizeof text, &facts), 12);
    cr_assert(S_ISREG(facts.st_mode) && memcmp(text, "twelve bytes", 12) == 0);
    cr_assert_eq(small_file_read(path, text, 5, &facts), 5);
    cr_assert_eq(small_file_read(folder, text, sizeof text, &facts), -1);
    cr_assert_eq(errno, EISDIR);
    cr_assert_eq(small_file_read("/none/such", text, sizeof text, &facts), -1);
    cr_assert_eq(errno, ENOENT);
}

Test(small_file, pipe_without_a_writer_is_given_up, .init = open_folder, .fini = remove_folder, .timeout = 60)
{
    struct key_pair pair;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(key_file_read(path, &pair, &error), PEN_ERR_IO);
    cr_assert_not_null(strstr(error.text, "nobody writes to it"), "%s", error.text);
}

static void *write_in_two(void *unused)
{
    int fd = open(path, O_WRONLY); /* returns when the reader is there */
    bool good = write(fd, "one ", 4) == 4 && write(fd, "two", 3) == 3;
    close(fd);
    return good ? path : unused;
}

Test(small_file, pipe_is_read_until_its_writer_has_gone, .init = open_folder, .fini = remove_folder, .timeout = 60)
{
    pthread_t writer;
    void *written = NULL;
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(pthread_create(&writer, NULL, write_in_two, NULL), 0);
    cr_assert_eq(small_file_read(path, text, sizeof text, &facts), 7);
    pthread_join(writer, &written);
    cr_assert(written && memcmp(text, "one two", 7) == 0);
}
