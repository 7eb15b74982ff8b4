/* SPDX-License-Identifier: Apache-2.0 */
/* The network: three convolutions, two dense layers; its weights are part of the program. */
#ifndef DIGITS_MODEL_H
#define DIGITS_MODEL_H

#include "arena.h"

struct model;

int model__new(struct arena *weights, struct tally *tally, struct model **out);
void model__free(struct model *m);

/*
 * @images: @n images of 64 pixels. Of each, @views copies run through the network, moved by up to
 * one pixel, and their logits are averaged. @logits and @probabilities: @n rows of 10.
 * Memory comes from @arena and is back when this returns. -ENOMEM is the only error.
 */
int model__forward(const struct model *m, struct arena *arena, uint32_t n,
		   const uint8_t *const *images, uint32_t views, float *logits,
		   float *probabilities);

#endif
