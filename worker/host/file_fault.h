/*
 * file_fault.h - ends a worker whose model file was changed while it is in use.
 *
 * The file of a served model is mapped into memory. When it is cut short or cannot be read any more, reading it raises
 * SIGBUS, and the model cannot be computed. The process then ends (exit 1) with one line evt=file_fault that names the
 * file, and the broker runs its jobs elsewhere.
 * Threads: one-at-a-time at start. Threads that block SIGBUS end without the line (signals_block does not).
 */
#ifndef FILE_FAULT_H
#define FILE_FAULT_H

void file_fault_install(void);

#endif
