/* Sizes that stub_code.S and stub.cc share: the preprocessor reads this for both. */
#ifndef ROCATTACH_INJECTOR_STUB_FRAME_H_
#define ROCATTACH_INJECTOR_STUB_FRAME_H_

/* The most that the stub writes below the thread's stack pointer, red zone included:
 * 128 bytes of red zone, 15 pushes, the frame record, the signal mask, rounded up. */
#define STUB_FRAME_BYTES 320

/* The stub's own stack, and the inaccessible part at its lower end. dlopen and the
 * collector's start used some 13 KB in measurements; functions of the target that
 * dlopen calls (a malloc, auditors) may use more. */
#define STUB_STACK_BYTES (256 * 1024)
#define STUB_STACK_GUARD 4096

#endif /* ROCATTACH_INJECTOR_STUB_FRAME_H_ */
