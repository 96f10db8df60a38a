/*
 * engine_warn.h - what an engine found out about itself that an owner should hear of, though everything works.
 *
 * Threads: any.
 */
#ifndef ENGINE_WARN_H
#define ENGINE_WARN_H

#include <penstock/engine.h>

/*
 * Logs evt=tuning_ignored, evt=cache_unusable and evt=kernels_wrong: files of the device that cannot be used, so that default rules hold and starts take longer; and kernels that the
 * driver computes wrong, which others stand in for.
 */
void engine_warn(const struct pen_engine *engine);

#endif
