// A file of a conversion. It is written under the name PATH.partial and renamed to PATH
// when it is complete, so that, whatever happens, a file with the final name is whole.
// A file that is to be read while it grows has its final name from the start.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_OUTPUT_FILE_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_OUTPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/base/unique_fd.h"
#include "userspace/export/common/export_options.h"

namespace rocattach {

inline constexpr char kPartialSuffix[] = ".partial";

// Returns the name under which to write `path`. ALREADY_EXISTS if it exists, unless
// options.force is set. Removes what is left of an earlier conversion.
absl::StatusOr<std::string> PrepareOutput(const std::string& path,
                                          const ExportOptions& options);
// Gives a complete output its final name. With `force`, replaces a file of that name.
absl::Status CompleteOutput(const std::string& written, const std::string& path,
                            bool force);

class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(
      std::string path, const ExportOptions& options);

  // Data in this buffer is written when there is enough of it: append, then call
  // WriteIfFull().
  std::string* buffer() { return &buffer_; }
  absl::Status WriteIfFull() {
    return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
  }
  absl::Status Append(absl::string_view text) {
    buffer_.append(text.data(), text.size());
    return WriteIfFull();
  }
  // Reserves disk space, if possible, for the beginning of a file that is written at
  // the end, so that at least this part exists even if the disk is full by then.
  void Reserve();
  // Writes the buffered data.
  absl::Status Flush();
  // Writes the rest and gives the file its final name. Only name() may be called then.
  absl::Status Complete();

  // The current name.
  const std::string& name() const { return name_; }

 private:
  static constexpr size_t kBufferBytes = 64 << 10;

  OutputFile(UniqueFd fd, std::string name, std::string path, bool force)
      : fd_(std::move(fd)),
        name_(std::move(name)),
        path_(std::move(path)),
        force_(force) {}

  UniqueFd fd_;
  std::string name_;
  const std::string path_;
  const bool force_;
  bool reserved_ = false;
  std::string buffer_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_OUTPUT_FILE_H_
