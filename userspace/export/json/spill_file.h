// Text that must wait until everything before it is complete. It is kept in a file
// without a name, so that memory stays bounded and no file is left behind.
#ifndef ROCATTACH_USERSPACE_EXPORT_JSON_SPILL_FILE_H_
#define ROCATTACH_USERSPACE_EXPORT_JSON_SPILL_FILE_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "userspace/base/unique_fd.h"
#include "userspace/export/common/output_file.h"

namespace rocattach {

class SpillFile {
 public:
  // The file is created in this directory when the buffer is first full.
  explicit SpillFile(std::string directory) : directory_(std::move(directory)) {}

  // Append to this, then call WriteIfFull().
  std::string* buffer() { return &buffer_; }
  absl::Status WriteIfFull();
  bool empty() const { return written_ == 0 && buffer_.empty(); }

  // Appends everything to `out`, and becomes empty.
  absl::Status MoveTo(OutputFile* out);

 private:
  std::string directory_;
  UniqueFd fd_;
  std::string buffer_;
  size_t written_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_JSON_SPILL_FILE_H_
