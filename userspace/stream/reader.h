// Reads files, pipes, and files that are still being written.
#ifndef ROCATTACH_USERSPACE_STREAM_READER_H_
#define ROCATTACH_USERSPACE_STREAM_READER_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "userspace/stream/decoder.h"

namespace rocattach {

struct ReadOptions {
  // At the end of a file, wait for more until its recording ends.
  bool follow = false;
  // Called between reads, and several times a second while waiting. True ends the
  // reading without an error; the rest of the input does not count as missing.
  std::function<bool()> stop = nullptr;
  // Maximum bytes per read.
  size_t read_bytes = 256 << 10;
};

// Feeds everything in `path` ("-": standard input) to the decoder, and ends the input
// there. The decoder reports damage in it. Errors: the file cannot be opened or read,
// shrank while it was followed (DATA_LOSS), or contains no frame at all
// (INVALID_ARGUMENT). Everything read before an error has been delivered.
absl::Status ReadStream(const std::string& path, const ReadOptions& options,
                        StreamDecoder* decoder);

// The same from an open descriptor; `name` is for messages.
absl::Status ReadStreamFd(int fd, const std::string& name, const ReadOptions& options,
                          StreamDecoder* decoder);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_READER_H_
