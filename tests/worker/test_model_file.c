/* What lies in a version's folder: which file is its model, what changes the number that stands for all of them, and whether somebody still writes there. */
#include "model_file.h"
#include "stats.h"
#include "upload_complete.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"

#define PATH_BYTES (FOLDER_PATH_BYTES + 128)
#define TOPOLOGY   "{\"modelTopology\":{},\"weightsManifest\":[]}"

static char root[FOLDER_PATH_BYTES], version[FOLDER_PATH_BYTES + 8];
static struct pen_error error;

static void begin(void)
{
    folder_new(root);
    snprintf(version, sizeof version, "%s/m/1", root);
    folder_make(version);
}

static void end(void)
{
    folder_free(root);
}

TestSuite(model_file, .init = begin, .fini = end, .timeout = 30);

static const char *at(const char *name)
{
    static char paths[2][PATH_BYTES]; /* a call may name two */
    static unsigned turn;
    char *path = paths[turn++ % 2];
    snprintf(path, PATH_BYTES, "%s/%s", version, name);
    return path;
}

static void put(const char *name, const char *text)
{
    file_write(at(name), text, strlen(text));
}

/* ---- which file it is ---- */

static void is_found(const char *name)
{
    char path[MODEL_FILE_PATH_BYTES] = "";
    enum pen_status status = model_file_find(version, path, &error);
    if (name) {
        cr_expect_eq(status, PEN_OK, "%s", error.text);
        cr_expect_str_eq(path, at(name));
        return;
    }
    cr_expect_eq(status, PEN_ERR_NOT_FOUND);
    cr_expect(strstr(error.text, version) && strstr(error.text, "holds no model"), "%s", error.text);
}

Test(model_file, only_names_and_contents_of_models_count)
{
    is_found(NULL);
    put("notes.json", "{}");
    put("config.json", TOPOLOGY);
    put(".hidden.json", TOPOLOGY);
    put("empty.json", "");
    put("other.onnx", "x");
    put("weightsManifest.txt", TOPOLOGY);
    is_found(NULL);
    put("net.json", TOPOLOGY);
    is_found("net.json");
    cr_assert_eq(unlink(at("net.json")), 0);
    put("model.onnx", "x");
    is_found("model.onnx");
    cr_assert_eq(rename(at("model.onnx"), at("model.tflite")), 0);
    is_found("model.tflite");
}

Test(model_file, a_folder_that_is_not_there_has_none)
{
    char path[MODEL_FILE_PATH_BYTES];
    cr_expect_eq(model_file_find("/nowhere/1", path, &error), PEN_ERR_NOT_FOUND);
    cr_expect(strstr(error.text, "/nowhere/1 holds no model"), "%s", error.text);
    cr_expect_eq(model_file_stamp("/nowhere/1"), 0);
    cr_expect_eq(upload_complete("/nowhere/1", &error), PEN_ERR_BUSY);
}

Test(model_file, two_models_are_told_in_the_order_of_their_names)
{
    char path[MODEL_FILE_PATH_BYTES];
    put("model.tflite", "x");
    put("model.onnx", "x");
    cr_expect_eq(model_file_find(version, path, &error), PEN_ERR_INVALID);
    cr_expect(strstr(error.text, "holds two models, model.onnx and model.tflite: leave one"), "%s", error.text);
    cr_expect_eq(upload_complete(version, &error), PEN_OK, "waiting does not help");
    cr_assert_eq(unlink(at("model.onnx")), 0);
    put("z.json", TOPOLOGY);
    cr_expect_eq(model_file_find(version, path, &error), PEN_ERR_INVALID);
    cr_expect(strstr(error.text, "model.tflite and z.json"), "%s", error.text);
}

/* A topology that cannot be read is the model, when its name says so: then loading tells why. */
Test(model_file, a_topology_that_leads_out_of_the_folder_counts_by_its_name)
{
    cr_assert_eq(symlink("/etc/hostname", at("model.json")), 0);
    is_found("model.json");
    cr_assert_eq(rename(at("model.json"), at("other.json")), 0);
    is_found(NULL);
}

Test(model_file, a_file_alone_is_a_model_by_suffix_or_content)
{
    put("a.onnx", "x");
    put("a.tflite", "x");
    put("a.json", TOPOLOGY);
    put("b.json", "{}");
    put("a.txt", TOPOLOGY);
    cr_expect(model_file_alone(at("a.onnx")) && model_file_alone(at("a.tflite")) && model_file_alone(at("a.json")));
    cr_expect_not(model_file_alone(at("b.json")));
    cr_expect_not(model_file_alone(at("a.txt")));
    cr_expect_not(model_file_alone(".onnx"), "a suffix without a name");
}

Test(model_file, texts_and_settings_are_no_part_of_a_model)
{
    static const char *const none[] = {"a.md", "a.txt", "a.log", "config.json", "config.pbtxt", ".hidden"};
    static const char *const some[] = {"model.onnx", "a.bin", "md", "log", ".", "config.jsonx"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        cr_expect_not(model_file_counts(none[i]), "%s", none[i]);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        cr_expect_eq(model_file_counts(some[i]), some[i][0] != '.', "%s", some[i]);
}

/* ---- the number that stands for it ---- */

static uint64_t stamped;

static void stamp_is(bool another, const char *why)
{
    uint64_t now = model_file_stamp(version);
    cr_expect_eq(now != stamped, another, "%s", why);
    cr_expect_eq(now, model_file_stamp(version), "the same twice: %s", why);
    stamped = now;
}

static void touch(const char *name, time_t seconds, long nanoseconds)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {seconds, nanoseconds}};
    cr_assert_eq(utimensat(AT_FDCWD, at(name), times, 0), 0);
}

Test(model_file, any_change_of_a_part_is_another_stamp)
{
    put("model.onnx", "abc");
    touch("model.onnx", 1000, 5);
    stamped = model_file_stamp(version);
    touch("model.onnx", 1001, 5);
    stamp_is(true, "seconds");
    touch("model.onnx", 1001, 6);
    stamp_is(true, "nanoseconds");
    put("model.onnx", "abcd");
    touch("model.onnx", 1001, 6);
    stamp_is(true, "bytes");
    cr_assert_eq(chmod(at("model.onnx"), 0600), 0);
    uint64_t closed = model_file_stamp(version);
    cr_assert_eq(chmod(at("model.onnx"), 0644), 0);
    cr_expect_neq(model_file_stamp(version), closed, "rights");
    stamped = model_file_stamp(version);
    put("other", "abcd");
    touch("other", 1001, 6);
    cr_assert_eq(rename(at("other"), at("model.onnx")), 0);
    stamp_is(true, "inode");
    put("weights.bin", "w");
    touch("weights.bin", 1, 1);
    stamp_is(true, "one more file");
    cr_assert_eq(rename(at("weights.bin"), at("weightt.bin")), 0);
    stamp_is(true, "name");
}

Test(model_file, what_does_not_count_changes_no_stamp)
{
    put("model.onnx", "abc");
    stamped = model_file_stamp(version);
    put("README.md", "x");
    put(".hidden", "x");
    put("config.json", "{}");
    stamp_is(false, "texts");
    folder_make(at("a/b/c/d"));
    stamped = model_file_stamp(version);
    put("a/one.bin", "x");
    stamp_is(true, "below");
    put("a/b/two.bin", "x");
    stamp_is(true, "two below");
    put("a/b/c/three.bin", "x");
    stamp_is(true, "three below");
    put("a/b/c/d/four.bin", "x");
    stamp_is(false, "shards lie no deeper");
    put("a/b/notes.txt", "x");
    stamp_is(false, "texts below");
}

Test(model_file, a_tflite_model_is_one_file)
{
    put("model.tflite", "abc");
    stamped = model_file_stamp(version);
    put("beside.bin", "x");
    stamp_is(false, "beside");
    put("model.tflite", "abcd");
    stamp_is(true, "itself");
}

/* ---- whether it is complete ---- */

static void waits(const char *part)
{
    error = (struct pen_error){.status = PEN_OK};
    enum pen_status status = upload_complete(version, &error);
    cr_expect_eq(status, part ? PEN_ERR_BUSY : PEN_OK, "%s", error.text);
    cr_expect(!part || strstr(error.text, part), "'%s' is not in '%s'", part ? part : "", error.text);
}

Test(model_file, an_empty_model_and_a_pointer_are_not_complete)
{
    waits("holds no model");
    put("model.onnx", "");
    waits("model.onnx is empty so far");
    put("model.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    waits("is a pointer of git-lfs");
    cr_expect_eq(upload_pointer_check(at("model.onnx"), &error), PEN_ERR_INVALID);
    put("model.onnx", "version https://git-lfs.github.com/spec/");
    cr_expect_eq(upload_pointer_check(at("model.onnx"), &error), PEN_ERR_INVALID, "exactly its beginning");
    put("model.onnx", "version https://git-lfs.github.com/spec");
    cr_expect_eq(upload_pointer_check(at("model.onnx"), &error), PEN_OK, "a byte less");
    put("model.onnx", "version https://git-lfs.github.org/spec/v1");
    waits(NULL);
    cr_expect_eq(upload_pointer_check(at("none"), &error), PEN_OK, "loading tells why it cannot be read");
}

Test(model_file, a_file_that_is_open_for_writing_is_not_complete)
{
    put("model.onnx", "abc");
    folder_make(at("a/b/c/d"));
    put("a/b/c/shard.bin", "12345");
    put("a/b/c/d/deep.bin", "1");
    put("a/notes.txt", "1");
    waits(NULL);
    int deep = open(at("a/b/c/d/deep.bin"), O_WRONLY | O_CLOEXEC),
        notes = open(at("a/notes.txt"), O_WRONLY | O_CLOEXEC);
    waits(NULL); /* no parts of the model */
    int shard = open(at("a/b/c/shard.bin"), O_WRONLY | O_CLOEXEC);
    cr_assert(shard >= 0 && deep >= 0 && notes >= 0);
    if (fcntl(shard, F_SETLEASE, F_RDLCK) == 0)
        cr_skip_test("this file system does not tell who writes");
    waits("shard.bin is still open for writing (5 bytes so far)");
    close(shard);
    waits(NULL);
    close(deep);
    close(notes);
}

Test(model_file, network_file_systems_tell_nothing_by_a_lease)
{
    cr_expect(upload_lease_tells(EXT4_SUPER_MAGIC) && upload_lease_tells(TMPFS_MAGIC));
    cr_expect(!upload_lease_tells(NFS_SUPER_MAGIC) && !upload_lease_tells(CIFS_SUPER_MAGIC) &&
              !upload_lease_tells(SMB2_SUPER_MAGIC));
}

/* ---- memory of this process ---- */

Test(stats, resident_memory_is_counted_in_bytes)
{
    uint64_t before = stats_rss_bytes();
    char *block = malloc(64u << 20);
    cr_assert_not_null(block);
    memset(block, 1, 64u << 20);
    uint64_t after = stats_rss_bytes();
    cr_expect(before > 1u << 19 && before < UINT64_C(1) << 34, "%zu", (size_t)before);
    cr_expect(after >= before + (60u << 20) && after < before + (100u << 20), "%zu after %zu", (size_t)after,
              (size_t)before);
    cr_expect_eq(block[12345], 1);
    free(block);
}
