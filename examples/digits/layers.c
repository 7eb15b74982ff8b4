/* SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#include <clika/markers.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gemm.h"

const char *tensor__shape(const struct tensor *t, char text[SHAPE_BYTES])
{
	snprintf(text, SHAPE_BYTES, "%ux%ux%ux%u", t->n, t->c, t->h, t->w);
	return text;
}

int tensor__new(const struct layer_env *env, struct tensor *t, uint32_t c, uint32_t n, uint32_t h,
		uint32_t w)
{
	*t = (struct tensor){ .c = c, .n = n, .h = h, .w = w };
	t->data = arena__alloc(env->arena, (size_t)c * n * h * w * sizeof(float));
	return t->data ? 0 : -ENOMEM;
}

void tensor__free(const struct layer_env *env, struct tensor *t)
{
	arena__dealloc(env->arena, t->data);
	t->data = NULL;
}

/* Row c * 9 + ky * 3 + kx of @out is channel c moved by (ky - 1, kx - 1), zeros beyond the edge. */
static void im2col_row(const struct tensor *in, const float *from, int dy, int dx, float *to)
{
	int h = in->h, w = in->w;
	int x0 = dx < 0 ? -dx : 0;
	int x1 = dx > 0 ? w - dx : w;

	for (uint32_t i = 0; i < in->n; i++, from += h * w) {
		for (int y = 0; y < h; y++, to += w) {
			if (y + dy < 0 || y + dy >= h) {
				memset(to, 0, w * sizeof(float));
				continue;
			}
			memset(to, 0, x0 * sizeof(float));
			memcpy(to + x0, from + (y + dy) * w + x0 + dx, (x1 - x0) * sizeof(float));
			memset(to + x1, 0, (w - x1) * sizeof(float));
		}
	}
}

static void im2col(const struct layer_env *env, const struct tensor *in, float *out)
{
	size_t plane = (size_t)in->n * in->h * in->w;

	CLIKA_SPAN_CAT("im2col", "kernel", CLIKA_U64("bytes", in->c * 9 * plane * sizeof(float)));
	tally__span(env->tally, SPAN_IM2COL);
	for (uint32_t c = 0; c < in->c; c++)
		for (int k = 0; k < 9; k++, out += plane)
			im2col_row(in, in->data + c * plane, k / 3 - 1, k % 3 - 1, out);
}

/* @columns values a row: output rows = w->outputs, depth @k. */
static int product(const struct layer_env *env, const struct weights *w, size_t columns, size_t k,
		   const float *in, float *out)
{
	uint64_t flops = 2ull * w->outputs * columns * k;
	float *scratch;

	CLIKA_SPAN_CAT("gemm", "kernel", CLIKA_U64("m", w->outputs), CLIKA_U64("n", columns),
		       CLIKA_U64("k", k), CLIKA_U64("flops", flops));
	tally__span(env->tally, SPAN_GEMM);
	tally__add(env->tally, COUNT_FLOPS, flops);
	scratch = arena__alloc(env->arena, gemm__scratch_size(columns, k) * sizeof(float));
	if (!scratch)
		return -ENOMEM;
	gemm(w->outputs, columns, k, w->packed, in, out, scratch);
	arena__dealloc(env->arena, scratch);
	return 0;
}

int layer__conv2d(const struct layer_env *env, const struct weights *w, const struct tensor *in,
		  struct tensor *out)
{
	size_t columns = (size_t)in->n * in->h * in->w;
	size_t k = (size_t)in->c * 9;
	char shape[SHAPE_BYTES];
	float *patches;
	int err;

	CLIKA_SPAN_CAT("conv2d", "layer", CLIKA_STR("layer", w->name),
		       CLIKA_STR("shape", tensor__shape(in, shape)),
		       CLIKA_U64("flops", 2ull * w->outputs * columns * k));
	tally__span(env->tally, SPAN_CONV);
	err = tensor__new(env, out, w->outputs, in->n, in->h, in->w);
	if (err)
		return err;
	patches = arena__alloc(env->arena, k * columns * sizeof(float));
	if (!patches)
		return -ENOMEM;
	im2col(env, in, patches);
	err = product(env, w, columns, k, patches, out->data);
	arena__dealloc(env->arena, patches);
	return err;
}

static void add_bias(const struct weights *w, struct tensor *x, bool relu)
{
	size_t plane = (size_t)x->n * x->h * x->w;
	float *v = x->data;

	for (uint32_t c = 0; c < x->c; c++) {
		for (size_t i = 0; i < plane; i++, v++) {
			*v += w->bias[c];
			if (relu && *v < 0.0f)
				*v = 0.0f;
		}
	}
}

void layer__bias_relu(const struct layer_env *env, const struct weights *w, struct tensor *x)
{
	char shape[SHAPE_BYTES];

	CLIKA_SPAN_CAT("bias_relu", "layer", CLIKA_STR("layer", w->name),
		       CLIKA_STR("shape", tensor__shape(x, shape)));
	tally__span(env->tally, SPAN_BIAS_RELU);
	add_bias(w, x, true);
}

static float max4(float a, float b, float c, float d)
{
	float ab = a > b ? a : b;
	float cd = c > d ? c : d;

	return ab > cd ? ab : cd;
}

int layer__max_pool2d(const struct layer_env *env, const struct tensor *in, struct tensor *out)
{
	size_t planes = (size_t)in->c * in->n;
	const float *from = in->data;
	char shape[SHAPE_BYTES];
	float *to;
	int err;

	CLIKA_SPAN_CAT("max_pool2d", "layer", CLIKA_STR("shape", tensor__shape(in, shape)));
	tally__span(env->tally, SPAN_MAX_POOL);
	err = tensor__new(env, out, in->c, in->n, in->h / 2, in->w / 2);
	if (err)
		return err;
	to = out->data;
	for (size_t i = 0; i < planes; i++, from += (size_t)in->h * in->w)
		for (uint32_t y = 0; y < out->h; y++)
			for (uint32_t x = 0; x < out->w; x++) {
				const float *p = from + 2 * y * in->w + 2 * x;

				*to++ = max4(p[0], p[1], p[in->w], p[in->w + 1]);
			}
	return 0;
}

int layer__flatten(const struct layer_env *env, const struct tensor *in, struct tensor *out)
{
	uint32_t hw = in->h * in->w;
	char shape[SHAPE_BYTES];
	float *to;
	int err;

	CLIKA_SPAN_CAT("flatten", "layer", CLIKA_STR("shape", tensor__shape(in, shape)));
	tally__span(env->tally, SPAN_FLATTEN);
	err = tensor__new(env, out, in->c * hw, in->n, 1, 1);
	if (err)
		return err;
	to = out->data;
	for (uint32_t c = 0; c < in->c; c++)
		for (uint32_t p = 0; p < hw; p++)
			for (uint32_t i = 0; i < in->n; i++)
				*to++ = in->data[((size_t)c * in->n + i) * hw + p];
	return 0;
}

int layer__dense(const struct layer_env *env, const struct weights *w, bool relu,
		 const struct tensor *in, struct tensor *out)
{
	char shape[SHAPE_BYTES];
	int err;

	CLIKA_SPAN_CAT("dense", "layer", CLIKA_STR("layer", w->name),
		       CLIKA_STR("shape", tensor__shape(in, shape)),
		       CLIKA_U64("flops", 2ull * w->outputs * in->n * in->c));
	tally__span(env->tally, SPAN_DENSE);
	err = tensor__new(env, out, w->outputs, in->n, 1, 1);
	if (err)
		return err;
	err = product(env, w, in->n, in->c, in->data, out->data);
	if (!err)
		add_bias(w, out, relu);
	return err;
}

void layer__softmax(const struct layer_env *env, uint32_t n, uint32_t classes, const float *logits,
		    float *probabilities)
{
	CLIKA_SPAN_CAT("softmax", "layer", CLIKA_U64("rows", n));
	tally__span(env->tally, SPAN_SOFTMAX);
	for (uint32_t i = 0; i < n; i++, logits += classes, probabilities += classes) {
		float max = logits[0], sum = 0.0f;

		for (uint32_t c = 1; c < classes; c++)
			max = logits[c] > max ? logits[c] : max;
		for (uint32_t c = 0; c < classes; c++)
			sum += probabilities[c] = expf(logits[c] - max);
		for (uint32_t c = 0; c < classes; c++)
			probabilities[c] /= sum;
	}
}
