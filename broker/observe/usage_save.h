/*
 * usage_save.h - hands what tenants have used since the last time to the file, and ends the hour.
 *
 * Lines hold what has been added since the last ones, so the sum of all lines of all brokers is what was used. A broker
 * that is killed loses what came after its last lines: at most --usage-every.
 * Threads: owner.
 */
#ifndef USAGE_SAVE_H
#define USAGE_SAVE_H

#include "broker_state.h"

void usage_beat(struct broker *broker); /* a few times a second */
void usage_save(struct broker *broker); /* now, all of it; does nothing without --usage-dir */

#endif
