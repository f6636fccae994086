// Files that are being written.
#ifndef ROCATTACH_USERSPACE_STREAM_WRITTEN_FILE_H_
#define ROCATTACH_USERSPACE_STREAM_WRITTEN_FILE_H_

namespace rocattach {

// While this open file exists, IsBeingWritten() is true of its file. Has no effect
// where there are no such locks.
void MarkAsWritten(int fd);
// Whether somebody may be writing to the file, as far as can be told.
bool IsBeingWritten(int fd);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_WRITTEN_FILE_H_
