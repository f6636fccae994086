/* Definitions shared by call_stub_code.S and call_stub.cc: the preprocessor reads this
 * file for both. */
#ifndef ROCATTACH_INJECTOR_STUB_CALL_FRAME_H_
#define ROCATTACH_INJECTOR_STUB_CALL_FRAME_H_

/* Offsets in struct CallBlock. */
#define CALL_STATE 8
#define CALL_RESULT 16

/* Values of CallBlock::state; 0 until the stub begins. */
#define CALL_ENTERED 1
#define CALL_RETURNED 2

/* Distance between the thread's stack pointer and the block: room for the stub's own
 * frame, and for what the thread may use after the call while the block is still read.
 */
#define CALL_GAP 8192

#endif /* ROCATTACH_INJECTOR_STUB_CALL_FRAME_H_ */
