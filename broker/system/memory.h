/*
 * memory.h - how this process asks the system for memory, and what it gives back.
 * Threads: owner.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>

/* Before anything else is allocated. */
void memory_tune(void);

/* Memory is short: large blocks get mappings of their own, which go back to the system when they are freed. Or it is not any more. Threads: any. */
void memory_spare(bool sparing);

/* The start, or a burst of jobs, is over: free memory and pages of code that only it needed are let go; what is needed again comes back from the page cache. */
void memory_settle(void);

#endif
