// Aligned columns.
#ifndef ROCATTACH_USERSPACE_REPORT_TABLE_H_
#define ROCATTACH_USERSPACE_REPORT_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace rocattach {

// All columns but the last are right-aligned; the last one is text. If a line would be
// too wide, columns are left out, and then the text is truncated.
class Table {
 public:
  // `may_go`: headings of columns that may be left out, in this order.
  explicit Table(std::vector<std::string> heading, std::vector<std::string> may_go = {})
      : rows_{std::move(heading)}, may_go_(std::move(may_go)) {}

  // `row` must have as many cells as the heading.
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  // Every line begins with `indent` blanks. `width` 0: no limit. The heading is written
  // between `heading_on` and `heading_off`.
  std::string Format(size_t indent, size_t width, const char* heading_on,
                     const char* heading_off) const;

  // The headings that Format() leaves out.
  std::vector<std::string> LeftOut(size_t indent, size_t width) const;

 private:
  // The widths of all columns.
  std::vector<size_t> Widths() const;

  std::vector<std::vector<std::string>> rows_;
  const std::vector<std::string> may_go_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_TABLE_H_
