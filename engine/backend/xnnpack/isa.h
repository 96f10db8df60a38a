/*
 * isa.h - what the processor can do and the table of vector kernels that fits it.
 *
 * Threads: any.
 */
#ifndef XNNPACK_ISA_H
#define XNNPACK_ISA_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/xnnpack/own.h"
#include "backend/xnnpack/own_int.h"
#include "penstock/engine.h"

/* Within a limit: "avx512", "avx2", "plain", part of the provenance of a result; the processor's own name with it in brackets. */
const char *isa_name(enum pen_isa most);
const char *isa_device(enum pen_isa most, char *text, size_t bytes);

/* The limit of all that follows, for as long as somebody has claimed it. PEN_ERR_BUSY while others have claimed another one. */
enum pen_status isa_claim(enum pen_isa most, struct pen_error *reterr);
void isa_release(void);

const struct own *isa_own(void);             /* the vector kernels for it */
const struct own_int *isa_int(void);         /* the integer kernels for it */
const struct own_bytes *isa_bytes(void);     /* NULL without vectors of bytes */
const struct int_product *isa_product(void); /* the best product of bytes */
own_lookup_fn isa_lookup(void);              /* bytes through a table */
bool isa_pairs(void);                        /* products of pairs of bf16 by an instruction */
bool isa_tiles(void);                        /* products in tiles (own_tiles.h), of bf16 and of bytes */
/* For one limit, before it is claimed. */
bool isa_pairs_within(enum pen_isa most);
bool isa_tiles_within(enum pen_isa most);
size_t isa_l2_bytes(void); /* of one core; 1 MiB when unknown */

#endif
