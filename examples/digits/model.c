/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <clika/markers.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"
#include "gemm.h"
#include "layers.h"
#include "weights.h"

enum { CONV1, CONV2, CONV3, FC1, FC2, N_WEIGHTS };

#define SIDE 8

struct model {
	struct arena *arena;
	struct tally *tally;
	struct weights w[N_WEIGHTS];
};

static const struct {
	const char *name;
	uint32_t inputs, outputs;
	const float *values, *bias;
} table[N_WEIGHTS] = {
	[CONV1] = { "conv1", 9, 8, conv1_w, conv1_b },
	[CONV2] = { "conv2", 8 * 9, 16, conv2_w, conv2_b },
	[CONV3] = { "conv3", 16 * 9, 32, conv3_w, conv3_b },
	[FC1] = { "fc1", 32 * 2 * 2, 64, fc1_w, fc1_b },
	[FC2] = { "fc2", 64, DIGITS_CLASSES, fc2_w, fc2_b },
};

static int model__load(struct model *m)
{
	CLIKA_SPAN_CAT("load_model", "runtime", CLIKA_U64("layers", N_WEIGHTS));
	tally__span(m->tally, SPAN_LOAD);
	for (int i = 0; i < N_WEIGHTS; i++) {
		struct weights *w = &m->w[i];
		size_t k = table[i].inputs;
		size_t size;

		w->name = table[i].name;
		w->inputs = k;
		w->outputs = table[i].outputs;
		w->bias = table[i].bias;
		size = gemm__packed_size(w->outputs, k) * sizeof(float);
		w->packed = arena__alloc(m->arena, size);
		if (!w->packed)
			return -ENOMEM;
		gemm__pack(w->outputs, k, table[i].values, w->packed);
	}
	return 0;
}

int model__new(struct arena *weights, struct tally *tally, struct model **out)
{
	struct model *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	m->arena = weights;
	m->tally = tally;
	err = model__load(m);
	if (err) {
		model__free(m);
		return err;
	}
	*out = m;
	return 0;
}

void model__free(struct model *m)
{
	if (!m)
		return;
	for (int i = 0; i < N_WEIGHTS; i++)
		arena__dealloc(m->arena, m->w[i].packed);
	free(m);
}

/* Where the views lie: the image itself first, then straight moves, then slanted ones. */
static const int8_t moves[DIGITS_MAX_VIEWS][2] = {
	{ 0, 0 }, { 0, 1 },   { 0, -1 }, { 1, 0 },  { -1, 0 },
	{ 1, 1 }, { -1, -1 }, { 1, -1 }, { -1, 1 },
};

static void place(const uint8_t *image, const int8_t move[2], float *to)
{
	for (int y = 0; y < SIDE; y++)
		for (int x = 0; x < SIDE; x++) {
			int sy = y - move[0], sx = x - move[1];
			int inside = sy >= 0 && sy < SIDE && sx >= 0 && sx < SIDE;

			*to++ = inside ? image[sy * SIDE + sx] / 16.0f : 0.0f;
		}
}

static int gather(const struct layer_env *env, uint32_t n, const uint8_t *const *images,
		  uint32_t views, struct tensor *x)
{
	int err;

	CLIKA_SPAN_CAT("gather", "runtime", CLIKA_U64("images", n), CLIKA_U64("views", views));
	tally__span(env->tally, SPAN_GATHER);
	err = tensor__new(env, x, 1, n * views, SIDE, SIDE);
	if (err)
		return err;
	for (uint32_t i = 0; i < n * views; i++)
		place(images[i / views], moves[i % views], x->data + (size_t)i * SIDE * SIDE);
	return 0;
}

/* Columns are views; in a fixed order, so that the sum is the same in any batch. */
static void average(const struct tensor *z, uint32_t n, uint32_t views, float *logits)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t c = 0; c < DIGITS_CLASSES; c++) {
			const float *from = z->data + (size_t)c * z->n + (size_t)i * views;
			float sum = 0.0f;

			for (uint32_t v = 0; v < views; v++)
				sum += from[v];
			*logits++ = sum / views;
		}
}

/* A layer has made @y of @x: go on with @y, whether it worked or not, so that one is left to free. */
static int step(const struct layer_env *env, int err, struct tensor *x, struct tensor *y)
{
	tensor__free(env, x);
	*x = *y;
	*y = (struct tensor){ 0 };
	return err;
}

static int conv_block(const struct layer_env *env, const struct weights *w, bool pool,
		      struct tensor *x)
{
	struct tensor y = { 0 };
	int err;

	err = step(env, layer__conv2d(env, w, x, &y), x, &y);
	if (err)
		return err;
	layer__bias_relu(env, w, x);
	if (!pool)
		return 0;
	return step(env, layer__max_pool2d(env, x, &y), x, &y);
}

static int head(const struct layer_env *env, const struct model *m, struct tensor *x)
{
	struct tensor y = { 0 };
	int err;

	err = step(env, layer__flatten(env, x, &y), x, &y);
	if (err)
		return err;
	err = step(env, layer__dense(env, &m->w[FC1], true, x, &y), x, &y);
	if (err)
		return err;
	return step(env, layer__dense(env, &m->w[FC2], false, x, &y), x, &y);
}

int model__forward(const struct model *m, struct arena *arena, uint32_t n,
		   const uint8_t *const *images, uint32_t views, float *logits,
		   float *probabilities)
{
	struct layer_env env = { .arena = arena, .tally = m->tally };
	struct tensor x = { 0 };
	int err;

	err = gather(&env, n, images, views, &x);
	if (!err)
		err = conv_block(&env, &m->w[CONV1], false, &x);
	if (!err)
		err = conv_block(&env, &m->w[CONV2], true, &x);
	if (!err)
		err = conv_block(&env, &m->w[CONV3], true, &x);
	if (!err)
		err = head(&env, m, &x);
	if (!err) {
		average(&x, n, views, logits);
		layer__softmax(&env, n, DIGITS_CLASSES, logits, probabilities);
	}
	tensor__free(&env, &x);
	return err;
}
