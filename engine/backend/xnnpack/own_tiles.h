/*
 * own_tiles.h - products in AMX tiles: 16 rows of 64 bytes each, multiplied by an instruction of their own (Intel's "Architecture Instruction Set Extensions", chapter
 * 3).
 *
 * Compiled for AVX-512 with AMX alone; isa_tiles() says whether processor and kernel have them. All eight tiles always have all rows and bytes: another shape takes a
 * configuration, which costs as much as five products, and rows that are left out save nothing.
 * Threads: any; a thread that multiplies calls own_tiles_begin first and own_tiles_end at last, or it drags 8 KiB through each change of threads.
 */
#ifndef XNNPACK_OWN_TILES_H
#define XNNPACK_OWN_TILES_H

#include "backend/xnnpack/own.h"
#include "backend/xnnpack/own_int.h"

#define OWN_TILES_MR 32 /* rows of one call: two tiles */
#define OWN_TILES_NR 32 /* columns of a panel: two tiles */
#define OWN_TILES_K  16 /* words of a tile's row: pairs of bf16, or four bytes */

void own_tiles_begin(void);
void own_tiles_end(void);

/*
 * As own_gemm_pairs, for up to OWN_TILES_MR rows: `split` of them from x on, the others from `more` on. k is a multiple of OWN_TILES_K: what fills the last ones is 0
 * in x and in w. From either place 16 rows are read, whatever m is; none from `more` on where m is at most `split`.
 */
void own_gemm_tiles(const struct gemm_tile *t);

/* The largest of n >= 1 numbers; with NaN among them any of them, but NaN where there is nothing else. */
float own_tiles_largest(const float *x, size_t n);
/* Pairs of exp(x - shift), 0 below 2^-125, each rounded to bf16, up to the end of a tile's row: what fills it is 0. The sum, before rounding. NaN passes. */
float own_tiles_shares(const float *x, uint32_t *pairs, size_t n, float shift);

#define OWN_TILES_RUNS 8 /* the most of int_tile.runs */

/* As own_int_product_vnni and own_bytes_vnni.tile, for at least 16 rows; up to 60 bytes behind the last word of each run are read, and count for nothing. */
void own_int_product_tiles(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y);
void own_int_tile_tiles(const struct int_tile *t);

#endif
