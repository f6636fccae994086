// What the processor can do beyond what the program is compiled for.
#ifndef ROCATTACH_USERSPACE_BASE_CPU_FEATURES_H_
#define ROCATTACH_USERSPACE_BASE_CPU_FEATURES_H_

// For functions that are compiled for AVX2, each by itself. A whole file must not be:
// inline functions of headers would need AVX2, too, wherever the linker puts them.
#define ROCATTACH_AVX2 __attribute__((target("avx2")))

namespace rocattach {

// False before it is initialized, which is safe.
extern const bool kHasAvx2;

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_CPU_FEATURES_H_
