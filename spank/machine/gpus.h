/*
 * The graphics processors of this node, by what their drivers show: their energy is in no counter that is read here.
 */
#pragma once

#include <stdbool.h>

/*
 * Returns true if the node has one of NVIDIA, AMD or Intel that a driver serves. The graphics of a processor itself do
 * not count, whose package has their energy, nor do those of a management controller or a virtual screen.
 */
bool gpus_there(void);
