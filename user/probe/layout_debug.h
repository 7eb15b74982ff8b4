/* SPDX-License-Identifier: Apache-2.0 */
/* Members of types as a file's debug information tells them. */
#ifndef CLIKA_USER_PROBE_LAYOUT_DEBUG_H
#define CLIKA_USER_PROBE_LAYOUT_DEBUG_H

#include "user/probe/elf_file.h"

/*
 * Offset of member @member in the structure, class or typedef @type ("name" or "space::name"); members of anonymous
 * structures and unions and of base classes count. 1 found, 0 not. Files whose debug information is larger than
 * 128 MiB are not looked at, nor more than 4 million entries of one.
 */
int debug__member(const struct elf_file *f, const char *type, const char *member, int64_t *offset);

#endif
