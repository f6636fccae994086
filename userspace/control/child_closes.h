// Descriptors that children of fork() must not keep.
#ifndef ROCATTACH_USERSPACE_CONTROL_CHILD_CLOSES_H_
#define ROCATTACH_USERSPACE_CONTROL_CHILD_CLOSES_H_

namespace rocattach {

// A child that is created with fork() closes its copy of `fd` before fork() returns in
// it: the other end of a connection would not notice that this process has ended for as
// long as a child has the socket. Does not own the descriptor; one that has been
// closed, and whose number another file has by now, is left alone.
void CloseInChildren(int fd);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_CHILD_CLOSES_H_
