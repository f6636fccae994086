// Destinations for frames: files, pipes and other descriptors, memory.
#ifndef ROCATTACH_USERSPACE_STREAM_SINK_H_
#define ROCATTACH_USERSPACE_STREAM_SINK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Takes whole frames. After an error a later Write() may succeed, once space is free.
class Sink {
 public:
  virtual ~Sink() = default;

  // Writes one frame. On error, either nothing of it is left behind, or (where it
  // cannot be removed) a partial frame that readers skip by the checksums.
  virtual absl::Status Write(absl::string_view frame) = 0;

  // True if no later write can succeed: the reading end is closed.
  virtual bool broken() const = 0;

  // True if frames are compressed by default.
  virtual bool compress_by_default() const = 0;

  // The path, or "standard output", for messages.
  virtual const std::string& name() const = 0;
};

// Treatment of a file that exists already.
enum class ExistingFile {
  kRefuse,    // ALREADY_EXISTS
  kTruncate,  // replace its content; the name must not be a symbolic link
  kAppend,    // append frames: recordings can be concatenated
};

// Creates `path` (O_NOFOLLOW, mode 0640). A FIFO or a character device is written like
// a pipe. Errors name the path and, if there is one, the remedy.
absl::StatusOr<std::unique_ptr<Sink>> OpenFileSink(const std::string& path,
                                                   ExistingFile existing);

// Writes to a descriptor: a pipe, a socket, a terminal, or an open file, from its
// current position. A write fails with UNAVAILABLE if that stays full for
// `max_wait_msec`; later ones fail at once until there is room. Blocking descriptors
// are no exception: a write can block only if another process writes to the same pipe.
std::unique_ptr<Sink> MakeFdSink(UniqueFd fd, std::string name,
                                 uint32_t max_wait_msec = 1000);

// Standard output. The descriptor is duplicated, so that it stays open.
absl::StatusOr<std::unique_ptr<Sink>> OpenStdoutSink();

// Keeps everything in memory, for tests and tools.
class MemorySink : public Sink {
 public:
  // Frames are appended to *out, which must outlive the sink.
  explicit MemorySink(std::string* out) : out_(out) {}
  absl::Status Write(absl::string_view frame) override;
  bool broken() const override { return false; }
  bool compress_by_default() const override { return false; }
  const std::string& name() const override { return name_; }

 private:
  std::string* out_;
  std::string name_ = "memory";
};

// Marks a file that is being written: makes IsBeingWritten() true for it while this
// open file exists. Has no effect where such locks are not supported.
void MarkAsWritten(int fd);
// True if the file may have a writer, as far as can be told.
bool IsBeingWritten(int fd);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_SINK_H_
