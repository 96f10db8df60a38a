/*
 * build_id.h - which build of the engine this is: two builds whose code differs have different ids.
 *
 * The linker's note NT_GNU_BUILD_ID (a hash of the linked code) of the program or library that holds the engine; "none" where it was linked without one.
 * Threads: any.
 */
#ifndef BUILD_ID_H
#define BUILD_ID_H

const char *build_id(void); /* hex digits, 16 at most; static */

#endif
