#include "vectors_making.h"

#include <stdlib.h>
#include <string.h>

#include "tensor_codec.h"

static void make_damaged(const char *name, const char *about, size_t at, uint8_t value)
{
    Penstock__JobMeta meta = making_job();
    making_begin(about);
    making_group(making_example(FRAME_SUBMIT), &meta.base, &making_image, 1);
    making.vector.canonical = false;
    making.vector.frames[0].data[at] = value;
    making_end(name);
}

static void make_envelope_faults(void)
{
    make_damaged("bad_magic", "The first byte is not 'P'", 0, 'Q');
    make_damaged("wrong_major", "Major version 2: refused whatever follows", 2, 2);
    make_damaged("unknown_type", "A type that version 1.0 does not have", 4, 200);
    make_damaged("unknown_precision", "A precision class that version 1.0 does not have", 69, 100);
    make_damaged("unknown_status",
                 "A status that this version does not have: it reads as INTERNAL, and the job has its answer", 70, 100);
    make_damaged("envelope_too_long", "An envelope of 81 bytes, but version 1.0 has 80", 5, 81);
    make_damaged("too_many_frames", "65 raw frames announced; the job id can still be read and answered", 71, 65);
    make_damaged("reserved", "Bytes 76..79 are ignored by the reader", 76, 0xFF);
    make_damaged("unknown_flags", "Flags without a meaning are ignored", 7, 0xFF);

    Penstock__JobMeta meta = making_job();
    making_begin("Cut inside the envelope");
    making_group(making_example(FRAME_SUBMIT), &meta.base, &making_image, 1);
    making.vector.frames[0].bytes = 79;
    making.vector.canonical = false;
    making_end("truncated_envelope");
    making_begin("Cut inside the meta");
    making_group(making_example(FRAME_SUBMIT), &meta.base, &making_image, 1);
    making.vector.frames[0].bytes--;
    making.vector.canonical = false;
    making_end("truncated_meta");
    making_begin("SUBMIT without a job id");
    struct envelope env = making_example(FRAME_SUBMIT);
    env.job.sequence = 0;
    making_group(env, &meta.base, &making_image, 1);
    making.vector.canonical = false;
    making_end("no_job_id");
    making_begin("PING that announces a raw frame");
    env = envelope_make(FRAME_PING);
    env.frames = 1;
    making_header(env, NULL);
    making.vector.canonical = false;
    making_end("ping_with_frame");
}

static void make_meta_too_large(void)
{
    static uint8_t bytes[FRAME_ENVELOPE_BYTES + FRAME_META_BYTES_MAX + 1];
    struct envelope env = making_example(FRAME_SUBMIT);
    env.meta_bytes = FRAME_META_BYTES_MAX + 1;
    envelope_encode(&env, bytes);
    making_begin("A meta of 65537 bytes: one too many for SUBMIT; the job id can still be read and answered");
    vector_add(&making.vector, bytes, sizeof bytes);
    making.vector.canonical = false;
    making_end("meta_too_large");
}

/* A peer of version 1.9: an envelope of 96 bytes, a meta field and a status that this version does not have. */
static void make_newer_minor(void)
{
    static const uint8_t unknown_field[] = {0xA2, 0x06, 3, 'n', 'e', 'w'}; /* field 100, text */
    uint8_t bytes[512];
    Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
    meta.error = "a failure that was invented later";
    size_t meta_bytes = protobuf_c_message_pack(&meta.base, bytes + 96);
    memcpy(bytes + 96 + meta_bytes, unknown_field, sizeof unknown_field);
    meta_bytes += sizeof unknown_field;
    struct envelope env = making_example(FRAME_RESULT);
    env.minor = 9;
    env.status = 100;
    env.meta_bytes = (uint32_t)meta_bytes;
    envelope_encode(&env, bytes);
    bytes[5] = 96;
    memset(bytes + 80, 0xEE, 16);
    making_begin(
        "Version 1.9: a longer envelope, an unknown status (reads as INTERNAL) and an unknown meta field (skipped)");
    vector_add(&making.vector, bytes, 96 + meta_bytes);
    making.vector.canonical = false;
    making_end("newer_minor");
    bytes[4] = 200;
    making_begin("Version 1.9: an unknown message type is UNSUPPORTED, that is: skipped");
    vector_add(&making.vector, bytes, 96 + meta_bytes);
    making.vector.canonical = false;
    making_end("newer_minor_type");
}

/* Of our own version: the job ends INTERNAL all the same. */
static void make_unknown_result(void)
{
    Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
    struct envelope env = making_example(FRAME_RESULT);
    meta.error = "a failure that was never numbered";
    env.status = 200;
    making_begin("RESULT with a status that no version has: it reads as INTERNAL");
    making_group(env, &meta.base, NULL, 0);
    making.vector.canonical = false;
    making_end("result_unknown_status");
}

static void make_tensor_faults(void)
{
    static const struct pen_tensor raw[] = {{"a", PEN_DTYPE_U8, 1, {2049}, making_payload, 2049},
                                            {"b", PEN_DTYPE_U8, 1, {3}, making_payload, 3}};
    static const struct pen_tensor twins[] = {{"a", PEN_DTYPE_U8, 1, {1}, making_payload, 1},
                                              {"a", PEN_DTYPE_U8, 1, {1}, making_payload, 1}};
    static const struct pen_tensor misfit = {"a", PEN_DTYPE_F32, 1, {2}, making_payload, 7};
    Penstock__JobMeta meta = making_job();
    making_begin("The second raw frame is missing");
    making_group(making_example(FRAME_SUBMIT), &meta.base, raw, 2);
    free(making.vector.frames[--making.vector.frames_count].data);
    making.vector.canonical = false;
    making_end("raw_frame_missing");
    making_begin("A raw frame is a byte shorter than its descriptor says");
    making_group(making_example(FRAME_SUBMIT), &meta.base, raw, 2);
    making.vector.frames[1].bytes--;
    making.vector.canonical = false;
    making_end("raw_frame_short");
    making_begin("Two inputs of one name");
    making_group(making_example(FRAME_SUBMIT), &meta.base, twins, 2);
    making.vector.canonical = false;
    making_end("twin_names");
    making_begin("Seven bytes for two f32");
    making_group(making_example(FRAME_SUBMIT), &meta.base, &misfit, 1);
    making.vector.canonical = false;
    making_end("wrong_byte_count");
    making_begin("A meta that is no protobuf: field 1 claims more bytes than there are");
    uint8_t bytes[FRAME_ENVELOPE_BYTES + 2];
    struct envelope env = making_example(FRAME_SUBMIT);
    env.meta_bytes = 2;
    envelope_encode(&env, bytes);
    bytes[80] = 0x0A;
    bytes[81] = 0x7F;
    vector_add(&making.vector, bytes, sizeof bytes);
    making.vector.canonical = false;
    making_end("meta_malformed");
}

/* C would take "digits" for the model's name. */
static void make_meta_nul(void)
{
    Penstock__JobMeta meta = making_job();
    meta.model = "digits~evil";
    making_begin("A NUL byte in a text, \"digits\\0evil\": INVALID");
    making_group(making_example(FRAME_SUBMIT), &meta.base, &making_image, 1);
    making.vector.canonical = false;
    *(uint8_t *)memchr(making.vector.frames[0].data + FRAME_ENVELOPE_BYTES, '~', 64) = 0;
    making_end("meta_nul");
}

void vectors_faults_make(void)
{
    make_envelope_faults();
    make_meta_too_large();
    make_newer_minor();
    make_unknown_result();
    make_meta_nul();
    make_tensor_faults();
}
