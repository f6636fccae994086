// Aligned columns.
#ifndef ROCATTACH_USERSPACE_REPORT_TABLE_H_
#define ROCATTACH_USERSPACE_REPORT_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace rocattach {

// All columns but the last are right-aligned; the last one is text, and is truncated if
// the line would be too wide.
class Table {
 public:
  explicit Table(std::vector<std::string> heading) : rows_{std::move(heading)} {}

  // As many cells as the heading has.
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  // Every line begins with `indent` blanks. `width` 0: no limit. The heading is written
  // between `heading_on` and `heading_off`.
  std::string Format(size_t indent, size_t width, const char* heading_on,
                     const char* heading_off) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_TABLE_H_
