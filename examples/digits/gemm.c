/* SPDX-License-Identifier: Apache-2.0 */
#include "gemm.h"

#include <stdbool.h>
#include <string.h>

/* Four floats in one register, SSE or NEON; both are there without asking on the machines we have. */
typedef float vec4 __attribute__((vector_size(16), aligned(4), may_alias));

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t round_up(size_t n, size_t step)
{
	return (n + step - 1) / step * step;
}

size_t gemm__packed_size(size_t m, size_t k)
{
	return round_up(m, GEMM_ROWS) * k;
}

size_t gemm__scratch_size(size_t n, size_t k)
{
	return min_size(k, GEMM_BLOCK_K) * round_up(min_size(n, GEMM_BLOCK_N), GEMM_COLS);
}

/* Packed: blocks of k; in each, panels of GEMM_ROWS rows; in each, column after column. */
void gemm__pack(size_t m, size_t k, const float *a, float *packed)
{
	for (size_t k0 = 0; k0 < k; k0 += GEMM_BLOCK_K) {
		size_t k1 = min_size(k0 + GEMM_BLOCK_K, k);

		for (size_t i = 0; i < m; i += GEMM_ROWS)
			for (size_t p = k0; p < k1; p++)
				for (size_t r = i; r < i + GEMM_ROWS; r++)
					*packed++ = r < m ? a[r * k + p] : 0.0f;
	}
}

static void pack_b(size_t n, size_t kc, size_t nc, const float *b, float *to)
{
	for (size_t j = 0; j < nc; j += GEMM_COLS) {
		size_t cols = min_size(GEMM_COLS, nc - j);

		for (size_t p = 0; p < kc; p++, to += GEMM_COLS) {
			memcpy(to, b + p * n + j, cols * sizeof(float));
			memset(to + cols, 0, (GEMM_COLS - cols) * sizeof(float));
		}
	}
}

/* One tile over one block of k. The edge is padded with zeros, so there is no second code path. */
static void tile(size_t kc, const float *a, const float *b, float out[GEMM_ROWS][GEMM_COLS])
{
	vec4 c00 = { 0 }, c01 = { 0 }, c10 = { 0 }, c11 = { 0 };
	vec4 c20 = { 0 }, c21 = { 0 }, c30 = { 0 }, c31 = { 0 };

	for (size_t p = 0; p < kc; p++, a += GEMM_ROWS, b += GEMM_COLS) {
		vec4 b0 = *(const vec4 *)b;
		vec4 b1 = *(const vec4 *)(b + 4);

		c00 += a[0] * b0;
		c01 += a[0] * b1;
		c10 += a[1] * b0;
		c11 += a[1] * b1;
		c20 += a[2] * b0;
		c21 += a[2] * b1;
		c30 += a[3] * b0;
		c31 += a[3] * b1;
	}
	*(vec4 *)&out[0][0] = c00;
	*(vec4 *)&out[0][4] = c01;
	*(vec4 *)&out[1][0] = c10;
	*(vec4 *)&out[1][4] = c11;
	*(vec4 *)&out[2][0] = c20;
	*(vec4 *)&out[2][4] = c21;
	*(vec4 *)&out[3][0] = c30;
	*(vec4 *)&out[3][4] = c31;
}

static void store(size_t rows, size_t cols, size_t n, bool add, float from[GEMM_ROWS][GEMM_COLS],
		  float *c)
{
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < cols; j++)
			c[i * n + j] = add ? c[i * n + j] + from[i][j] : from[i][j];
}

void gemm(size_t m, size_t n, size_t k, const float *packed, const float *b, float *c,
	  float *scratch)
{
	float out[GEMM_ROWS][GEMM_COLS];

	for (size_t k0 = 0; k0 < k; k0 += GEMM_BLOCK_K) {
		size_t kc = min_size(GEMM_BLOCK_K, k - k0);
		const float *block = packed + round_up(m, GEMM_ROWS) * k0;

		for (size_t j0 = 0; j0 < n; j0 += GEMM_BLOCK_N) {
			size_t nc = min_size(GEMM_BLOCK_N, n - j0);

			pack_b(n, kc, nc, b + k0 * n + j0, scratch);
			for (size_t i = 0; i < m; i += GEMM_ROWS)
				for (size_t j = 0; j < nc; j += GEMM_COLS) {
					tile(kc, block + i * kc, scratch + j * kc, out);
					store(min_size(GEMM_ROWS, m - i),
					      min_size(GEMM_COLS, nc - j), n, k0 > 0, out,
					      c + i * n + j0 + j);
				}
		}
	}
}
