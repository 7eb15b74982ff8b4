// SPDX-License-Identifier: Apache-2.0
/*
 * Headers and bytes of an ELF file.
 *
 * A target can truncate its file at any moment, and a truncated mapping means SIGBUS, so
 * nothing is ever mapped: libelf reads (ELF_C_READ) and content comes by pread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/probe/elf_internal.h"

size_t elf_file__pread(const struct elf_file *f, uint64_t offset, void *to, size_t n)
{
	size_t done = 0;

	if (offset >= f->size)
		return 0;
	if (n > f->size - offset)
		n = f->size - offset;
	while (done < n) {
		ssize_t got = pread(f->fd, (char *)to + done, n - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

const struct elf_load *elf_file__load_at(const struct elf_file *f, uint64_t vaddr)
{
	size_t lo = 0, hi = f->n_loads;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->loads[mid].vaddr <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || vaddr - f->loads[lo - 1].vaddr >= f->loads[lo - 1].memsz)
		return NULL;
	return &f->loads[lo - 1];
}

bool elf_file__offset(const struct elf_file *f, uint64_t vaddr, uint64_t *offset)
{
	const struct elf_load *l = elf_file__load_at(f, vaddr);

	if (!l || vaddr - l->vaddr >= l->filesz)
		return false;
	*offset = l->offset + (vaddr - l->vaddr);
	return true;
}

bool elf_file__vaddr(const struct elf_file *f, uint64_t offset, uint64_t *vaddr)
{
	size_t i;

	for (i = 0; i < f->n_loads; i++) {
		const struct elf_load *l = &f->loads[i];

		if (offset >= l->offset && offset - l->offset < l->filesz) {
			*vaddr = l->vaddr + (offset - l->offset);
			return true;
		}
	}
	return false;
}

uint64_t elf_file__base_vaddr(const struct elf_file *f)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return f->n_loads ? f->loads[0].vaddr & ~(page - 1) : 0;
}

size_t elf_file__read(const struct elf_file *f, uint64_t vaddr, void *to, size_t n)
{
	const struct elf_load *l = elf_file__load_at(f, vaddr);

	if (!l || vaddr - l->vaddr >= l->filesz)
		return 0;
	if (n > l->filesz - (vaddr - l->vaddr))
		n = l->filesz - (vaddr - l->vaddr);
	return elf_file__pread(f, l->offset + (vaddr - l->vaddr), to, n);
}

uint64_t elf_file__size(const struct elf_file *f)
{
	return f->size;
}

const struct elf_ident *elf_file__ident(const struct elf_file *f)
{
	return &f->ident;
}

/*
 * What libelf would take at face value is looked at before libelf sees the file: it allocates
 * a few hundred bytes for each section that the header claims.
 */
static int check_header(struct elf_file *f, struct clika_error *err)
{
	Elf64_Ehdr h;
	Elf64_Shdr first;
	size_t got;

	memset(&h, 0, sizeof(h));
	got = elf_file__pread(f, 0, &h, sizeof(h));
	if (got < SELFMAG || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return error__set(err, -ENOEXEC, "%s: not an ELF file", f->name);
	if (h.e_ident[EI_CLASS] == ELFCLASS32)
		return error__set(err, -ENOTSUP, "%s: 32-bit, not supported", f->name);
	if (got < sizeof(h) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
	    (h.e_ident[EI_DATA] != ELFDATA2LSB && h.e_ident[EI_DATA] != ELFDATA2MSB))
		return error__set(err, -EBADMSG, "%s: broken ELF header", f->name);
	if (h.e_ident[EI_DATA] == ELFDATA2MSB)
		return error__set(err, -ENOTSUP, "%s: big-endian, not supported", f->name);
	if (h.e_machine != EM_X86_64 && h.e_machine != EM_AARCH64)
		return error__set(err, -ENOTSUP,
				  "%s: for machine %u, only x86-64 and arm64 are supported",
				  f->name, h.e_machine);
	if (h.e_phnum && h.e_phentsize != sizeof(Elf64_Phdr))
		return error__set(err, -EBADMSG, "%s: program headers of %u bytes", f->name,
				  h.e_phentsize);
	if (h.e_phnum == PN_XNUM || h.e_phnum > ELF_MAX_PHDRS)
		return error__set(err, -EBADMSG, "%s: more than %u program headers", f->name,
				  ELF_MAX_PHDRS);
	if (h.e_shoff && !h.e_shnum) {
		if (elf_file__pread(f, h.e_shoff, &first, sizeof(first)) != sizeof(first))
			first.sh_size = 0;
		if (first.sh_size > ELF_MAX_SECTIONS)
			return error__set(err, -EBADMSG, "%s: more than %u sections", f->name,
					  ELF_MAX_SECTIONS);
	}
	f->ident.machine = h.e_machine;
	f->ident.is_64 = true;
	f->ident.is_exec_or_dyn = h.e_type == ET_EXEC || h.e_type == ET_DYN;
	return 0;
}

static int by_vaddr(const void *a, const void *b)
{
	const struct elf_load *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

static int add_load(struct elf_file *f, const GElf_Phdr *ph, struct clika_error *err)
{
	struct elf_load *l = &f->loads[f->n_loads];

	if (ph->p_vaddr + ph->p_memsz < ph->p_vaddr || ph->p_offset + ph->p_filesz < ph->p_offset ||
	    ph->p_filesz > ph->p_memsz)
		return error__set(err, -EBADMSG, "%s: a PT_LOAD segment with impossible bounds",
				  f->name);
	l->vaddr = ph->p_vaddr;
	l->offset = ph->p_offset;
	l->memsz = ph->p_memsz;
	l->flags = ph->p_flags;
	l->filesz = ph->p_offset >= f->size                 ? 0
		    : ph->p_filesz > f->size - ph->p_offset ? f->size - ph->p_offset
							    : ph->p_filesz;
	f->n_loads++;
	return 0;
}

static int read_segments(struct elf_file *f, struct clika_error *err)
{
	size_t n, i;
	GElf_Phdr ph;
	int rc;

	if (elf_getphdrnum(f->elf, &n) < 0)
		return error__set(err, -EBADMSG, "%s: %s", f->name, elf_errmsg(-1));
	f->loads = calloc(n ? n : 1, sizeof(*f->loads));
	if (!f->loads)
		return error__set(err, -ENOMEM, "%s: out of memory", f->name);
	for (i = 0; i < n; i++) {
		if (!gelf_getphdr(f->elf, (int)i, &ph))
			return error__set(err, -EBADMSG, "%s: program header %zu: %s", f->name, i,
					  elf_errmsg(-1));
		if (ph.p_type == PT_LOAD)
			rc = add_load(f, &ph, err);
		else if (ph.p_type == PT_NOTE)
			rc = elf_file__add_notes(f, ph.p_offset, ph.p_filesz, ph.p_align,
						 ph.p_vaddr, true, err);
		else
			continue;
		if (rc)
			return rc;
	}
	qsort(f->loads, f->n_loads, sizeof(*f->loads), by_vaddr);
	return 0;
}

static void read_build_id(struct elf_file *f)
{
	static const char digits[] = "0123456789abcdef";
	size_t i, k, off, next, name, desc;
	GElf_Nhdr nh;

	for (i = 0; i < f->n_notes; i++) {
		for (off = 0; (next = gelf_getnote(f->notes[i].data, off, &nh, &name, &desc));
		     off = next) {
			const uint8_t *p = f->notes[i].data->d_buf;

			if (nh.n_type != NT_GNU_BUILD_ID || nh.n_namesz != sizeof("GNU") ||
			    memcmp(p + name, "GNU", sizeof("GNU")) != 0 || !nh.n_descsz)
				continue;
			for (k = 0; k < nh.n_descsz && k < sizeof(f->ident.build_id) / 2; k++) {
				f->ident.build_id[2 * k] = digits[p[desc + k] >> 4];
				f->ident.build_id[2 * k + 1] = digits[p[desc + k] & 15];
			}
			return;
		}
	}
}

static int open_checked(struct elf_file *f, struct clika_error *err)
{
	struct stat st;
	int rc;

	if (fstat(f->fd, &st) < 0) {
		rc = -errno;
		return error__set(err, rc, "%s: %s", f->name, strerror(-rc));
	}
	if (!S_ISREG(st.st_mode))
		return error__set(err, -ENOEXEC, "%s: not a regular file", f->name);
	f->size = (uint64_t)st.st_size;
	rc = check_header(f, err);
	if (rc)
		return rc;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return error__set(err, -ENOTSUP, "libelf is too old: %s", elf_errmsg(-1));
	f->elf = elf_begin(f->fd, ELF_C_READ, NULL);
	if (!f->elf)
		return error__set(err, -EBADMSG, "%s: %s", f->name, elf_errmsg(-1));
	if (elf_kind(f->elf) != ELF_K_ELF)
		return error__set(err, -EBADMSG, "%s: broken ELF header", f->name);
	rc = read_segments(f, err);
	if (rc)
		return rc;
	read_build_id(f);
	return 0;
}

int elf_file__open(int fd, const char *shown_as, struct elf_file **out, struct clika_error *err)
{
	struct elf_file *f = calloc(1, sizeof(*f));
	int rc;

	*out = NULL;
	if (!f)
		return error__set(err, -ENOMEM, "%s: out of memory", shown_as);
	f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	f->name = strdup(shown_as);
	if (f->fd < 0)
		rc = error__set(err, -errno, "%s: %s", shown_as, strerror(errno));
	else if (!f->name)
		rc = error__set(err, -ENOMEM, "%s: out of memory", shown_as);
	else
		rc = open_checked(f, err);
	if (rc) {
		elf_file__close(f);
		return rc;
	}
	*out = f;
	return 0;
}

void elf_file__close(struct elf_file *f)
{
	if (!f)
		return;
	if (f->disasm_free)
		f->disasm_free(f->disasm);
	if (f->elf)
		elf_end(f->elf);
	if (f->fd >= 0)
		close(f->fd);
	free(f->loads);
	free(f->usdts);
	free(f->colds);
	free(f->freeing);
	free(f->soname);
	free(f->name);
	free(f);
}
