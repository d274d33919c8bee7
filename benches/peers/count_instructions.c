// A plugin for qemu-user that prints how many instructions a program executed. With QEMU 7.2 or later:
//
//     gcc -shared -fPIC -o count.so count_instructions.c
//     qemu-aarch64 -plugin ./count.so -d plugin -L /usr/aarch64-linux-gnu PROGRAM
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// From qemu-plugin.h, which Debian does not package.
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*each)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *number, uint64_t by);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*end)(qemu_plugin_id_t, void *), void *data);
void qemu_plugin_outs(const char *text);

int qemu_plugin_version = 1;
static uint64_t executed;

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    qemu_plugin_register_vcpu_tb_exec_inline(tb, 0 /* add */, &executed, qemu_plugin_tb_n_insns(tb));
}

static void end(qemu_plugin_id_t id, void *data) {
    char text[40];
    snprintf(text, sizeof text, "instructions: %llu\n", (unsigned long long)executed);
    qemu_plugin_outs(text);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, end, NULL);
    return 0;
}
