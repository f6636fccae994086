// A collector's shared memory, into which a target writes anything that an input says.
#ifndef ROCATTACH_TESTS_FUZZ_RECORD_HOSTILE_COLLECTOR_H_
#define ROCATTACH_TESTS_FUZZ_RECORD_HOSTILE_COLLECTOR_H_

#include <cstdint>
#include <vector>

#include "tests/fuzz/record/fuzz_input.h"
#include "tests/unit/record/fake_collector.h"

namespace rocattach {

// Each function takes its operands from the input, see commands.h.
class HostileCollector {
 public:
  FakeCollector* memory() { return &fake_; }

  // Any bytes at any place.
  void Write(FuzzInput* input);
  void SetField(FuzzInput* input);
  void AddToField(FuzzInput* input);
  void PunchHole(FuzzInput* input);
  // In a collector's order of steps, with any contents.
  void Publish(FuzzInput* input);
  void AddEntry(FuzzInput* input);
  void AddInflight(FuzzInput* input);
  void Answer(FuzzInput* input);

  // Pages that must remain holes when the service reads them: those of the rings except
  // for their first pages, of operations in flight and of the dictionary. Returns which
  // of them have contents.
  std::vector<bool> PagesWithContents() const;

 private:
  uint64_t* Field(FuzzInput* input);
  // The generation of the plan written last, unless the target has overwritten it.
  uint64_t Generation() { return fake_.plan()->generation; }
  void Stamp(uint8_t* record);
  void PublishOne(uint32_t ring, const uint8_t* record);

  FakeCollector fake_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_FUZZ_RECORD_HOSTILE_COLLECTOR_H_
