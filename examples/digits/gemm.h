/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C = A * B for single-precision matrices in row order, with A packed in advance.
 *
 * Every element of C is summed over k in ascending order by the same instructions, wherever it
 * lies in its tile: a result does not depend on how many columns are computed at once.
 */
#ifndef DIGITS_GEMM_H
#define DIGITS_GEMM_H

#include <stddef.h>

#define GEMM_ROWS 4 /* of a tile, held in registers */
#define GEMM_COLS 8
#define GEMM_BLOCK_K 256 /* a packed block of B: 256 * 128 * 4 bytes, half a usual L2 cache */
#define GEMM_BLOCK_N 128

/* Floats that the packed form of an @m x @k matrix takes, and the scratch that gemm() needs. */
size_t gemm__packed_size(size_t m, size_t k);
size_t gemm__scratch_size(size_t n, size_t k);

void gemm__pack(size_t m, size_t k, const float *a, float *packed);
/* @b: k rows of n; @c: m rows of n. */
void gemm(size_t m, size_t n, size_t k, const float *packed, const float *b, float *c,
	  float *scratch);

#endif
