#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/vulkan/pipeline.h"

static char dir[] = "/tmp/penstock-vulkan-cache-XXXXXX", path[4096];
static struct vk_cache_key key;

static void made(void)
{
    struct vk_device_info info = {.uuid = {1, 2, 3}, .driver = 13, .driver_version = 5, .driver_info = "Mesa 22"};
    cr_assert_not_null(mkdtemp(dir));
    key = vk_cache_key_of(&info);
    cr_assert(vk_cache_path(dir, VK_CACHE_PIPELINES, &key, path, sizeof path));
}

static void removed(void)
{
    unlink(path);
    rmdir(dir);
}
TestSuite(vulkan_cache, .init = made, .fini = removed);

static void reads(const struct vk_cache_key *k, const char *want, const char *payload)
{
    size_t bytes = 0;
    const char *why = "";
    char *got = vk_cache_read(dir, VK_CACHE_PIPELINES, k, &bytes, &why);
    cr_assert_str_eq(why, want);
    cr_assert_eq(got != NULL, payload != NULL);
    if (got != NULL) {
        cr_assert_eq(bytes, strlen(payload));
        cr_assert_eq(memcmp(got, payload, bytes), 0);
    }
    free(got);
}

static void byte_set(long at, int value)
{
    FILE *f = fopen(path, "r+b");
    cr_assert_not_null(f);
    fseek(f, at, SEEK_SET);
    fputc(value, f);
    fclose(f);
}

Test(vulkan_cache, what_was_written_is_read_and_no_temporary_file_stays)
{
    reads(&key, "none", NULL);
    cr_assert(vk_cache_write(dir, VK_CACHE_PIPELINES, &key, "first", 5));
    cr_assert(vk_cache_write(dir, VK_CACHE_PIPELINES, &key, "second", 6));
    reads(&key, "hit", "second");
    DIR *d = opendir(dir);
    int files = 0;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        files += e->d_name[0] != '.';
    }
    closedir(d);
    cr_assert_eq(files, 1);
}

Test(vulkan_cache, every_corrupt_byte_is_a_miss)
{
    cr_assert(vk_cache_write(dir, VK_CACHE_PIPELINES, &key, "payload", 7));
    FILE *f = fopen(path, "rb");
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    fclose(f);
    for (long at = 0; at < size; at++) {
        cr_assert(vk_cache_write(dir, VK_CACHE_PIPELINES, &key, "payload", 7));
        byte_set(at, 0xA5);
        size_t bytes = 0;
        const char *why = "";
        void *got = vk_cache_read(dir, VK_CACHE_PIPELINES, &key, &bytes, &why);
        cr_assert_null(got, "byte %ld", at);
    }
}

Test(vulkan_cache, cut_and_grown_files_are_a_miss)
{
    cr_assert(vk_cache_write(dir, VK_CACHE_PIPELINES, &key, "payload", 7));
    for (long size = 0; size < 63; size += 3) {
        cr_assert(vk_cache_write(dir, VK_CACHE_PIPELINES, &key, "payload", 7));
        cr_assert_eq(truncate(path, size), 0);
        reads(&key, "corrupt", NULL);
    }
    cr_assert(vk_cache_write(dir, VK_CACHE_PIPELINES, &key, "payload", 7));
    FILE *f = fopen(path, "ab");
    fputc('x', f);
    fclose(f);
    reads(&key, "corrupt", NULL);
}

Test(vulkan_cache, another_driver_s_file_is_foreign_even_under_our_name)
{
    struct vk_cache_key other = key;
    char from[4096];
    other.driver_version++;
    cr_assert(vk_cache_write(dir, VK_CACHE_PIPELINES, &other, "payload", 7));
    cr_assert(vk_cache_path(dir, VK_CACHE_PIPELINES, &other, from, sizeof from));
    cr_assert_str_neq(from, path);
    cr_assert_eq(rename(from, path), 0);
    reads(&key, "foreign", NULL);
}

Test(vulkan_cache, a_folder_that_takes_no_files_is_known_with_its_reason)
{
    char below[256], why[80] = "";
    snprintf(below, sizeof below, "%s/a/b", dir);
    cr_assert(vk_cache_usable(below, why, sizeof why), "%s", why);
    cr_assert_eq(access(below, W_OK), 0, "it is made");
    snprintf(below, sizeof below, "%s/file", dir);
    FILE *f = fopen(below, "we");
    cr_assert(f != NULL && fclose(f) == 0);
    cr_assert_not(vk_cache_usable(below, why, sizeof why), "a file");
    cr_assert_str_eq(why, "Not a directory");
    snprintf(below, sizeof below, "%s/file/below", dir);
    cr_assert_not(vk_cache_usable(below, why, sizeof why), "a folder below a file");
    cr_assert_str_eq(why, "Not a directory");
    cr_assert_not(vk_cache_usable("", why, sizeof why));
    char command[512];
    snprintf(command, sizeof command, "rm -r %s/a %s/file", dir, dir);
    cr_assert_eq(system(command), 0);
}

Test(vulkan_cache, links_and_folders_that_cannot_be_made_are_no_error)
{
    cr_assert_eq(symlink("/etc/passwd", path), 0);
    reads(&key, "none", NULL);
    cr_assert_not(vk_cache_write("/proc/none/such", VK_CACHE_PIPELINES, &key, "x", 1));
    cr_assert_not(vk_cache_write("", VK_CACHE_PIPELINES, &key, "x", 1));
}
