/* Sizes that stub_code.S and stub.cc share: the preprocessor reads this for both. */
#ifndef ROCATTACH_INJECTOR_STUB_FRAME_H_
#define ROCATTACH_INJECTOR_STUB_FRAME_H_

/* The most that the stub writes below the thread's stack pointer, red zone included:
 * 128 bytes of red zone, 15 pushes, the frame record, the signal mask, the descriptors,
 * rounded up. */
#define STUB_FRAME_BYTES 320

/* Where the stub that receives a descriptor keeps its pair of sockets, below the
 * thread's stack pointer: above it are the descriptors' other 16 bytes, the frame
 * record, 15 pushes and the red zone. */
#define STUB_SOCKETS_BELOW 288

/* The most that is sent back of the text of dlerror. */
#define STUB_ERROR_BYTES 512

/* Texts in the field of the collector's path, and their sizes: what is in front of a
 * descriptor's number in its path (longer than needed, so that the loaded name fits in
 * its place), and the name of the loaded library, terminator included. */
#define DESCRIPTOR_PATH 64
#define DESCRIPTOR_PATH_BYTES 33
#define LOADED_NAME 128
#define LOADED_NAME_BYTES 33

/* The stub's own stack, and the inaccessible part at its lower end. dlopen and the
 * collector's start used some 13 KB in measurements; functions of the target that
 * dlopen calls (a malloc, auditors) may use more. */
#define STUB_STACK_BYTES (256 * 1024)
#define STUB_STACK_GUARD 4096

#endif /* ROCATTACH_INJECTOR_STUB_FRAME_H_ */
