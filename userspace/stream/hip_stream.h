// The HIP streams of dispatches and copies, for readers of recordings.
#ifndef ROCATTACH_USERSPACE_STREAM_HIP_STREAM_H_
#define ROCATTACH_USERSPACE_STREAM_HIP_STREAM_H_

#include "userspace/abi/hip_stream.h"

#endif  // ROCATTACH_USERSPACE_STREAM_HIP_STREAM_H_
