/* The last pictures for the dashboard: what is kept, in which bounds, and who may hold it how long. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "metrics_writer.h"
#include "preview.h"
#include "preview_write.h"

static struct previews *previews;

static void begin(void)
{
    previews = previews_new();
}

static void end(void)
{
    previews_free(previews);
}

TestSuite(preview, .init = begin, .fini = end);

/* A picture of that many bytes, with an answer of 2. */
static void keep(const char *model, uint64_t at_us, size_t bytes)
{
    struct preview p = {.version = 3, .job = {7, at_us}, .type = "image/png", .ended_us = at_us};
    snprintf(p.model, sizeof p.model, "%s", model);
    zmq_msg_init_size(&p.picture.frame, bytes + 4);
    memset(zmq_msg_data(&p.picture.frame), (int)('a' + at_us % 26), bytes + 4);
    zmq_msg_init_size(&p.answer.frame, 2);
    memcpy(zmq_msg_data(&p.answer.frame), "{}", 2);
    p.picture.at = 4;
    p.picture.bytes = bytes;
    p.answer.bytes = 2;
    previews_keep(previews, &p);
}

static size_t list(struct preview rows[PREVIEWS_MAX])
{
    return previews_list(previews, rows);
}

Test(preview, the_newest_comes_first_with_its_bytes)
{
    static struct preview rows[PREVIEWS_MAX];
    struct preview one;
    keep("cats", 1, 10);
    keep("dogs", 2, 20);
    cr_assert_eq(list(rows), 2u);
    cr_expect_str_eq(rows[0].model, "dogs");
    cr_expect_eq(rows[0].picture.bytes, 20u);
    cr_assert(previews_take(previews, rows[1].serial, &one));
    cr_expect(memcmp(preview_bytes(&one.picture), "bbbbbbbbbb", 10) == 0);
    cr_expect(memcmp(preview_bytes(&one.answer), "{}", 2) == 0);
    preview_fini(&one);
    cr_expect_not(previews_take(previews, 99, &one));
}

Test(preview, a_model_has_six_and_changes_four_times_a_second)
{
    static struct preview rows[PREVIEWS_MAX];
    for (uint64_t i = 0; i < PREVIEWS_OF_MODEL; i++) {
        cr_expect(previews_due(previews, "cats", 3, 100));
        keep("cats", 100 + i, 10);
    }
    cr_expect_not(previews_due(previews, "cats", 3, 105 + PREVIEW_GAP_US - 1));
    cr_expect(previews_due(previews, "cats", 3, 105 + PREVIEW_GAP_US));
    cr_expect(previews_due(previews, "cats", 4, 106), "another version");
    cr_expect(previews_due(previews, "dogs", 3, 106));
    keep("dogs", 50, 10);
    keep("cats", 200, 10);
    cr_assert_eq(list(rows), PREVIEWS_OF_MODEL + 1);
    cr_expect_eq(rows[0].ended_us, 200u);
    cr_expect_eq(rows[1].ended_us, 50u, "another model's stays");
    cr_expect_eq(rows[PREVIEWS_OF_MODEL].ended_us, 101u, "the model's oldest is gone");
}

Test(preview, all_together_have_their_bounds)
{
    static struct preview rows[PREVIEWS_MAX];
    char name[32];
    keep("huge", 1, PREVIEW_BYTES_MAX);
    cr_expect_eq(list(rows), 0u, "too large to be kept");
    for (uint64_t i = 0; i < 2 * PREVIEWS_MAX; i++) {
        snprintf(name, sizeof name, "model-%llu", (unsigned long long)i);
        keep(name, i, 1000);
    }
    cr_expect_eq(list(rows), PREVIEWS_MAX);
    cr_expect_eq(rows[PREVIEWS_MAX - 1].ended_us, PREVIEWS_MAX, "the oldest are gone");
    for (uint64_t i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "large-%llu", (unsigned long long)i);
        keep(name, 1000 + i, PREVIEW_BYTES_MAX - 100);
    }
    size_t count = list(rows), bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += rows[i].picture.bytes;
    cr_expect_leq(bytes, PREVIEWS_BYTES);
    cr_expect_eq(rows[0].ended_us, 1019u);
    cr_expect_geq(count, PREVIEWS_BYTES / PREVIEW_BYTES_MAX);
}

/* A page holds a picture while the broker drops it. */
Test(preview, who_has_one_keeps_its_bytes)
{
    static struct preview rows[PREVIEWS_MAX];
    struct preview one;
    keep("cats", 1, 5000);
    list(rows);
    cr_assert(previews_take(previews, rows[0].serial, &one));
    for (uint64_t i = 0; i < PREVIEWS_OF_MODEL; i++)
        keep("cats", 10 + i, 10);
    list(rows);
    cr_expect_eq(rows[PREVIEWS_OF_MODEL - 1].ended_us, 10u);
    const char *bytes = preview_bytes(&one.picture);
    cr_expect(bytes[0] == 'b' && bytes[4999] == 'b');
    preview_fini(&one);
}

Test(preview, only_files_of_pictures_have_a_type)
{
    cr_expect_str_eq(preview_type((const uint8_t *)"\xff\xd8\xff\xe0", 4), "image/jpeg");
    cr_expect_str_eq(preview_type((const uint8_t *)"RIFF....WEBPVP8 ", 16), "image/webp");
    cr_expect_null(preview_type((const uint8_t *)"RIFF....WAVE", 12));
    cr_expect_null(preview_type((const uint8_t *)"\x89PN", 3));
    cr_expect_null(preview_type((const uint8_t *)"<html>", 6));
}

Test(preview, the_list_escapes_names)
{
    struct writer w = {.text = NULL};
    keep("a\"</script>", 9, 1);
    preview_write(previews, &w);
    cr_expect_str_eq(
        w.text, "{\"previews\":[{\"id\":1,\"model\":\"a\\\"</script>\",\"version\":3,\"job\":\"0000000000000007-9\","
                "\"ended_us\":9,\"type\":\"image/png\",\"bytes\":1}]}\n");
    writer_fini(&w);
    w = (struct writer){.text = NULL};
    preview_write(NULL, &w);
    cr_expect_str_eq(w.text, "{\"previews\":[]}\n");
    writer_fini(&w);
}
