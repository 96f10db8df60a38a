/*
 * kernels.h - which family of kernels runs a product: rules per class of device, refined by a table that was measured on the device (tune.h).
 *
 * A product y[rows, outs] = a[rows, depth] w[depth, outs] is a convolution's, a matrix product's, that of codes of few bits, one of a batch of matrix products, or of
 * bytes: of a convolution or of matrices. Products are sorted into classes by kind and size; the table has one family per class.
 * Threads: any (pure functions over plain data).
 */
#ifndef VULKAN_KERNELS_H
#define VULKAN_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/vulkan/coopmat2.h"
#include "penstock/engine.h"

enum vk_family {
    VK_FAMILY_AUTO,   /* in a table: not measured */
    VK_FAMILY_SIMPLE, /* no shared memory */
    VK_FAMILY_TILED,  /* tiles pass through shared memory */
    VK_FAMILY_GEMV,   /* a workgroup shares the depth of a few rows or columns */
    VK_FAMILY_SPLIT,  /* tiled, the depth cut in pieces whose sums are added in a fixed order */
    VK_FAMILY_CM,     /* cooperative matrices: f16 or bf16 in, f32 sums; bytes in, sums of 32 bits */
    VK_FAMILY_CM2,    /* the same, of a whole workgroup */
    VK_FAMILY_COUNT
};
const char *vk_family_name(enum vk_family family); /* "auto", "simple", "tiled", "gemv", "split", "cm", "cm2" */
/* False when there is no family of this name. NULL is auto. */
bool vk_family_read(const char *name, enum vk_family *ret_family);

/* Kernels of convolutions. */
enum vk_conv { VK_CONV_AUTO, VK_CONV_DIRECT, VK_CONV_GEMM, VK_CONV_WINOGRAD, VK_CONV_CM, VK_CONV_COUNT };
/* "auto", "direct", "gemm", "winograd", "cm"; NULL is auto. False when there are none of this name. */
bool vk_conv_read(const char *name, enum vk_conv *ret_conv);

/* CODES: of a matrix and weights of few bits. */
enum vk_product_kind {
    VK_PRODUCT_MATRIX,
    VK_PRODUCT_WINDOW,
    VK_PRODUCT_BATCH,
    VK_PRODUCT_CODES,
    VK_PRODUCT_BYTES,        /* as MATRIX, of u8 and i8 */
    VK_PRODUCT_BYTE_WINDOWS, /* as WINDOW */
    VK_PRODUCT_KINDS
};
bool vk_kind_bytes(enum vk_product_kind kind);

/* groups: of a convolution, or matrices of a batch; the other sizes are those of one. */
struct vk_product_shape {
    enum vk_product_kind kind;
    size_t rows, outs, depth, groups;
};

#define VK_ROW_BANDS   5
#define VK_OUT_BANDS   5
#define VK_DEPTH_BANDS 4
#define VK_CLASSES     (VK_PRODUCT_KINDS * VK_ROW_BANDS * VK_OUT_BANDS * VK_DEPTH_BANDS)
uint32_t vk_class_of(const struct vk_product_shape *shape); /* < VK_CLASSES */
enum vk_product_kind vk_class_kind(uint32_t class_index);
/* "matrix rows 9-64 outs 129-512 depth 256-2047" */
void vk_class_text(uint32_t class_index, char *text, size_t bytes);

enum vk_off {
    VK_OFF_WINDOWS = 1,
    VK_OFF_DEPTHWISE = 2,
    VK_OFF_POOLS = 4,
    VK_OFF_CODES = 8,
    VK_OFF_WINOGRAD = 16, /* other kernels run these convolutions */
    VK_OFF_ATTENTION = 32 /* by matrices: the kernel without them runs it */
};

/* What devices differ in, as far as defaults go. */
enum vk_device_class { VK_CLASS_SOFTWARE, VK_CLASS_NVIDIA, VK_CLASS_AMD, VK_CLASS_INTEL, VK_CLASS_OTHER };
enum vk_device_class vk_device_class_of(uint32_t vendor_id, bool software);
const char *vk_device_class_name(enum vk_device_class class_of);

/* What the weights of a product are: it decides what a tile of family `cm` takes. */
enum vk_weights_of { VK_WEIGHTS_FLOATS, VK_WEIGHTS_BYTES, VK_WEIGHTS_CODES };

struct vk_kernels {
    enum vk_device_class device;
    enum vk_family only; /* AUTO, or the one asked for wherever it can run */
    enum vk_conv conv;   /* for a convolution: which kernels, before `only`; AUTO for other products */
    bool cm;             /* the device has the matrices and the precision wants them */
    bool cm_bytes;       /* the same for products of bytes */
    enum vk_weights_of weights;
    bool cm2; /* and those of a workgroup */
    uint32_t
        subgroup; /* of the device; its most invocations of a workgroup, its bytes of shared memory: 0 = at least what a tile of 64 x 64 takes */
    uint32_t invocations, shared_bytes;
    uint32_t matrix_rows, matrix_outs, matrix_depth; /* of a cooperative matrix; 0 = 16 */
    struct vk_granule cm2_granules[VK_GRANULES];     /* of family `cm2`, as cm2_side_most */
    uint32_t cm2_side_most;
    uint32_t cm2_off;          /* bit 1u << number: its tiles that failed their self-test */
    uint32_t splits;           /* of families `cm` and `cm2`: pieces of the depth; 0 = by the rules */
    uint32_t tile;             /* as in vk_tuned_of, where it fits; 0 = as tuned, else by the rules */
    uint8_t tuned[VK_CLASSES]; /* vk_tuned_of */
    uint32_t families_off;     /* bit 1u << family: those of products of floats that failed their self-test */
    uint32_t bytes_off;        /* kernels of products of bytes that did: vk_bytes_bit */
    uint32_t windows_off;      /* as families_off, of products of windows alone */
    uint32_t codes_off;        /* as families_off, which is not asked: of products with codes of few bits */
    uint32_t ops_off;          /* enum vk_off: operators that the device computes wrong by every kernel */
};

/*
 * One entry of the table: a family, and for `cm` and `cm2` 1 + the number of its tile; 0 = by the rules. For bytes by another family 1: its plain kernels, also where
 * the device multiplies four at once.
 */
uint8_t vk_tuned_of(enum vk_family family, uint32_t tile);
enum vk_family vk_tuned_family(uint8_t tuned);
bool vk_tuned_valid(enum vk_product_kind kind, uint8_t tuned);

/* Tiles of a family: 0 of those that have none. */
uint32_t vk_tiles_of(enum vk_family family);
/* Its plain kernels were asked for, or are what the table has. */
bool vk_plain_asked(const struct vk_kernels *k, enum vk_family family, const struct vk_product_shape *shape);
bool vk_tile_fits(const struct vk_kernels *k, enum vk_family family, uint32_t number);
/* Of family `cm`. */
uint32_t vk_cm_tiles(void);
/* The tile fits the device's limits. */
bool vk_cm_tile_fits(const struct vk_kernels *k, uint32_t number);
/* By self-tests: each that the rules may choose on this class of devices; of those that compute on the CPU, which compile large ones for minutes, the smallest. */
bool vk_cm_tile_tried(const struct vk_kernels *k, uint32_t number);
/* "cm 128x128x32", "cm2 128x256x64"; of other families their name, "tiled plain" of plain kernels of bytes. */
void vk_tuned_text(enum vk_product_kind kind, uint8_t tuned, char *text, size_t bytes);

/* dot: those that multiply four bytes at once. Families SIMPLE, TILED and GEMV have kernels of bytes, CM plain ones. */
static inline uint32_t vk_bytes_bit(enum vk_family family, bool dot)
{
    return 1u << (2u * (uint32_t)family + (dot ? 1u : 0u));
}

struct vk_choice {
    enum vk_family family;
    uint32_t tile;        /* rows of an invocation; CM, CM2: of a workgroup, 32 to 256 */
    uint32_t splits;      /* SPLIT, CM, CM2: pieces of the depth; else 1 */
    uint32_t outs;        /* CM, CM2: outputs of a workgroup, 32 to 256 */
    uint32_t width;       /* CM: outputs of a subgroup, 32 or 64 */
    uint32_t down;        /* CM: rows of subgroups */
    uint32_t depth;       /* CM, CM2: of a step, 16 to 64; of bytes 32 to 128 */
    uint32_t stages;      /* CM: of shared memory, 1 or 2 */
    uint32_t swizzle;     /* CM, CM2: rows of tiles in a band of workgroups; 0 = no bands */
    uint32_t invocations; /* CM2: of a workgroup */
};

/*
 * Into how many pieces work is cut that gives so few workgroups, at most `most` and 16: 1 where they fill half of the device, or it computes on the CPU. `splits` of k
 * says so first.
 */
uint32_t vk_pieces_of(const struct vk_kernels *k, size_t workgroups, size_t most);
/* The family can run this shape at all. */
bool vk_family_fits(const struct vk_kernels *k, enum vk_family family, const struct vk_product_shape *shape);
/* The family with the tile and the pieces that suit the shape. */
struct vk_choice vk_choice_of(const struct vk_kernels *k, enum vk_family family, const struct vk_product_shape *shape);
/* What vk_choose went by for this shape. */
enum vk_chosen_by { VK_BY_NONE, VK_BY_RULE, VK_BY_TABLE, VK_BY_NAME, VK_BY_PRODUCT /* of another node */ };
enum vk_chosen_by vk_choose_by(const struct vk_kernels *k, const struct vk_product_shape *shape);
/* For convolutions what `conv` says, then `only` where it fits, else the table where its entry fits, else the rules of the device's class. */
struct vk_choice vk_choose(const struct vk_kernels *k, const struct vk_product_shape *shape);

#endif
