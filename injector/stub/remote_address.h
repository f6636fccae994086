// An address in another process: a number that cannot be dereferenced here.
#ifndef ROCATTACH_INJECTOR_STUB_REMOTE_ADDRESS_H_
#define ROCATTACH_INJECTOR_STUB_REMOTE_ADDRESS_H_

#include <compare>
#include <cstdint>

namespace rocattach {

inline constexpr uint64_t kPageBytes = 4096;  // x86-64's smallest pages

// Arithmetic wraps as unsigned numbers do; a sum of untrusted parts must be checked
// against a mapping before it is used.
class RemoteAddress {
 public:
  constexpr RemoteAddress() = default;
  constexpr explicit RemoteAddress(uint64_t value) : value_(value) {}

  constexpr uint64_t value() const { return value_; }
  constexpr bool is_null() const { return value_ == 0; }

  constexpr RemoteAddress operator+(uint64_t bytes) const {
    return RemoteAddress(value_ + bytes);
  }
  constexpr RemoteAddress operator-(uint64_t bytes) const {
    return RemoteAddress(value_ - bytes);
  }
  // Distance in bytes; `other` must not be above this one.
  constexpr uint64_t operator-(RemoteAddress other) const {
    return value_ - other.value_;
  }
  constexpr auto operator<=>(const RemoteAddress&) const = default;

 private:
  uint64_t value_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_STUB_REMOTE_ADDRESS_H_
