/* Adds the preload library to the value of LD_PRELOAD, a list with colons or blanks, and removes it. Pure. */
#pragma once

/* An entry that names a descriptor begins like this. */
#define PRELOAD_BY_DESCRIPTOR "/proc/self/fd/"

/*
 * Removes the preload library from list, whatever directory it names, and every entry by descriptor: in a new task such
 * an entry can only be this plugin's (preload/process/named.h). The other entries keep their order. If an entry was
 * removed, colons separate the rest; else the list is untouched.
 */
void preload_list_strip(char *list);

/*
 * Returns a copy of list with the library in front, which the caller frees; NULL without memory. The shared runtimes of
 * compilers' sanitizers, which must come first in a program, stay before the library, with what precedes them.
 */
char *preload_list_add(const char *list, const char *library);
