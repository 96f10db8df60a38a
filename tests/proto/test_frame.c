#include "frame.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static uint8_t frame[FRAME_ENVELOPE_BYTES + 64];
static struct envelope env;
static const uint8_t *meta;
static struct pen_error error;

static void make(enum frame_type type, uint32_t meta_bytes)
{
    env = envelope_make(type);
    env.job = (struct job_id){5, 6};
    env.meta_bytes = meta_bytes;
    envelope_encode(&env, frame);
}

static enum pen_status decode(size_t size)
{
    memset(&error, 0, sizeof error);
    return envelope_decode(frame, size, &env, &meta, &error);
}

Test(frame, every_field_survives_the_round_trip)
{
    struct envelope in = envelope_make(FRAME_RESULT), out;
    in.flags = 0x8021;
    in.job = (struct job_id){0x0102030405060708u, UINT64_MAX};
    for (uint8_t i = 0; i < 16; i++)
        in.digest.bytes[i] = (uint8_t)(i + 100);
    in.model_hash = 0x1111222233334444u;
    in.sequence_id = 0x5555666677778888u;
    in.deadline_us = 0x99990000AAAABBBBu;
    in.tenant_hash = 0xCAFEBABEu;
    in.priority = 255;
    in.precision = PRECISION_INT8;
    in.status = PEN_ERR_INTERNAL;
    in.frames = 64;
    in.meta_bytes = 64;
    envelope_encode(&in, frame);
    cr_assert_eq(envelope_decode(frame, sizeof frame, &out, &meta, NULL), PEN_OK);
    cr_assert_eq(meta, frame + 80);
    uint8_t again[FRAME_ENVELOPE_BYTES];
    envelope_encode(&out, again);
    cr_assert_eq(memcmp(frame, again, sizeof again), 0);
    cr_assert_eq(out.job.client, in.job.client);
    cr_assert_eq(out.tenant_hash, in.tenant_hash);
    cr_assert_eq(out.deadline_us, in.deadline_us);
    cr_assert_eq(frame[8], 8, "little-endian");
}

Test(frame, every_truncation_is_refused_without_reading_past_it)
{
    make(FRAME_SUBMIT, 64);
    for (size_t size = 0; size < sizeof frame; size++) {
        uint8_t *exact = malloc(size ? size : 1); /* under ASan a byte too far is seen */
        memcpy(exact, frame, size);
        cr_assert_eq(envelope_decode(exact, size, &env, &meta, &error), PEN_ERR_CORRUPT, "size %zu", size);
        free(exact);
    }
    cr_assert_eq(decode(sizeof frame), PEN_OK);
}

Test(frame, bad_magic_and_other_major)
{
    make(FRAME_SUBMIT, 0);
    frame[0] = 'X';
    cr_assert_eq(decode(80), PEN_ERR_CORRUPT);
    frame[0] = 'P';
    frame[2] = 2;
    frame[3] = 7;
    cr_assert_eq(decode(80), PEN_ERR_VERSION);
    cr_assert(strstr(error.text, "2.7") && strstr(error.text, "1.3"), "%s", error.text);
    cr_assert_eq(decode(4), PEN_ERR_VERSION, "another major may have a shorter envelope");
}

Test(frame, newer_minor_may_be_longer_and_hold_unknown_values)
{
    make(FRAME_PING, 24);
    frame[3] = FRAME_VERSION_MINOR + 1;
    frame[5] = 88;
    cr_assert_eq(decode(80 + 32), PEN_OK);
    cr_assert_eq(meta, frame + 88);
    cr_assert_eq(env.minor, FRAME_VERSION_MINOR + 1);
    frame[4] = 77;
    cr_assert_eq(decode(80 + 32), PEN_ERR_UNSUPPORTED);
    frame[4] = FRAME_PING;
    frame[69] = 99;
    cr_assert_eq(decode(80 + 32), PEN_ERR_UNSUPPORTED);
    frame[69] = 0;
    frame[70] = 99;
    cr_assert_eq(decode(80 + 32), PEN_OK);
    cr_assert_eq(env.status, PEN_ERR_INTERNAL);
}

Test(frame, equal_minor_must_not_be_longer_nor_hold_unknown_values)
{
    static const struct {
        size_t at;
        uint8_t value;
    } faults[] = {{4, 0}, {4, FRAME_TYPE_COUNT}, {5, 79}, {5, 81}, {5, 0}, {69, PRECISION_COUNT}};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        make(FRAME_RESULT, 0);
        cr_assert_eq(decode(80), PEN_OK);
        frame[faults[i].at] = faults[i].value;
        cr_assert_eq(decode(80), PEN_ERR_CORRUPT, "fault %zu", i);
        cr_assert(error.text[0]);
    }
}

Test(frame, an_unknown_status_of_any_minor_is_a_failure_that_keeps_its_number)
{
    for (int minor = 0; minor <= FRAME_VERSION_MINOR + 1; minor++) {
        make(FRAME_RESULT, 0);
        frame[3] = (uint8_t)minor;
        frame[70] = 200;
        cr_assert_eq(decode(80), PEN_OK, "minor %d: its job must be answered", minor);
        cr_assert_eq(env.status, PEN_ERR_INTERNAL);
        cr_assert_eq(env.status_told, 200);
        cr_assert(envelope_status_unknown(&env));
    }
    make(FRAME_RESULT, 0);
    frame[70] = PEN_ERR_BUSY;
    cr_assert_eq(decode(80), PEN_OK);
    cr_assert_eq(env.status, PEN_ERR_BUSY);
    cr_assert_not(envelope_status_unknown(&env));
}

Test(frame, beyond_a_cap_the_job_id_is_still_given)
{
    make(FRAME_SUBMIT, 0);
    frame[71] = 65;
    memset(&env, 0, sizeof env);
    cr_assert_eq(decode(80), PEN_ERR_TOO_LARGE);
    cr_assert_eq(env.job.sequence, 6);

    size_t size = FRAME_ENVELOPE_BYTES + FRAME_META_BYTES_MAX + 1;
    uint8_t *big = calloc(1, size);
    make(FRAME_SUBMIT, FRAME_META_BYTES_MAX + 1);
    memcpy(big, frame, 80);
    cr_assert_eq(envelope_decode(big, size, &env, &meta, &error), PEN_ERR_TOO_LARGE);
    make(FRAME_SUBMIT, FRAME_META_BYTES_MAX);
    memcpy(big, frame, 80);
    cr_assert_eq(envelope_decode(big, size - 1, &env, &meta, &error), PEN_OK);
    make(FRAME_WORKER_HELLO, FRAME_META_BYTES_MAX + 1);
    memcpy(big, frame, 80);
    cr_assert_eq(envelope_decode(big, size, &env, &meta, &error), PEN_OK);
    free(big);
}

Test(frame, jobs_need_an_id_and_only_jobs_carry_tensors)
{
    make(FRAME_CANCEL, 0);
    frame[16] = 0;
    cr_assert_eq(decode(80), PEN_ERR_CORRUPT);
    make(FRAME_HEARTBEAT, 0);
    cr_assert_eq(decode(80), PEN_OK);
    frame[71] = 1;
    cr_assert_eq(decode(80), PEN_ERR_CORRUPT);
    cr_assert(strstr(error.text, "HEARTBEAT"));
}

Test(frame, names_of_types)
{
    for (unsigned i = 1; i < FRAME_TYPE_COUNT; i++)
        cr_assert_str_neq(frame_type_name((uint8_t)i), "UNKNOWN");
    cr_assert_str_eq(frame_type_name(0), "UNKNOWN");
    cr_assert_str_eq(frame_type_name(200), "UNKNOWN");
}

Test(frame, each_precision_has_one_name_everywhere)
{
    char choices[128] = "";
    for (unsigned i = 0; i < PRECISION_COUNT; i++) {
        cr_assert_eq(precision_find(precision_name(i)), (int)i);
        snprintf(choices + strlen(choices), sizeof choices - strlen(choices), "%s%s", i > 0 ? "|" : "",
                 precision_name(i));
    }
    cr_assert_str_eq(choices, PRECISION_CHOICES, "as settings offer them");
    cr_assert_str_eq(choices, "any|f32|f16_storage|f16_mma|f16_math|bf16|int8", "wire values: appended, never moved");
    cr_assert_eq(precision_find("fp32"), -1);
    cr_assert_eq(precision_find(NULL), -1);
    cr_assert_str_eq(precision_name(PRECISION_COUNT), "unknown");
}

Test(frame, name_hash_is_xxh3_64)
{
    cr_assert_eq(frame_name_hash(NULL), 0);
    cr_assert_eq(frame_name_hash(""), 0);
    cr_assert_eq(frame_name_hash("abc"), 0x78AF5F94892F3950u);
}

Test(frame, transfer_travels_and_is_nothing_to_version_1_0)
{
    struct envelope one = envelope_make(FRAME_SUBMIT), back;
    uint8_t bytes[FRAME_ENVELOPE_BYTES];
    const uint8_t *at;
    one.job = (struct job_id){1, 2};
    one.frames = 1;
    one.transfer = 0x01020304;
    envelope_encode(&one, bytes);
    cr_assert_eq(envelope_decode(bytes, sizeof bytes, &back, &at, NULL), PEN_OK);
    cr_expect_eq(back.transfer, 0x01020304u);
    bytes[3] = 0;
    cr_assert_eq(envelope_decode(bytes, sizeof bytes, &back, &at, NULL), PEN_OK);
    cr_expect_eq(back.transfer, 0u);
}

Test(frame, single_fields_are_read_and_written_where_they_stand)
{
    make(FRAME_SUBMIT, 64);
    struct envelope in = env, out;
    in.deadline_us = UINT64_C(0x0102030405060708);
    in.priority = 3;
    in.flags = FRAME_FLAG_NO_CACHE;
    cr_assert_eq(envelope_encode(&in, frame), frame + FRAME_ENVELOPE_BYTES);
    cr_assert_eq(frame_meta(frame), frame + FRAME_ENVELOPE_BYTES);
    cr_assert_eq(frame_deadline_us(frame), in.deadline_us);
    cr_assert_eq(frame_priority(frame), 3);
    frame_set_deadline_us(frame, 77);
    frame_add_flags(frame, FRAME_FLAG_ALONE);
    frame_set_transfer(frame, 0xA0B0C0D0u);
    cr_assert_eq(envelope_decode(frame, sizeof frame, &out, &meta, NULL), PEN_OK);
    cr_assert_eq(out.deadline_us, 77);
    cr_assert_eq(out.flags, FRAME_FLAG_NO_CACHE | FRAME_FLAG_ALONE);
    cr_assert_eq(out.transfer, 0xA0B0C0D0u);
    in.deadline_us = out.deadline_us;
    in.flags = out.flags;
    in.transfer = out.transfer;
    uint8_t again[FRAME_ENVELOPE_BYTES];
    envelope_encode(&in, again);
    cr_assert_arr_eq(frame, again, sizeof again, "and nothing else was touched");
}

Test(frame, a_transfer_makes_a_header_of_1_0_one_of_ours)
{
    make(FRAME_SUBMIT, 64);
    struct envelope in = env, out;
    in.minor = 0;
    envelope_encode(&in, frame);
    frame_set_transfer(frame, 0);
    cr_assert_eq(envelope_decode(frame, sizeof frame, &out, &meta, NULL), PEN_OK);
    cr_assert_eq(out.minor, 0, "nothing to say");
    frame_set_transfer(frame, 5);
    cr_assert_eq(envelope_decode(frame, sizeof frame, &out, &meta, NULL), PEN_OK);
    cr_assert_eq(out.minor, FRAME_VERSION_MINOR);
    cr_assert_eq(out.transfer, 5);
}
