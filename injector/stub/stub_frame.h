/* Sizes that stub_code.S and stub.cc share: the preprocessor reads this for both. */
#ifndef ROCATTACH_INJECTOR_STUB_STUB_FRAME_H_
#define ROCATTACH_INJECTOR_STUB_STUB_FRAME_H_

/* The most that the stub writes below the thread's stack pointer, red zone included:
 * 128 bytes of red zone, 15 pushes, the frame record, the signal mask and what is behind
 * it, rounded up. */
#define STUB_FRAME_BYTES 320

/* Maximum number of bytes of dlerror's text that are reported. */
#define STUB_ERROR_BYTES 512

/* Offsets and sizes in the collector's path field of a stub that is sent a file, behind
 * the name: the part of a descriptor's path before its number (longer than needed, so
 * that the loaded name fits in its place); the name of the loaded library, terminator
 * included; the address of its socket; and the key of the message. */
#define DESCRIPTOR_PATH 64
#define DESCRIPTOR_PATH_BYTES 33
#define LOADED_NAME 128
#define LOADED_NAME_BYTES 33
#define SOCKET_NAME 192
#define SOCKET_NAME_BYTES 19
#define SOCKET_KEY 224
#define SOCKET_KEY_BYTES 16

/* The stub's own stack, and the inaccessible part at its lower end. dlopen and the
 * collector's start used some 13 KB in measurements; functions of the target that
 * dlopen calls (a malloc, auditors) may use more. */
#define STUB_STACK_BYTES (256 * 1024)
#define STUB_STACK_GUARD 4096

#endif /* ROCATTACH_INJECTOR_STUB_STUB_FRAME_H_ */
