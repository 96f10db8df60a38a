/*
 * Looks at the folder of models, one by one, without a thread and without time: what is half there is waited for with a sentence, what is whole is taken,
 * and what served goes on.
 */
#include "looks.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "onnx_file.h"
#include "upload_complete.h"

TestSuite(looks, .init = looks_setup, .fini = looks_teardown, .timeout = 60);

/* ---- half there ---------------------------------------------------------------------------------------------------------------------- */

Test(looks, a_version_whose_folder_comes_before_its_file_is_waited_for)
{
    looks_start();
    folder_make(looks_at("a/2"));
    for (int i = 0; i < 3; i++)
        cr_expect(!looks_again());
    looks_offers_are("a:1");
    LOGGED_ONCE("evt=model_waits model=a version=2");
    LOGGED_ONCE("a/2 holds no model: put model.onnx");
    cr_expect(looks_logged("evt=model_failed") == 0, "%s", looks_log);
    looks_put("a/2", "Abs");
    cr_expect(!looks_again(), "two looks must see the same");
    cr_expect(looks_again());
    looks_offers_are("(a:1) a:2");
}

Test(looks, a_copy_that_stalls_while_somebody_writes_is_waited_for_and_taken_when_it_is_whole)
{
    size_t size = 0;
    uint8_t *bytes = looks_model("Abs", &size);
    looks_start();
    folder_make(looks_at("a/2"));
    int fd = open(looks_at("a/2/model.onnx"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    cr_assert(fd >= 0 && write(fd, bytes, size / 2) == (ssize_t)(size / 2));
    for (int i = 0; i < 4; i++)
        cr_expect(!looks_again());
    looks_offers_are("a:1");
    LOGGED_ONCE("a/2/model.onnx is still open for writing");
    cr_expect(looks_logged("evt=model_failed") == 0 && looks_logged("evt=model_loading") == 0,
              "it is not even tried: %s", looks_log);
    looks_put("b/1", "Abs"); /* others do not wait for it */
    looks_again();
    cr_expect(looks_again());
    looks_offers_are("a:1 b:1");
    cr_assert(write(fd, bytes + size / 2, size - size / 2) == (ssize_t)(size - size / 2));
    cr_expect(!looks_again() && !looks_again(), "all bytes are there, but the writer is not done");
    close(fd);
    cr_expect(looks_again());
    looks_offers_are("(a:1) b:1 a:2");
    free(bytes);
}

Test(looks, where_a_refused_lease_says_nothing_of_writers_nobody_is_waited_for)
{
    cr_expect(!upload_lease_tells(NFS_SUPER_MAGIC) && !upload_lease_tells(SMB2_SUPER_MAGIC));
    cr_expect(upload_lease_tells(EXT4_SUPER_MAGIC) && upload_lease_tells(TMPFS_MAGIC) &&
              upload_lease_tells(OVERLAYFS_SUPER_MAGIC));
}

/* As fallocate and then write: the size says nothing. */
Test(looks, a_file_of_full_size_that_is_not_filled_is_not_taken)
{
    size_t size = 0;
    uint8_t *bytes = looks_model("Abs", &size);
    looks_start();
    int fd = open(looks_at("a/1/model.onnx.new"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    cr_assert(fd >= 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size);
    cr_assert(rename(looks_at("a/1/model.onnx.new"), looks_at("a/1/model.onnx")) == 0, "renamed too early");
    cr_expect(!looks_again() && !looks_again() && !looks_again());
    LOGGED_ONCE("a/1/model.onnx is still open for writing");
    close(fd);
    cr_expect(looks_again());
    looks_offers_are("a:1");
    free(bytes);
}

Test(looks, a_file_that_goes_on_changing_is_told_of_once_and_left_alone)
{
    char text[32];
    looks_start();
    folder_make(looks_at("a/2"));
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "%.*s", i + 1, "not a model");
        looks_put_text("a/2/model.onnx", text);
        cr_expect(!looks_again());
        cr_expect(looks_logged("are still changing") == (i > 0), "a change in one step is none to tell of: %s",
                  looks_log);
    }
    LOGGED_ONCE("the files in");
    LOGGED_ONCE("a/2 are still changing");
    cr_expect(looks_logged("evt=model_loading") == 0, "%s", looks_log);
    looks_offers_are("a:1");
}

Test(looks, half_a_file_that_nobody_writes_is_tried_once_and_taken_when_the_rest_comes)
{
    size_t size = 0;
    uint8_t *bytes = looks_model("Abs", &size);
    looks_start();
    folder_make(looks_at("a/2"));
    file_write(looks_at("a/2/model.onnx"), bytes, size / 2);
    for (int i = 0; i < 4; i++)
        cr_expect(!looks_again());
    LOGGED_ONCE("evt=model_failed model=a version=2");
    looks_offers_are("a:1");
    file_write(looks_at("a/2/model.onnx"), bytes, size);
    cr_expect(!looks_again() && looks_again());
    looks_offers_are("(a:1) a:2");
    free(bytes);
}

Test(looks, an_empty_file_is_waited_for)
{
    looks_start();
    folder_make(looks_at("a/2"));
    looks_put_text("a/2/model.onnx", "");
    cr_expect(!looks_again() && !looks_again() && !looks_again());
    LOGGED_ONCE("a/2/model.onnx is empty so far");
    looks_put("a/2", "Abs");
    cr_expect(!looks_again() && looks_again());
}

Test(looks, external_data_that_comes_after_its_model_is_taken_and_so_is_its_change)
{
    const float w[2] = {1, 2}, v[2] = {3, 4};
    looks_start();
    looks_put_sum("a/2");
    for (int i = 0; i < 4; i++)
        cr_expect(!looks_again());
    LOGGED_ONCE("evt=model_failed model=a version=2");
    looks_offers_are("a:1");
    file_write(looks_at("a/2/.w"), w, sizeof w);
    cr_assert(rename(looks_at("a/2/.w"), looks_at("a/2/w.data")) == 0);
    cr_expect(!looks_again() && looks_again(), "%s", (looks_logged(""), looks_log));
    looks_offers_are("(a:1) a:2");
    struct digest before = catalog_find(&looks_catalog, "a", 2)->digest;
    file_write(looks_at("a/2/.w"), v, sizeof v);
    cr_assert(rename(looks_at("a/2/.w"), looks_at("a/2/w.data")) == 0);
    cr_expect(!looks_again() && looks_again());
    cr_expect(!digest_equal(before, catalog_find(&looks_catalog, "a", 2)->digest), "other weights, other answers");
}

Test(looks, a_pointer_of_git_lfs_is_said_to_be_one)
{
    looks_start();
    folder_make(looks_at("a/2"));
    looks_put_text("a/2/model.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 500000000\n");
    cr_expect(!looks_again() && !looks_again() && !looks_again());
    LOGGED_ONCE("is a pointer of git-lfs, not the model itself: run git lfs pull");
    looks_offers_are("a:1");
    looks_put("a/2", "Abs"); /* as the checkout does it: another file under that name */
    cr_expect(!looks_again() && looks_again());
    looks_offers_are("(a:1) a:2");
}

Test(looks, a_file_whose_permissions_change_is_tried_again)
{
    looks_start();
    folder_make(looks_at("a/2"));
    looks_put_text("a/2/model.onnx", "as good as unreadable, also for root");
    cr_expect(!looks_again() && !looks_again() && !looks_again());
    LOGGED_ONCE("evt=model_failed model=a version=2");
    cr_assert(chmod(looks_at("a/2/model.onnx"), 0600) == 0);
    cr_expect(!looks_again() && !looks_again());
    cr_expect(looks_logged("evt=model_loading model=a version=2") == 2, "%s", looks_log);
}

/* ---- config.json -------------------------------------------------------------------------------------------------------------------- */

Test(looks, a_config_that_comes_after_its_model_is_taken)
{
    looks_start();
    looks_put("b/1", "Abs");
    cr_expect(!looks_again() && looks_again());
    cr_expect(catalog_find(&looks_catalog, "b", 1)->max_batch_size == 8, "by the name of its dimension");
    looks_put_text("b/config.json", "{\"max_batch_size\": 3, \"dyn");
    cr_expect(!looks_again() && !looks_again() && !looks_again());
    LOGGED_ONCE("not JSON");
    looks_offers_are("a:1 b:1");
    looks_put_text("b/config.json", "{\"max_batch_size\": 3}");
    cr_expect(!looks_again() && looks_again());
    cr_expect(catalog_find(&looks_catalog, "b", 1)->max_batch_size == 3);
}

Test(looks, labels_that_come_after_their_config_are_waited_for_and_a_change_of_them_is_taken)
{
    looks_start();
    looks_put_text("a/config.json", "{\"output\": {\"labels_file\": \"names.txt\"}}");
    cr_expect(!looks_again() && !looks_again());
    LOGGED_ONCE("names.txt");
    looks_offers_are("a:1");
    looks_put_text("a/names.txt", "left\nright\n");
    cr_expect(!looks_again() && looks_again());
    cr_assert_eq(catalog_find(&looks_catalog, "a", 1)->config.labels_count, 2);
    looks_put_text("a/names.txt", "west\neast\n");
    cr_expect(!looks_again() && looks_again());
    cr_assert_str_eq(catalog_find(&looks_catalog, "a", 1)->config.labels[0], "west");
}

Test(looks, a_config_written_anew_that_says_the_same_loads_nothing)
{
    looks_put_text("a/config.json", "{\"max_batch_size\": 3}");
    looks_start();
    cr_expect(!looks_again());
    looks_put_text("a/config.json", "{ \"max_batch_size\" : 3 }\n");
    cr_expect(!looks_again() && !looks_again() && !looks_again());
    cr_expect(looks_logged("evt=model_loading") == 0, "%s", looks_log);
}
