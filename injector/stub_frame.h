/* Sizes that stub_code.S and stub.cc share: the preprocessor reads this for both. */
#ifndef ROCATTACH_INJECTOR_STUB_FRAME_H_
#define ROCATTACH_INJECTOR_STUB_FRAME_H_

/* What the stub writes at most below the thread's stack pointer, red zone included:
 * 128 bytes of red zone, 15 pushes, the frame record, the signal mask, rounded up. */
#define STUB_FRAME_BYTES 320

/* The stub's own stack, and the part of it at the lower end that is not accessible.
 * dlopen and the collector's start were seen to use some 13 KB; functions of the target
 * that dlopen calls (a malloc, auditors) may use more. */
#define STUB_STACK_BYTES (256 * 1024)
#define STUB_STACK_GUARD 4096

#endif /* ROCATTACH_INJECTOR_STUB_FRAME_H_ */
