// SPDX-License-Identifier: Apache-2.0
/*
 * Where the arguments of a marker are: operands as the assembler prints them, each behind
 * "SIZE@". A form that is not understood is refused by its text: reading something similar
 * (an integer register for a vector one) would give wrong values without a word.
 */
#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/elf_file.h"

struct operand {
	const char *p, *end; /* the operand without its size */
	const char *shown;   /* with it, for messages */
	int bytes;           /* 0 = not told */
	bool is_signed;
};

struct reg {
	uint16_t slot; /* byte offset in pt_regs */
	uint8_t bytes;
	bool zero; /* arm64 xzr, wzr */
};

#define BAD_FORM(err, o, why)                                                                      \
	error__set(err, -ENOTSUP, "argument \"%.*s\": %s", (int)((o)->end - (o)->shown),           \
		   (o)->shown, why)

static bool is(const char *p, size_t n, const char *text)
{
	return n == strlen(text) && memcmp(p, text, n) == 0;
}

static void skip_spaces(const char **p, const char *end)
{
	while (*p < end && **p == ' ')
		(*p)++;
}

/* A decimal or 0x number with an optional sign; the whole 64-bit range, signed or unsigned. */
static bool number(const char **p, const char *end, int64_t *v)
{
	char text[32], *stop;
	size_t n = 0;
	const char *q = *p;
	bool minus = q < end && *q == '-';
	unsigned long long u;

	if (q < end && (*q == '-' || *q == '+'))
		q++;
	while (q + n < end && n < sizeof(text) - 1 && isalnum((unsigned char)q[n])) {
		text[n] = q[n];
		n++;
	}
	text[n] = 0;
	if (!n || !isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	u = strtoull(text, &stop, 0);
	if (*stop || errno || (minus && u > 1ull << 63))
		return false;
	*v = (int64_t)(minus ? 0 - u : u);
	*p = q + n;
	return true;
}

/* --- x86-64: slots of struct pt_regs ----------------------------------------------------- */

static const struct {
	const char *r64, *r32, *r16, *r8;
	uint16_t slot;
} x86_regs[] = {
	{ "r15", "r15d", "r15w", "r15b", 0 },  { "r14", "r14d", "r14w", "r14b", 8 },
	{ "r13", "r13d", "r13w", "r13b", 16 }, { "r12", "r12d", "r12w", "r12b", 24 },
	{ "rbp", "ebp", "bp", "bpl", 32 },     { "rbx", "ebx", "bx", "bl", 40 },
	{ "r11", "r11d", "r11w", "r11b", 48 }, { "r10", "r10d", "r10w", "r10b", 56 },
	{ "r9", "r9d", "r9w", "r9b", 64 },     { "r8", "r8d", "r8w", "r8b", 72 },
	{ "rax", "eax", "ax", "al", 80 },      { "rcx", "ecx", "cx", "cl", 88 },
	{ "rdx", "edx", "dx", "dl", 96 },      { "rsi", "esi", "si", "sil", 104 },
	{ "rdi", "edi", "di", "dil", 112 },    { "rsp", "esp", "sp", "spl", 152 },
};

static const char *x86_reg(const char **p, const char *end, struct reg *r)
{
	const char *q = *p;
	size_t n = 0, i;

	if (q == end || *q != '%')
		return "a register is expected";
	q++;
	while (q + n < end && isalnum((unsigned char)q[n]))
		n++;
	for (i = 0; i < ARRAY_SIZE(x86_regs); i++) {
		r->bytes = is(q, n, x86_regs[i].r64)   ? 8
			   : is(q, n, x86_regs[i].r32) ? 4
			   : is(q, n, x86_regs[i].r16) ? 2
			   : is(q, n, x86_regs[i].r8)  ? 1
						       : 0;
		if (!r->bytes)
			continue;
		r->slot = x86_regs[i].slot;
		r->zero = false;
		*p = q + n;
		return NULL;
	}
	if (is(q, n, "ah") || is(q, n, "bh") || is(q, n, "ch") || is(q, n, "dh"))
		return "the high byte of a register is not supported";
	if (n > 3 && (!memcmp(q, "xmm", 3) || !memcmp(q, "ymm", 3) || !memcmp(q, "zmm", 3)))
		return "vector registers are not supported";
	if (is(q, n, "rip") || is(q, n, "eip"))
		return "addresses relative to the instruction are not supported";
	if (n == 2 && q[1] == 's')
		return "segment registers are not supported";
	return "unknown register";
}

/* "(base)", "(base,index,scale)", "(,index,scale)" after the displacement. */
static const char *x86_memory(const char **p, const char *end, struct wire_spec *s)
{
	struct reg base = { 0 }, index = { 0 };
	bool has_base = false;
	int64_t scale = 1;
	const char *why;

	(*p)++;
	skip_spaces(p, end);
	if (*p < end && **p != ',') {
		why = x86_reg(p, end, &base);
		if (why)
			return why;
		has_base = true;
	}
	if (has_base && *p < end && **p == ')') {
		(*p)++;
		s->kind = SPEC_MEM;
		s->reg = base.slot;
		return base.bytes == 8 ? NULL : "addresses in 32-bit registers are not supported";
	}
	if (*p == end || **p != ',')
		return "\",\" or \")\" is expected";
	(*p)++;
	skip_spaces(p, end);
	why = x86_reg(p, end, &index);
	if (why)
		return why;
	if (*p < end && **p == ',') {
		(*p)++;
		skip_spaces(p, end);
		if (!number(p, end, &scale) ||
		    (scale != 1 && scale != 2 && scale != 4 && scale != 8))
			return "the scale is not 1, 2, 4 or 8";
	}
	if (*p == end || **p != ')')
		return "\")\" is expected";
	(*p)++;
	if (index.bytes != 8 || (has_base && base.bytes != 8))
		return "addresses in 32-bit registers are not supported";
	s->kind = SPEC_SIB;
	s->reg = has_base ? base.slot : SPEC_NO_REG;
	s->index = index.slot;
	s->scale = (uint8_t)scale;
	return NULL;
}

static const char *x86_operand(struct operand *o, struct wire_spec *s)
{
	struct reg r;
	const char *why;

	if (*o->p == '$') {
		o->p++;
		s->kind = SPEC_CONST;
		if (!o->bytes) {
			o->bytes = 8;
			o->is_signed = true;
		}
		return number(&o->p, o->end, &s->value) ? NULL
							: "symbols as constants are not supported";
	}
	if (*o->p == '%') {
		why = x86_reg(&o->p, o->end, &r);
		if (why)
			return why;
		if (o->p < o->end && *o->p == ':')
			return "segment registers are not supported";
		s->kind = SPEC_REG;
		s->reg = r.slot;
		if (!o->bytes || o->bytes > r.bytes)
			o->bytes = r.bytes;
		return NULL;
	}
	if (*o->p != '(' && !number(&o->p, o->end, &s->value))
		return "addresses of symbols are not supported";
	if (!o->bytes)
		o->bytes = 8;
	if (o->p == o->end) { /* a fixed address in a program that is not position-independent */
		s->kind = SPEC_MEM;
		s->reg = SPEC_NO_REG;
		return NULL;
	}
	if (*o->p != '(')
		return "addresses of symbols are not supported";
	return x86_memory(&o->p, o->end, s);
}

/* --- arm64: slots of struct user_pt_regs ---------------------------------------------------- */

static const char *arm64_reg(const char **p, const char *end, struct reg *r)
{
	const char *q = *p;
	size_t n = 0;
	int64_t k;

	while (q + n < end && isalnum((unsigned char)q[n]))
		n++;
	memset(r, 0, sizeof(*r));
	if (is(q, n, "sp") || is(q, n, "wsp")) {
		r->slot = 248;
		r->bytes = n == 2 ? 8 : 4;
	} else if (is(q, n, "xzr") || is(q, n, "wzr")) {
		r->zero = true;
		r->bytes = *q == 'x' ? 8 : 4;
	} else if (is(q, n, "fp") || is(q, n, "lr")) {
		r->slot = *q == 'f' ? 29 * 8 : 30 * 8;
		r->bytes = 8;
	} else if (n >= 2 && n <= 3 && strchr("xwbhsdqvz", *q) && isdigit((unsigned char)q[1])) {
		const char *digits = q + 1;

		if (*q != 'x' && *q != 'w')
			return "vector registers are not supported";
		if (!number(&digits, q + n, &k) || digits != q + n || k > 30)
			return "unknown register";
		r->slot = (uint16_t)(8 * k);
		r->bytes = *q == 'x' ? 8 : 4;
	} else {
		return "unknown register or symbol";
	}
	*p = q + n;
	return NULL;
}

static bool arm64_number(const char **p, const char *end, int64_t *v)
{
	const char *q = *p;

	if (q < end && *q == '#')
		q++;
	if (!number(&q, end, v))
		return false;
	*p = q;
	return true;
}

/* ", lsl 3" behind the index. */
static const char *arm64_shift(const char **p, const char *end, uint8_t *scale)
{
	int64_t shift;

	(*p)++;
	skip_spaces(p, end);
	if (end - *p < 4 || memcmp(*p, "lsl ", 4) != 0)
		return "extended index registers are not supported";
	*p += 4;
	skip_spaces(p, end);
	if (!arm64_number(p, end, &shift) || shift < 0 || shift > 4)
		return "a shift by 0 to 4 is expected";
	*scale = (uint8_t)(1 << shift);
	skip_spaces(p, end);
	return NULL;
}

static const char *arm64_memory(const char **p, const char *end, struct wire_spec *s)
{
	struct reg base, index;
	uint8_t scale = 1;
	const char *why;

	(*p)++;
	skip_spaces(p, end);
	why = arm64_reg(p, end, &base);
	if (why)
		return why;
	if (base.bytes != 8 || base.zero)
		return "the base is no address register";
	s->kind = SPEC_MEM;
	s->reg = base.slot;
	skip_spaces(p, end);
	if (*p < end && **p == ',') {
		(*p)++;
		skip_spaces(p, end);
		if (!arm64_number(p, end, &s->value)) {
			if (*p < end && **p == '#')
				return "symbols as displacements are not supported";
			why = arm64_reg(p, end, &index);
			if (why)
				return why;
			skip_spaces(p, end);
			if (*p < end && **p == ',') {
				why = arm64_shift(p, end, &scale);
				if (why)
					return why;
			}
			if (index.bytes != 8)
				return "32-bit index registers are not supported";
			if (!index.zero) {
				s->kind = SPEC_SIB;
				s->index = index.slot;
				s->scale = scale;
			}
		}
		skip_spaces(p, end);
	}
	if (*p == end || **p != ']')
		return "\"]\" is expected";
	(*p)++;
	return NULL;
}

static const char *arm64_operand(struct operand *o, struct wire_spec *s)
{
	struct reg r;
	const char *why;

	if (*o->p == '[') {
		if (!o->bytes)
			o->bytes = 8;
		return arm64_memory(&o->p, o->end, s);
	}
	if (arm64_number(&o->p, o->end, &s->value)) {
		s->kind = SPEC_CONST;
		if (!o->bytes) {
			o->bytes = 8;
			o->is_signed = true;
		}
		return NULL;
	}
	if (*o->p == '#')
		return "symbols as constants are not supported";
	why = arm64_reg(&o->p, o->end, &r);
	if (why)
		return why;
	if (!o->bytes || o->bytes > r.bytes)
		o->bytes = r.bytes;
	s->kind = r.zero ? SPEC_CONST : SPEC_REG;
	s->reg = r.slot;
	return NULL;
}

/* --- both -------------------------------------------------------------------------------- */

/* The end of the operand at @p: a space outside brackets and parentheses. */
static const char *operand_end(const char *p)
{
	int depth = 0;

	for (; *p; p++) {
		if (*p == '[' || *p == '(')
			depth++;
		else if ((*p == ']' || *p == ')') && depth)
			depth--;
		else if (*p == ' ' && !depth)
			break;
	}
	return p;
}

/* "-4@": signed, 4 bytes. Without it the operand tells the size. */
static int read_size(struct operand *o, struct clika_error *err)
{
	const char *at = memchr(o->p, '@', (size_t)(o->end - o->p));
	const char *p = o->p;
	int64_t v = 0;

	if (!at)
		return 0;
	if (!number(&p, at, &v) && !(p < at && (*p == '-' || isdigit((unsigned char)*p))))
		return error__set(err, -EINVAL, "argument \"%.*s\": its size is not a number",
				  (int)(o->end - o->shown), o->shown);
	if (at > o->p && at[-1] == 'f')
		return BAD_FORM(err, o, "floating point is not supported");
	if (p != at)
		return error__set(err, -EINVAL, "argument \"%.*s\": its size is not a number",
				  (int)(o->end - o->shown), o->shown);
	o->is_signed = v < 0;
	if (v < 0)
		v = -v;
	if (v == 16 || v == 32 || v == 64)
		return BAD_FORM(err, o, "values of more than 8 bytes are not supported");
	if (v != 1 && v != 2 && v != 4 && v != 8)
		return error__set(err, -EINVAL, "argument \"%.*s\": no such size",
				  (int)(o->end - o->shown), o->shown);
	o->bytes = (int)v;
	o->p = at + 1;
	return 0;
}

static int parse_one(uint16_t machine, struct operand *o, struct wire_spec *s,
		     struct clika_error *err)
{
	const char *why;
	int rc;

	memset(s, 0, sizeof(*s));
	rc = read_size(o, err);
	if (rc)
		return rc;
	if (o->p == o->end)
		return error__set(err, -EINVAL, "argument \"%.*s\": no operand",
				  (int)(o->end - o->shown), o->shown);
	why = machine == EM_AARCH64 ? arm64_operand(o, s) : x86_operand(o, s);
	if (!why && o->p != o->end)
		why = "this form is not supported";
	if (why)
		return BAD_FORM(err, o, why);
	s->bytes = (uint8_t)o->bytes;
	s->is_signed = o->is_signed;
	/* Constants reach the record as they stand here, so "4@$-1" is cut to its size now. */
	if (s->kind == SPEC_CONST && s->bytes < 8) {
		int shift = 64 - 8 * s->bytes;
		uint64_t v = (uint64_t)s->value << shift;

		s->value = s->is_signed ? (int64_t)v >> shift : (int64_t)(v >> shift);
	}
	return 0;
}

int argspec__parse(uint16_t machine, const char *args, struct wire_spec specs[WIRE_MAX_ARGS],
		   struct clika_error *err)
{
	struct operand o;
	int n = 0, rc;

	if (machine != EM_X86_64 && machine != EM_AARCH64)
		return error__set(err, -ENOTSUP, "arguments of machine %u are not supported",
				  machine);
	for (;;) {
		while (*args == ' ')
			args++;
		if (!*args)
			return n;
		if (n == WIRE_MAX_ARGS)
			return error__set(err, -ENOTSUP, "more than %d arguments", WIRE_MAX_ARGS);
		o = (struct operand){ .p = args, .shown = args, .end = operand_end(args) };
		rc = parse_one(machine, &o, &specs[n], err);
		if (rc)
			return rc;
		n++;
		args = o.end;
	}
}
