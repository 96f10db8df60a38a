/*
 * job_meta.h - the request digest of a job's message: client and worker compute it with the same code.
 *
 * Threads: any; the arena is one-at-a-time.
 */
#ifndef JOB_META_H
#define JOB_META_H

#include "digest.h"
#include "job.pb-c.h"
#include "penstock/status.h"
#include "penstock/tensor.h"
#include "tensor_codec.h"

#define PARAMETER_TEXT_BYTES 40 /* enough for every value that is no text */

/* The value of a parameter in the form that is hashed, for all kinds but text: "i:-5", "d:0x1.8p+1", "b:1". Returns
   text. A text value, or none, gives "s:". */
const char *parameter_text(const Penstock__Parameter *parameter, char text[PARAMETER_TEXT_BYTES]);

/*
 * The request digest of a job. inputs: the views of meta->inputs, in its order (tensors_decode). Texts are drawn from the arena.
 * PEN_ERR_INVALID: two inputs or two parameters of one name. PEN_ERR_TOO_LARGE: more than 64 of a kind. PEN_ERR_NO_MEMORY: arena full.
 */
enum pen_status job_meta_digest(enum digest_kind kind, const Penstock__JobMeta *meta, const struct pen_tensor *inputs,
                                struct meta_arena *arena, struct digest *ret_digest);

#endif
