/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers. Activations lie channel by channel (C, N, H, W), so that a convolution of a whole
 * batch is one matrix product. Layers take their memory from an arena and leave giving it back
 * to the caller; they fail only with -ENOMEM.
 */
#ifndef DIGITS_LAYERS_H
#define DIGITS_LAYERS_H

#include "arena.h"

#include <stdbool.h>

struct tensor {
	float *data; /* block of the arena */
	uint32_t c, n, h, w;
};

struct layer_env {
	struct arena *arena;
	struct tally *tally;
};

/* A 3x3 convolution with a border of one (inputs * 9 wide), or a dense layer (inputs wide). */
struct weights {
	const char *name;
	uint32_t inputs, outputs;
	float *packed; /* see gemm.h */
	const float *bias;
};

/* "NxCxHxW", the order in which one says it, for markers. */
#define SHAPE_BYTES 48
const char *tensor__shape(const struct tensor *t, char text[SHAPE_BYTES]);

int tensor__new(const struct layer_env *env, struct tensor *t, uint32_t c, uint32_t n, uint32_t h,
		uint32_t w);
void tensor__free(const struct layer_env *env, struct tensor *t);

int layer__conv2d(const struct layer_env *env, const struct weights *w, const struct tensor *in,
		  struct tensor *out);
/* In place. */
void layer__bias_relu(const struct layer_env *env, const struct weights *w, struct tensor *x);
/* 2x2, halves the sides. */
int layer__max_pool2d(const struct layer_env *env, const struct tensor *in, struct tensor *out);
/* (C, N, H, W) to (C * H * W, N, 1, 1). */
int layer__flatten(const struct layer_env *env, const struct tensor *in, struct tensor *out);
/* @relu: the last layer has none, its sums are the logits. */
int layer__dense(const struct layer_env *env, const struct weights *w, bool relu,
		 const struct tensor *in, struct tensor *out);
/* @logits: @n rows of @classes; probabilities likewise. */
void layer__softmax(const struct layer_env *env, uint32_t n, uint32_t classes, const float *logits,
		    float *probabilities);

#endif
