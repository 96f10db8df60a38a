/*
 * reroute.h - jobs that named no version and wait for one that has gone away go on with another.
 *
 * At once when a worker withdrew the version; when its workers were lost, after half of --worker-wait (they may come back).
 * Threads: owner.
 */
#ifndef REROUTE_H
#define REROUTE_H

struct broker;

void reroute_some(struct broker *broker);

#endif
