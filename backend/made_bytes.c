/* The file of helpers that moec-make-helpers wrote, in the plug-in: see made.h. */
__asm__(".section .rodata\n"
        ".balign 64\n"
        ".globl made_bytes\n"
        ".hidden made_bytes\n"
        "made_bytes: .incbin \"" MADE_HELPERS "\"\n"
        ".previous\n");
