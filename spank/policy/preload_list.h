/*
 * The value of LD_PRELOAD: a list with colons or blanks between its entries, in which our library takes its place and
 * from which it is taken again. Pure.
 */
#pragma once

/* The beginning of an entry by descriptor. */
#define PRELOAD_BY_DESCRIPTOR "/proc/self/fd/"

/*
 * Takes our entries out of list, whatever directory they name, and those by a descriptor of any process: in a new task
 * none but ours can mean anything (preload/process/named.h). The others keep their order. A list that has one of
 * ours has colons between its entries afterwards, any other stays as it is.
 */
void preload_list_strip(char *list);

/*
 * Returns list with library in front, the caller's to free; NULL without memory. Only what must be the first library
 * of a program, the shared runtimes of compilers' sanitizers, and what the user has put before that, stays before it.
 */
char *preload_list_add(const char *list, const char *library);
