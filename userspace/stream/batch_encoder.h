// Code that the encoders of batches share: columns of records, and the table of the
// records' shapes.
#ifndef ROCATTACH_USERSPACE_STREAM_BATCH_ENCODER_H_
#define ROCATTACH_USERSPACE_STREAM_BATCH_ENCODER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "userspace/stream/frame.h"
#include "userspace/stream/packed_column.h"
#include "userspace/stream/shape_table.h"

namespace rocattach {

// Approximate size of a shape on the wire.
inline constexpr size_t kShapeBytes = 16;

// State of a queue that reader and writer both keep within a batch.
struct SlotState {
  uint64_t last_end = 0;
  uint64_t last_packet = 0;
};
inline constexpr size_t kBatchSlots = 64;

// A column of a batch, and the number of its field in the batch's message.
class BatchColumn : public PackedColumn {
 public:
  explicit BatchColumn(uint32_t field) : field_(field) {}

  // Appends the difference from the last value, less `step`, which is expected.
  void PutChange(uint64_t value, uint64_t step = 0) {
    Put(ZigZag(value - last_ - step));
    last_ = value;
  }
  void AppendTo(std::string* out) const { PackedColumn::AppendTo(field_, out); }
  void Clear() {
    PackedColumn::Clear();
    last_ = 0;
  }

 private:
  uint32_t field_;
  uint64_t last_ = 0;
};

// The columns of a batch, in the order in which they are written.
template <size_t kColumns>
class BatchColumns {
 public:
  explicit BatchColumns(const uint32_t (&fields)[kColumns]) {
    columns_.reserve(kColumns);
    for (uint32_t field : fields) columns_.emplace_back(field);
  }

  BatchColumn& operator[](size_t index) { return columns_[index]; }

  size_t bytes() const {
    size_t bytes = 0;
    for (const BatchColumn& column : columns_) bytes += column.bytes();
    return bytes;
  }
  // Makes room in all columns.
  void Reserve(size_t entries) {
    for (BatchColumn& column : columns_) column.Reserve(entries);
  }
  void AppendTo(std::string* out) const {
    for (const BatchColumn& column : columns_) column.AppendTo(out);
  }
  void Clear() {
    for (BatchColumn& column : columns_) column.Clear();
  }

 private:
  std::vector<BatchColumn> columns_;
};

// Source of a column of the shape table: field number in the batch's message, word of
// the key, shift and width in bits (1 to 64).
struct ShapeColumn {
  uint32_t field;
  size_t word;
  unsigned shift;
  unsigned bits;
};

// Writes the shape table, one column after another.
template <typename Key>
void AppendShapeColumns(absl::Span<const ShapeColumn> columns,
                        const std::vector<Key>& keys, std::string* out) {
  PackedColumn packed;
  for (const ShapeColumn& column : columns) {
    packed.Clear();
    packed.Reserve(keys.size());
    for (const Key& key : keys) {
      packed.Put((key[column.word] >> column.shift) &
                 (~uint64_t{0} >> (64 - column.bits)));
    }
    packed.AppendTo(column.field, out);
  }
}

// The base of encoders whose columns have one entry for each record. A shape has a key
// of `kWords` words.
template <size_t kWords, size_t kColumns>
class BatchEncoder {
 public:
  // True at the size that was given, or at kMaxBatchRecords.
  bool full() const { return count_ >= kMaxBatchRecords || bytes() >= batch_bytes_; }
  size_t count() const { return count_; }
  // The number of operations: one for each record.
  size_t operations() const { return count_; }
  // Approximate size of the message that EncodeTo() will write.
  size_t bytes() const {
    return columns_.bytes() + other_bytes_ + shapes_.keys().size() * kShapeBytes;
  }

 protected:
  using Shapes = ShapeTable<kWords>;

  BatchEncoder(size_t batch_bytes, const uint32_t (&fields)[kColumns])
      : batch_bytes_(batch_bytes), columns_(fields) {}

  // Number of records that are appended before the size is checked again, at most
  // `block`.
  size_t NextBlock(size_t left, size_t block) const {
    return std::min({block, left, kMaxBatchRecords - count_});
  }
  void AppendShapesTo(uint32_t field, absl::Span<const ShapeColumn> columns,
                      std::string* out) const {
    AppendField(field, shapes_.keys().size(), out);
    AppendShapeColumns(columns, shapes_.keys(), out);
  }
  void Clear() {
    count_ = other_bytes_ = 0;
    shapes_.Clear();
    columns_.Clear();
  }

  const size_t batch_bytes_;
  size_t count_ = 0;
  size_t other_bytes_ = 0;  // of what is in no column
  Shapes shapes_;
  BatchColumns<kColumns> columns_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_BATCH_ENCODER_H_
