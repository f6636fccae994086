// Numbers formatted for users.
#ifndef ROCATTACH_USERSPACE_BASE_HUMAN_H_
#define ROCATTACH_USERSPACE_BASE_HUMAN_H_

#include <cstdint>
#include <string>

namespace rocattach {

// "312 ns", "41.2 us", "3.07 ms", "2.50 s", "1 h 02 min": about three digits.
std::string HumanDuration(uint64_t ns);
// "512 B", "8.00 KiB", "3.25 GiB".
std::string HumanBytes(uint64_t bytes);
// "1,234,567".
std::string HumanCount(uint64_t count);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_HUMAN_H_
