/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 of names, remembered: the limited API would make a new bytes object each time. */
#ifndef CLIKA_PYTHON_TEXT_H
#define CLIKA_PYTHON_TEXT_H

#include "core.h"

#define TEXT_MAX 255 /* bytes of a name that a record takes */

struct text {
	PyObject *str; /* owned: its address can mean no other string meanwhile */
	uint16_t len;
	char utf8[TEXT_MAX + 1];
};

/* Of a str; stays right until the GIL is given up or another name is looked up. NULL with an
 * exception, on memory alone. */
const struct text *text__of(PyObject *str);

#endif
