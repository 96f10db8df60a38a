/* What both ends of a transfer count: pieces, credit, and everything that a peer may say wrongly. */
#include <criterion/criterion.h>
#include <string.h>

#include "bulk.h"

static struct bulk sender, receiver;
static struct pen_error error;

/* Frames of these sizes, described out of order. */
static enum pen_status expect(const uint64_t *sizes, size_t count)
{
    static Penstock__TensorDesc descs[FRAME_MAX_TENSORS];
    Penstock__TensorDesc *pointers[FRAME_MAX_TENSORS];
    bulk_init(&sender, 5);
    for (size_t i = 0; i < count; i++) {
        penstock__tensor_desc__init(&descs[i]);
        descs[i].frame = (uint32_t)i + 1;
        descs[i].bytes = sizes[i];
        pointers[count - 1 - i] = &descs[i];
        bulk_add(&sender, sizes[i]);
    }
    return bulk_expect(&receiver, 5, pointers, count, count, 1u << 30, 1u << 30, &error);
}

Test(bulk_count, pieces_fill_every_frame_exactly)
{
    static const uint64_t sizes[] = {1, BULK_CHUNK_BYTES, 3 * BULK_CHUNK_BYTES + 7, 5000, 2 * BULK_WINDOW_BYTES};
    struct bulk_piece sent, taken;
    cr_assert_eq(expect(sizes, 5), PEN_OK, "%s", error.text);
    cr_assert_eq(receiver.total, sender.total);
    while (!bulk_done(&receiver)) {
        cr_assert(bulk_grant(&receiver), "credit before it is used up");
        cr_assert(bulk_credited(&sender, receiver.granted));
        uint64_t offset = sender.moved;
        while (bulk_next(&sender, &sent)) {
            cr_assert(sent.bytes > 0 && sent.bytes <= BULK_CHUNK_BYTES);
            cr_assert(bulk_accept(&receiver, offset, sent.bytes, &taken));
            cr_assert(sent.frame == taken.frame && sent.at == taken.at && sent.bytes == taken.bytes);
            cr_assert_leq(taken.at + taken.bytes, sizes[taken.frame]);
            offset = sender.moved;
        }
        cr_assert_leq(receiver.granted - receiver.moved, 0u, "the sender uses all it has");
    }
    cr_assert(bulk_done(&sender));
    cr_expect_not(bulk_next(&sender, &sent));
    cr_expect_not(bulk_accept(&receiver, receiver.moved, 1, &taken));
    cr_expect_not(bulk_grant(&receiver));
}

Test(bulk_count, what_is_not_the_next_piece_is_refused)
{
    static const uint64_t sizes[] = {1000, 5 * BULK_WINDOW_BYTES};
    struct bulk_piece piece;
    cr_assert_eq(expect(sizes, 2), PEN_OK);
    cr_expect_not(bulk_accept(&receiver, 0, 1000, &piece), "no credit yet");
    bulk_grant(&receiver);
    cr_expect_not(bulk_accept(&receiver, 1, 999, &piece), "a gap");
    cr_expect_not(bulk_accept(&receiver, 0, 1001, &piece), "over the end of a frame");
    cr_expect_not(bulk_accept(&receiver, 0, 0, &piece), "nothing");
    cr_expect(bulk_accept(&receiver, 0, 1000, &piece));
    cr_expect_not(bulk_accept(&receiver, 0, 1000, &piece), "twice");
    cr_expect_not(bulk_accept(&receiver, 1000, BULK_WINDOW_BYTES, &piece), "beyond the credit");
}

Test(bulk_count, credit_goes_forwards_and_not_beyond_the_end)
{
    static const uint64_t sizes[] = {1000};
    struct bulk_piece piece;
    cr_assert_eq(expect(sizes, 1), PEN_OK);
    cr_expect_not(bulk_credited(&sender, 1001));
    cr_expect(bulk_credited(&sender, 600));
    cr_expect_not(bulk_credited(&sender, 599));
    cr_assert(bulk_next(&sender, &piece));
    cr_expect_eq(piece.bytes, 600u);
    cr_expect_not(bulk_next(&sender, &piece));
}

Test(bulk_count, announcements_that_make_no_sense)
{
    Penstock__TensorDesc a = PENSTOCK__TENSOR_DESC__INIT, b = PENSTOCK__TENSOR_DESC__INIT, *both[] = {&a, &b};
    a.frame = b.frame = 1;
    a.bytes = b.bytes = 100;
    cr_expect_eq(bulk_expect(&receiver, 1, both, 2, 1, 0, 0, &error), PEN_ERR_CORRUPT, "one frame twice");
    b.frame = 3;
    cr_expect_eq(bulk_expect(&receiver, 1, both, 2, 2, 0, 0, &error), PEN_ERR_CORRUPT, "a frame beyond the last");
    b.frame = 0;
    cr_expect_eq(bulk_expect(&receiver, 1, both, 2, 2, 0, 0, &error), PEN_ERR_CORRUPT, "a frame of nobody");
    cr_expect_eq(bulk_expect(&receiver, 1, both, 2, 0, 0, 0, &error), PEN_ERR_CORRUPT, "no frames");
    cr_expect_eq(bulk_expect(&receiver, 1, both, 2, 1, 99, 0, &error), PEN_ERR_TOO_LARGE);
    cr_expect_eq(bulk_expect(&receiver, 1, both, 2, 1, 0, 99, &error), PEN_ERR_TOO_LARGE);
    b.frame = 2;
    a.bytes = b.bytes = UINT64_MAX - 5;
    cr_expect_eq(bulk_expect(&receiver, 1, both, 2, 2, 0, 0, &error), PEN_ERR_TOO_LARGE, "the sum exceeds 64 bits");
    a.bytes = 0;
    cr_expect_eq(bulk_expect(&receiver, 1, both, 2, 2, 0, 0, &error), PEN_ERR_CORRUPT, "an empty frame");
}
