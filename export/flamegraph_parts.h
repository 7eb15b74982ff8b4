/* SPDX-License-Identifier: Apache-2.0 */
/* What is the same in every flame graph: looks and behaviour. Nothing recorded goes in here. */
#ifndef CLIKA_EXPORT_FLAMEGRAPH_PARTS_H
#define CLIKA_EXPORT_FLAMEGRAPH_PARTS_H

#define FLAMEGRAPH_COLOURS 12

extern const char flamegraph_style[];
extern const char flamegraph_script[];

#endif
