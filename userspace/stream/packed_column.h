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

namespace rocattach {

inline constexpr size_t kMaxVarintBytes = 10;

// Writes `value` as a varint and returns the position after it.
inline uint8_t* PutVarint(uint64_t value, uint8_t* out) {
  // Most differences have one byte or two.
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

// A varint field.
inline void AppendField(uint32_t field, uint64_t value, std::string* out) {
  AppendVarint(uint64_t{field} << 3, out);
  AppendVarint(value, out);
}

// One column. Reserve() makes room for many entries at once, so Put() does not check.
class PackedColumn {
 public:
  size_t bytes() const { return size_; }

  void Reserve(size_t entries) {
    size_t need = size_ + entries * kMaxVarintBytes;
    if (need <= capacity_) return;
    size_t capacity = std::max(need, capacity_ * 2);
    std::unique_ptr<uint8_t[]> data(new uint8_t[capacity]);
    if (size_ > 0) memcpy(data.get(), data_.get(), size_);
    data_ = std::move(data);
    capacity_ = capacity;
  }

  void Put(uint64_t value) {
    any_ |= value;
    size_ = static_cast<size_t>(PutVarint(value, data_.get() + size_) - data_.get());
  }

  // Appends zero entries to reserved room.
  void PutZeros(size_t entries) {
    memset(data_.get() + size_, 0, entries);
    size_ += entries;
  }

  // Puts with position and bits in registers; for a loop over several columns. The
  // column must not be used otherwise while a Run exists.
  class Run {
   public:
    explicit Run(PackedColumn* column)
        : column_(column), out_(column->data_.get() + column->size_) {}
    ~Run() {
      column_->size_ = static_cast<size_t>(out_ - column_->data_.get());
      column_->any_ |= any_;
    }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    void Put(uint64_t value) {
      any_ |= value;
      out_ = PutVarint(value, out_);
    }

   private:
    PackedColumn* column_;
    uint8_t* out_;
    uint64_t any_ = 0;
  };

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
  std::unique_ptr<uint8_t[]> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
  uint64_t any_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_PACKED_COLUMN_H_
