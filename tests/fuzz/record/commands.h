// The input of fuzz_collector_memory: a byte of settings, then commands, each with its
// operands, in the machine's byte order.
#ifndef ROCATTACH_TESTS_FUZZ_RECORD_COMMANDS_H_
#define ROCATTACH_TESTS_FUZZ_RECORD_COMMANDS_H_

#include <cstdint>

namespace rocattach {

// Bits of the first byte. The other bits are the budget of each call at the end.
inline constexpr uint8_t kFuzzOneView = 1;   // there is room for one ring only
inline constexpr uint8_t kFuzzTakeOver = 2;  // from an earlier service

enum class FuzzCommand : uint8_t {
  // The target.
  kWrite,       // u32 offset, u8 length, bytes
  kSetField,    // u8 part (FuzzPart), u8 word, u64 value
  kAddToField,  // u8 part, u8 word, i8 value
  kPublish,     // u8 ring and kFuzzStamped, u8 times, 96 bytes of a record
  kAddEntry,  // u8 kind, u32 id, u16 length of the text, u8 length, bytes behind the head
  kAddInflight,  // u8 place, 80 bytes of an entry
  kPunchHole,    // u8 page
  kAnswer,       // u8 error
  // The service.
  kDrain,  // u16 budget; 0 is none
  kStart,  // u8 plan
  kStop,
  kSettle,    // u8: after an answer, or after the next sweep
  kPoll,      // u8 how much later, in 16 ms
  kRest,      // u8 how long, in ms
  kLook,      // everything that callers ask of a target
  kSampling,  // u16 divisor
  // During the next call of a session's sink.
  kDuringCall,  // u8 FuzzDuringCall; then the operands of kWrite or kStart
  kCount
};

enum class FuzzPart : uint8_t { kControl, kFirstRing, kSecondRing, kAnswer, kCount };
enum class FuzzDuringCall : uint8_t { kWrite, kStart, kStop, kCount };

// The record gets the tag of the plan that was written last.
inline constexpr uint8_t kFuzzStamped = 0x80;

// Bits of a plan.
inline constexpr uint8_t kFuzzPlanOfKernels = 1;  // restricted to some kernels
inline constexpr uint8_t kFuzzPlanOfNumbers = 2;  // … to some dispatches
inline constexpr uint8_t kFuzzPlanInstances = 4;
inline constexpr uint8_t kFuzzPlanCalls = 8;  // with API calls and samples
inline constexpr uint8_t kFuzzPlans = 16;

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_FUZZ_RECORD_COMMANDS_H_
