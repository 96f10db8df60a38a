/*
 * file_fault.h - the end of a worker whose model was written in place.
 *
 * A model that serves is mapped. Where its file is cut short, or cannot be read any more, reading it raises SIGBUS, and nothing can be computed instead: the
 * process ends (exit 1) with one line evt=file_fault that names the file, and the broker runs its jobs elsewhere.
 * Threads: one-at-a-time at start. Threads that block SIGBUS end without the line (signals_block does not).
 */
#ifndef FILE_FAULT_H
#define FILE_FAULT_H

void file_fault_install(void);

#endif
