/* Packs: what is written is read again, nothing goes past a limit, and whatever is not whole is refused with a sentence. */
#include <criterion/criterion.h>
#include <string.h>

#include "pack.h"

static struct pack_writer writer;
static struct pen_error error;

static void begin(void)
{
    pack_limit(&writer, pack_bytes_taken(0));
}

static void end(void)
{
    pack_fini(&writer);
}

TestSuite(pack, .init = begin, .fini = end);

/* A header frame of that type with `meta` bytes behind the envelope. */
static void add(enum frame_type type, size_t meta, bool more)
{
    uint8_t *to = pack_frame(&writer, FRAME_ENVELOPE_BYTES + meta, more);
    struct envelope env = envelope_make(type);
    cr_assert_not_null(to);
    env.meta_bytes = (uint32_t)meta;
    memset(envelope_encode(&env, to), 7, meta);
}

static enum pen_status sealed_open(struct pack_reader *reader, size_t *ret_bytes)
{
    struct envelope env;
    const uint8_t *meta;
    *ret_bytes = pack_seal(&writer);
    cr_assert(pack_is(writer.bytes, *ret_bytes));
    cr_assert_eq(envelope_decode(writer.bytes, *ret_bytes, &env, &meta, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(env.type, FRAME_PACK);
    return pack_reader_open(reader, meta, env.meta_bytes, &error);
}

Test(pack, messages_come_out_as_they_went_in)
{
    struct pack_reader reader;
    struct pack_item item;
    size_t bytes;
    add(FRAME_ACK, 0, false);
    add(FRAME_SUBMIT, 1000, true);
    memcpy(pack_frame(&writer, 3, false), "abc", 3);
    add(FRAME_PING, 0, true); /* not complete: it does not leave */
    cr_assert_eq(writer.messages, 2);
    cr_assert_null(pack_single(&writer, &bytes));
    cr_assert_eq(sealed_open(&reader, &bytes), PEN_OK, "%s", error.text);
    cr_assert(pack_next(&reader, &item) && item.bytes == 80 && !item.more && item.data[4] == FRAME_ACK);
    cr_assert(pack_next(&reader, &item) && item.bytes == 1080 && item.more && item.data[1079] == 7);
    cr_assert(pack_next(&reader, &item) && item.bytes == 3 && !item.more && memcmp(item.data, "abc", 3) == 0);
    cr_assert(!pack_next(&reader, &item));
}

Test(pack, one_frame_alone_needs_no_pack)
{
    size_t bytes = 0;
    cr_assert_null(pack_single(&writer, &bytes));
    add(FRAME_PING, 5, false);
    const uint8_t *single = pack_single(&writer, &bytes);
    cr_assert(single && bytes == 85 && single[4] == FRAME_PING);
    pack_clear(&writer);
    cr_assert_null(pack_single(&writer, &bytes));
}

Test(pack, nothing_goes_past_the_limits)
{
    cr_assert_eq(pack_place(&writer, 1, PACK_FRAME_BYTES_MAX + 1, PACK_FRAME_BYTES_MAX + 1), PACK_NEVER);
    cr_assert_null(pack_frame(&writer, PACK_FRAME_BYTES_MAX + 1, false));
    cr_assert_eq(pack_place(&writer, PACK_FRAMES_MAX + 1, 1, 1), PACK_NEVER);
    for (uint32_t i = 0; i < PACK_FRAMES_MAX; i++)
        add(FRAME_PING, 0, false);
    cr_assert(pack_soon(&writer));
    cr_assert_eq(pack_place(&writer, 1, 80, 80), PACK_LATER);
    cr_assert_null(pack_frame(&writer, 80, false), "a frame more than a reader takes");
    pack_limit(&writer, 1000);
    cr_assert_eq(writer.messages, 0, "what waited is dropped");
    cr_assert_eq(pack_place(&writer, 1, 1000 - 80 - 4, 900), PACK_NOW);
    cr_assert_eq(pack_place(&writer, 1, 1000 - 80 - 3, 900), PACK_NEVER);
    add(FRAME_PING, 500, false);
    cr_assert_eq(pack_place(&writer, 1, 800, 800), PACK_LATER);
    pack_limit(&writer, 0);
    cr_assert_eq(pack_place(&writer, 1, 80, 80), PACK_NEVER, "the peer takes none");
    cr_assert_eq(pack_bytes_taken(70000), 70000);
    cr_assert_eq(pack_bytes_taken(UINT64_MAX), FRAME_ENVELOPE_BYTES + FRAME_PACK_BYTES_MAX);
}

Test(pack, it_is_time_to_send_by_bytes_too)
{
    while (writer.whole < PACK_SOON_BYTES) {
        cr_assert(!pack_soon(&writer));
        add(FRAME_SUBMIT, 2000, false);
    }
    cr_assert(pack_soon(&writer));
    cr_assert_lt(writer.frames, PACK_SOON_FRAMES);
}

/* Each cut, and each flipped length, is refused or reads within the bytes. */
Test(pack, what_is_not_whole_is_refused)
{
    struct pack_reader reader;
    struct pack_item item;
    size_t bytes;
    add(FRAME_ACK, 3, false);
    add(FRAME_SUBMIT, 9, true);
    memset(pack_frame(&writer, 5, false), 1, 5);
    cr_assert_eq(sealed_open(&reader, &bytes), PEN_OK);
    const uint8_t *meta = writer.bytes + FRAME_ENVELOPE_BYTES;
    size_t whole = bytes - FRAME_ENVELOPE_BYTES;
    for (size_t cut = 0; cut < whole; cut++) {
        enum pen_status status = pack_reader_open(&reader, meta, cut, &error);
        cr_assert_eq(status, cut == 4 + 83 ? PEN_OK : PEN_ERR_CORRUPT, "cut at %zu",
                     cut); /* there the first one ends */
    }
    for (unsigned bit = 0; bit < 32; bit++) {
        writer.bytes[FRAME_ENVELOPE_BYTES + bit / 8] ^= (uint8_t)(1u << (bit % 8));
        if (pack_reader_open(&reader, meta, whole, &error) == PEN_OK)
            while (pack_next(&reader, &item))
                cr_assert(item.data + item.bytes <= meta + whole);
        writer.bytes[FRAME_ENVELOPE_BYTES + bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
}

Test(pack, no_pack_in_a_pack)
{
    struct pack_reader reader;
    size_t bytes;
    add(FRAME_ACK, 0, false);
    add(FRAME_PACK, 10, false);
    cr_assert_eq(sealed_open(&reader, &bytes), PEN_ERR_CORRUPT);
    cr_assert(strstr(error.text, "in it"), "%s", error.text);
}

Test(pack, more_frames_than_allowed_are_refused)
{
    static uint8_t meta[4 * (PACK_FRAMES_MAX + 1)]; /* empty frames */
    struct pack_reader reader;
    cr_assert_eq(pack_reader_open(&reader, meta, sizeof meta, &error), PEN_ERR_CORRUPT);
    cr_assert_eq(pack_reader_open(&reader, meta, sizeof meta - 4, &error), PEN_OK);
    cr_assert_eq(pack_reader_open(&reader, meta, 0, &error), PEN_ERR_CORRUPT);
}
