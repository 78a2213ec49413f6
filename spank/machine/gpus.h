/* GPUs: counts the graphics processors of this node, by what their drivers show. meters.h reads the energy of some. */
#pragma once

#include <stdint.h>

#define GPUS_DRM       "/sys/class/drm"
#define GPUS_MINOR_MAX 4095

/*
 * Returns the number of graphics processors of NVIDIA, AMD and Intel with a driver. Graphics inside a processor do not
 * count, because its package has their energy; nor do those of management controllers and virtual screens.
 */
uint32_t gpus_count(void);

/* Returns the number of devices that NVIDIA's own driver serves. */
uint32_t gpus_of_nvidia(void);

/* Returns the number of AMD's devices. */
uint32_t gpus_of_amd(void);

/*
 * Writes the numbers N of /dev/dri/renderDN of Intel's devices, ascending, `most` at most. Returns how many. Graphics
 * inside a processor are left out.
 */
uint32_t gpus_of_intel(uint32_t ret_minors[], uint32_t most);
