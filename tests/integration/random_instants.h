// Random instants that fall both before and after the end of an operation, regardless
// of the machine's speed.
#ifndef ROCATTACH_TESTS_INTEGRATION_RANDOM_INSTANTS_H_
#define ROCATTACH_TESTS_INTEGRATION_RANDOM_INSTANTS_H_

#include <algorithm>
#include <chrono>
#include <random>

namespace rocattach {

class RandomInstants {
 public:
  // `longest_us` is the range of the first delays; Add() adjusts it.
  explicit RandomInstants(int longest_us = 500) : longest_us_(longest_us) {}

  // Returns the time to wait before the next instant.
  std::chrono::microseconds Next(std::mt19937* random) const {
    return std::chrono::microseconds(
        std::uniform_int_distribution<int>(0, longest_us_)(*random));
  }
  // `late`: the operation that was to be interrupted had ended by then.
  void Add(bool late) {
    ++(late ? late_ : early_);
    // Many of one kind in a row: the operation ends outside the range.
    row_ = late == last_ ? row_ + 1 : 1;
    last_ = late;
    if (row_ % 6 != 0) return;
    longest_us_ = std::clamp(late ? longest_us_ / 2 : longest_us_ * 2, 50, 2'000'000);
  }
  bool OneSided() const { return early_ == 0 || late_ == 0; }

 private:
  int longest_us_;
  int early_ = 0, late_ = 0;
  int row_ = 0;
  bool last_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_RANDOM_INSTANTS_H_
