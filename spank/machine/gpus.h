/*
 * Whether this node has graphics processors: their energy is in no counter that is read here. Only read, from what
 * their drivers show.
 */
#pragma once

#include <stdbool.h>

/*
 * Returns true if the node has one of NVIDIA, AMD or Intel that a driver serves. The graphics of a processor itself do
 * not count, whose package has their energy, nor do those of a management controller or a virtual screen.
 */
bool gpus_there(void);
