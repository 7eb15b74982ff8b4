/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include "digits.h"

uint32_t digits_data__count(void)
{
	return DIGITS_IMAGES;
}

const uint8_t *digits_data__pixels(uint32_t i)
{
	return i < DIGITS_IMAGES ? digits_pixels[i] : NULL;
}

int digits_data__label(uint32_t i)
{
	return i < DIGITS_IMAGES ? digits_labels[i] : -1;
}
