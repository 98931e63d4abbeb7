/* The command: subcommands by name, otherwise `moec FILE.moe -o kernel.so`. */
#include "command/command.h"

#include "base/base.h"

#include <malloc.h>

int main(int argc, char **argv)
{
    static const CliCommand commands[] = {
#define COMMAND(name, arguments, doc) {#name, doc, command_##name},
#include "command/commands.def"
    };
    static const Cli moec = {"moec",          MOEC_VERSION " (LLVM " MOEC_LLVM_VERSION ")",
                             commands,        sizeof commands / sizeof *commands,
                             command_compile, 1};
    openmp_set_up();
    /* LLVM's large pieces come and go: the system need not clear each anew. */
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    return cli_main(&moec, argc, argv);
}
