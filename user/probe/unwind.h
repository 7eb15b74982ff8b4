/* SPDX-License-Identifier: Apache-2.0 */
/* What the unwind tables of a file say about the stack frame at an instruction. */
#ifndef CLIKA_USER_PROBE_UNWIND_H
#define CLIKA_USER_PROBE_UNWIND_H

#include "user/probe/elf_file.h"

struct unwind;

enum frame_state { FRAME_UNKNOWN, FRAME_AS_AT_ENTRY, FRAME_IN_USE };

/* Never fails: without usable tables every answer is FRAME_UNKNOWN. NULL: out of memory. */
struct unwind *unwind__new(const struct elf_file *f);
void unwind__free(struct unwind *u);
enum frame_state unwind__frame_at(struct unwind *u, uint64_t vaddr);

#endif
