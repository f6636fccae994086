// Columns of varints, encoded by hand so that an entry takes only a few nanoseconds;
// the result is a packed repeated field of protobuf.
#ifndef ROCATTACH_USERSPACE_STREAM_PACKED_COLUMN_H_
#define ROCATTACH_USERSPACE_STREAM_PACKED_COLUMN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/base/optimization.h"

namespace rocattach {

inline constexpr size_t kMaxVarintBytes = 10;

// Writes `value` as a varint and returns the position after it.
inline uint8_t* PutVarint(uint64_t value, uint8_t* out) {
  // Most differences take one or two bytes.
  if (value < 0x80) {
    *out = static_cast<uint8_t>(value);
    return out + 1;
  }
  if (value < 0x4000) {
    out[0] = static_cast<uint8_t>(value) | 0x80;
    out[1] = static_cast<uint8_t>(value >> 7);
    return out + 2;
  }
  while (value >= 0x80) {
    *out++ = static_cast<uint8_t>(value) | 0x80;
    value >>= 7;
  }
  *out++ = static_cast<uint8_t>(value);
  return out;
}

// The same without a branch, which would be mispredicted where lengths look random.
// `value` is below 2^14; writes two bytes at `out`, the second of which may not count.
inline uint8_t* PutVarint14(uint64_t value, uint8_t* out) {
  const uint64_t more = value > 0x7f ? 1 : 0;
  const auto bytes =
      static_cast<uint16_t>((value & 0x7f) | more << 7 | (value >> 7) << 8);
  memcpy(out, &bytes, sizeof(bytes));
  return out + 1 + more;
}

// The same for a `value` below 2^28; writes four bytes.
inline uint8_t* PutVarint28(uint64_t value, uint8_t* out) {
  const auto v = static_cast<uint32_t>(value);
  const auto bits = static_cast<uint32_t>(32 - __builtin_clz(v | 1));
  const uint32_t length = (9 * bits + 64) / 64;
  const uint32_t septets =
      (v & 0x7f) | (v << 1 & 0x7f00) | (v << 2 & 0x7f0000) | (v << 3 & 0x7f000000);
  const uint32_t more = 0x808080u >> (8 * (4 - length));
  const uint32_t bytes = septets | more;
  memcpy(out, &bytes, sizeof(bytes));
  return out + length;
}
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

// protobuf's sint64: small magnitudes of either sign become small numbers. The argument
// is a difference modulo 2^64.
inline uint64_t ZigZag(uint64_t difference) {
  return (difference << 1) ^ (0 - (difference >> 63));
}

inline void AppendVarint(uint64_t value, std::string* out) {
  uint8_t bytes[kMaxVarintBytes];
  uint8_t* end = PutVarint(value, bytes);
  out->append(reinterpret_cast<char*>(bytes), static_cast<size_t>(end - bytes));
}

// Appends a varint field.
inline void AppendField(uint32_t field, uint64_t value, std::string* out) {
  AppendVarint(uint64_t{field} << 3, out);
  AppendVarint(value, out);
}

// One column. Reserve() makes room for many entries at once, so Put() does not check.
// Leading zeros are only counted: many columns contain nothing else, and are omitted
// from the output.
class PackedColumn {
 public:
  size_t bytes() const { return size_; }

  void Reserve(size_t entries) {
    reserved_ = size_ + entries * kMaxVarintBytes;
    if (any_ != 0 && reserved_ > capacity_) Grow();
  }

  void Put(uint64_t value) {
    if (!IncludeBits(value)) {
      ++size_;
      return;
    }
    uint8_t* const data = data_.get();
    ABSL_ASSUME(data != nullptr);  // Reserve() was called for this entry
    size_ = static_cast<size_t>(PutVarint(value, data + size_) - data);
  }

  // Appends `entries` zeros to reserved room.
  void PutZeros(size_t entries) {
    if (any_ != 0) {
      // More than eight bytes are reserved for each entry.
      constexpr uint64_t kZeros = 0;
      for (size_t i = 0; i < entries; i += sizeof(kZeros)) {
        memcpy(data_.get() + size_ + i, &kZeros, sizeof(kZeros));
      }
    }
    size_ += entries;
  }

  // Appends entries to reserved room. `any`: all of them, ORed, which limits how long
  // they can be.
  void PutAll(const uint64_t* values, size_t entries, uint64_t any) {
    if (any == 0) return PutZeros(entries);
    (void)IncludeBits(any);
    uint8_t* const data = data_.get();
    ABSL_ASSUME(data != nullptr);  // Reserve() was called for these entries
    uint8_t* out = data + size_;
    const uint64_t* const end = values + entries;
    if (any < 0x80) {
      for (; values < end; ++values) *out++ = static_cast<uint8_t>(*values);
    } else if (any < 0x4000) {
      for (; values < end; ++values) out = PutVarint14(*values, out);
    } else if (any < 0x10000000) {
      for (; values < end; ++values) out = PutVarint28(*values, out);
    } else {
      for (; values < end; ++values) out = PutVarint(*values, out);
    }
    size_ = static_cast<size_t>(out - data);
  }

  // Appends the field, unless every entry is zero: then the column is omitted.
  void AppendTo(uint32_t field, std::string* out) const {
    if (any_ == 0) return;
    AppendVarint(uint64_t{field} << 3 | 2, out);
    AppendVarint(size_, out);
    out->append(reinterpret_cast<const char*>(data_.get()), size_);
  }

  void Clear() {
    size_ = 0;
    any_ = 0;
  }

 private:
  // True if the column, including `bits`, contains anything but zeros. The first time,
  // writes the zeros before them.
  bool IncludeBits(uint64_t bits) {
    if (any_ == 0) {
      if (bits == 0) return false;
      // Allocate only now: every target has columns that stay zero and need no memory.
      if (reserved_ > capacity_) Grow();
      if (size_ != 0) memset(data_.get(), 0, size_);
    }
    any_ |= bits;
    return true;
  }

  void Grow() {
    const size_t capacity = std::max(reserved_, capacity_ * 2);
    std::unique_ptr<uint8_t[]> data(new uint8_t[capacity]);
    if (any_ != 0) memcpy(data.get(), data_.get(), size_);
    data_ = std::move(data);
    capacity_ = capacity;
  }

  std::unique_ptr<uint8_t[]> data_;  // neither read nor written while any_ is 0
  size_t size_ = 0;
  size_t capacity_ = 0;
  size_t reserved_ = 0;  // capacity needed before anything is written
  uint64_t any_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_PACKED_COLUMN_H_
