/* A broker takes a journal that is one, and its alone: whatever else the path names is left as it was. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "detached.h"
#include "desk.h"
#include "folder.h"

static char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 32];

static void setup(void)
{
    folder_new(folder);
    snprintf(path, sizeof path, "%s/journal", folder);
}

static void teardown(void)
{
    folder_free(folder);
}

TestSuite(claim, .init = setup, .fini = teardown);

/* The status of a broker's start with that journal; the broker stays when *ret_desk is wanted. */
static enum pen_status start(const char *journal, struct desk **ret_desk, struct pen_error *error)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    *error = (struct pen_error){.status = PEN_OK};
    enum pen_status status = detached_open(&desk->broker, journal, error);
    if (ret_desk)
        *ret_desk = desk;
    else
        desk_free(desk);
    return status;
}

static unsigned descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    unsigned count = 0;
    cr_assert_not_null(all);
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

/* A supervisor may start the broker without standard input: then the first file that it opens has number 0. */
Test(claim, a_journal_leaves_no_descriptor_whatever_its_number)
{
    struct pen_error error;
    cr_assert_eq(start(path, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(start(path, NULL, &error), PEN_OK, "%s", error.text);
    close(STDIN_FILENO);
    unsigned before = descriptors();
    for (int i = 0; i < 3; i++)
        cr_assert_eq(start(path, NULL, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(descriptors(), before);
}

Test(claim, file_that_is_no_journal_is_left_as_it_is)
{
    static const char text[] = "root:x:0:0:root:/root:/bin/bash\n";
    struct pen_error error;
    size_t size;
    file_write(path, text, strlen(text));
    cr_assert_eq(start(path, NULL, &error), PEN_ERR_INVALID);
    cr_assert_not_null(strstr(error.text, path), "%s", error.text);
    char *kept = file_read(path, &size);
    cr_assert_str_eq(kept, text);
    free(kept);
}

Test(claim, device_folder_and_link_are_not_replaced)
{
    char link_path[sizeof path + 8];
    struct pen_error error;
    struct stat facts;
    snprintf(link_path, sizeof link_path, "%s.link", path);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(symlink("elsewhere", link_path), 0);
    cr_assert_eq(start(path, NULL, &error), PEN_ERR_INVALID);
    cr_assert(lstat(path, &facts) == 0 && S_ISFIFO(facts.st_mode));
    cr_assert_eq(start(link_path, NULL, &error), PEN_ERR_INVALID);
    cr_assert(lstat(link_path, &facts) == 0 && S_ISLNK(facts.st_mode));
    cr_assert_eq(start(folder, NULL, &error), PEN_ERR_INVALID);
}

Test(claim, first_record_that_a_power_cut_left_torn_or_empty_is_no_obstacle)
{
    static const struct {
        const char *bytes;
        size_t size;
    } torn[] = {{"", 0}, {"P", 1}, {"PKJ1\1", 5}, {"\0\0\0\0\0\0\0\0", 8}};
    struct pen_error error;
    for (size_t i = 0; i < sizeof torn / sizeof torn[0]; i++) {
        file_write(path, torn[i].bytes, torn[i].size);
        cr_assert_eq(start(path, NULL, &error), PEN_OK, "case %zu: %s", i, error.text);
    }
}

Test(claim, second_broker_has_to_have_one_of_its_own)
{
    struct desk *first;
    struct pen_error error;
    cr_assert_eq(start(path, &first, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(start(path, NULL, &error), PEN_ERR_IO);
    cr_assert_not_null(strstr(error.text, "another broker"), "%s", error.text);
    desk_free(first);
    cr_assert_eq(start(path, NULL, &error), PEN_OK, "it was given back: %s", error.text);
}
