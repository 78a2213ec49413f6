/*
 * The graphics processors of this node, by what their drivers show. meters.h reads the energy of some.
 */
#pragma once

#include <stdint.h>

/*
 * Returns how many the node has of NVIDIA, AMD and Intel that a driver serves. The graphics of a processor itself do
 * not count, whose package has their energy, nor do those of a management controller or a virtual screen.
 */
uint32_t gpus_count(void);

/* Returns how many of them NVIDIA's own driver serves. */
uint32_t gpus_of_nvidia(void);

/* Returns how many of them are AMD's. */
uint32_t gpus_of_amd(void);
