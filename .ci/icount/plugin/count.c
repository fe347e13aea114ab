// A qemu plugin that counts how often each translated block runs. When the file OUT.go appears, it removes it and
// writes OUT.<n>: a line "address instructions executions end" for each block. The declarations are those of qemu's
// plugin interface, version 1, so that no header of qemu has to be installed.
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
enum op { ADD_U64 };

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn;
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, enum op, void *, uint64_t);

struct block {
	uint64_t address, instructions, executions, end; // end is the address of the last instruction
	struct block *next;
};

static struct block *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char out[512];

static void translated(plugin_id id, struct qemu_plugin_tb *tb) {
	struct block *b = calloc(1, sizeof *b);
	b->address = qemu_plugin_tb_vaddr(tb);
	b->instructions = qemu_plugin_tb_n_insns(tb);
	b->end = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, b->instructions - 1));
	pthread_mutex_lock(&lock);
	b->next = blocks;
	blocks = b;
	pthread_mutex_unlock(&lock);
	qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD_U64, &b->executions, 1);
}

static void write_counts(int n) {
	char part[600], whole[600];
	snprintf(part, sizeof part, "%s.part", out);
	snprintf(whole, sizeof whole, "%s.%d", out, n);
	FILE *f = fopen(part, "w");
	if (!f)
		return;
	pthread_mutex_lock(&lock);
	for (struct block *b = blocks; b; b = b->next)
		if (b->executions)
			fprintf(f, "%" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIx64 "\n", b->address, b->instructions, b->executions, b->end);
	pthread_mutex_unlock(&lock);
	fclose(f);
	rename(part, whole);
}

static void *wait_for_request(void *unused) {
	char request[600];
	struct timespec pause = {0, 20000000};
	snprintf(request, sizeof request, "%s.go", out);
	for (int n = 0;; nanosleep(&pause, 0))
		if (remove(request) == 0)
			write_counts(n++);
	return unused;
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			snprintf(out, sizeof out, "%s", argv[i] + 4);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	pthread_t thread;
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before); // the program's signals go to its own threads
	pthread_create(&thread, 0, wait_for_request, 0);
	pthread_sigmask(SIG_SETMASK, &before, 0);
	return 0;
}
