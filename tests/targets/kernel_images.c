// The code objects that were compiled from kernels.cl, embedded, so that the programs
// need no file at run time.
#define EMBED(name, file)                                                        \
  __asm__(                                                                       \
      ".pushsection .rodata\n"                                                   \
      ".balign 4096\n"                                                           \
      ".global " #name "_start, " #name "_end\n" #name "_start: .incbin \"" file \
      "\"\n" #name                                                               \
      "_end: .byte 0\n"                                                          \
      ".popsection\n")

EMBED(kernels_gfx906, KERNELS_GFX906);
EMBED(kernels_gfx90a, KERNELS_GFX90A);
