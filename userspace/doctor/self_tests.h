// Checks that perform the steps of an attach on a child of this process: load the BPF
// programs, hold a thread at a probe, stop it, write its memory, release it.
#ifndef ROCATTACH_USERSPACE_DOCTOR_SELF_TESTS_H_
#define ROCATTACH_USERSPACE_DOCTOR_SELF_TESTS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "userspace/doctor/check.h"
#include "userspace/doctor/privilege_checks.h"
#include "userspace/watch/windows/kernel_probe.h"

namespace rocattach {

// "ptrace": seizes, stops and releases a child and writes one of its code pages, as an
// attach does.
Check CheckPtrace();

// "hold": loads the BPF programs and reports the hold mode in use. Passes them on in
// `probe` (null if they do not load). Modes preferred over `best_hold_mode` are not
// tried.
Check CheckHold(const Capabilities& capabilities, HoldMode best_hold_mode,
                std::unique_ptr<KernelProbe>* probe);

// "features": which optional features this kernel lacks, and what that costs. `probe`
// may be null.
Check CheckFeatures(const KernelProbe* probe);

// "window": puts the real probe on a function of this program, lets a child run into
// it, and stops the child there. `probe` may be null (then it is unchecked).
Check CheckWindow(const Capabilities& capabilities, KernelProbe* probe);

// File offset in /proc/self/exe of the first instruction of `function`.
absl::StatusOr<uint64_t> OwnFileOffset(void (*function)());

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_SELF_TESTS_H_
