/* Hashes words, one after the other. */
#pragma once

#include <stdint.h>

static inline uint64_t hash_add(uint64_t hash, uint64_t word)
{
	hash = (hash + 1) ^ word;
	hash ^= hash >> 32;
	hash *= UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}
