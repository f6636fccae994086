// A queue whose doorbell is captured, and its producer.
#ifndef ROCATTACH_TESTS_UNIT_COLLECTOR_HSA_DOORBELL_FIXTURE_H_
#define ROCATTACH_TESTS_UNIT_COLLECTOR_HSA_DOORBELL_FIXTURE_H_

#include <gtest/gtest.h>

#include "tests/unit/collector/hsa/fake_hsa.h"
#include "userspace/collector/hsa/doorbell.h"

namespace rocattach::collector {

inline constexpr uint64_t kKernel = 0x7f0000001000;

class DoorbellTest : public testing::Test {
 protected:
  DoorbellTest() {
    f_.kernels.Insert(kKernel, 5);
    ring_ = f_.rings.Mine();
  }
  // Submits one dispatch as an application does.
  uint64_t Launch(amd_signal_t* completion = nullptr) {
    uint64_t index = gpu_.Reserve();
    gpu_.Write(index, kKernel, completion);
    f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(index), &ring_);
    return index;
  }
  CaptureFixture f_;
  FakeGpu gpu_{16};
  RingHandle ring_;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_TESTS_UNIT_COLLECTOR_HSA_DOORBELL_FIXTURE_H_
