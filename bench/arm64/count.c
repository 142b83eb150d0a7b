/* A plugin of QEMU's user-mode emulation (version 7 of QEMU, whose plugin interface is version 1) that counts the instructions
 * of the guest. It prints their number when the program ends; with profile=NAME it also writes a line for each translated block:
 * its address, instructions in it, and how often it ran, from which count.sh makes a profile by function.
 *
 *   cc -O2 -shared -fPIC -o count.so count.c && qemu-aarch64 -plugin ./count.so,profile=blocks.txt PROGRAM
 *
 * The interface is declared here because Debian packages no header of it.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *to, uint64_t add);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, void *), void *user);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/* A block is translated anew now and then; its count goes on. */
struct block {
    uint64_t address, instructions, runs;
    struct block *next;
};

enum { slots = 1 << 16 };
static struct block *table[slots];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *profile;

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    uint64_t address = qemu_plugin_tb_vaddr(tb), n = qemu_plugin_tb_n_insns(tb);
    pthread_mutex_lock(&lock);
    struct block **slot = &table[(address >> 2) % slots], *b = *slot;
    while (b && (b->address != address || b->instructions != n))
        b = b->next;
    if (!b && (b = calloc(1, sizeof *b))) {
        b->address = address, b->instructions = n, b->next = *slot;
        *slot = b;
    }
    pthread_mutex_unlock(&lock);
    if (!b)
        abort();
    /* Inline additions of several threads may lose some: run the program with one thread that matters. */
    qemu_plugin_register_vcpu_tb_exec_inline(tb, 0 /* QEMU_PLUGIN_INLINE_ADD_U64 */, &b->runs, 1);
}

static void finished(qemu_plugin_id_t id, void *user)
{
    FILE *out = profile ? fopen(profile, "w") : NULL;
    uint64_t total = 0;
    for (int i = 0; i < slots; i++) {
        for (struct block *b = table[i]; b; b = b->next) {
            total += b->instructions * b->runs;
            if (out && b->runs)
                fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", b->address, b->instructions, b->runs);
        }
    }
    if (out)
        fclose(out);
    fprintf(stderr, "instructions %" PRIu64 "\n", total);
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "profile=", 8))
            profile = strdup(argv[i] + 8);
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
