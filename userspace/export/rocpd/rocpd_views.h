// The views of a rocpd database that join its tables: what queries are made on.
#ifndef ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_VIEWS_H_
#define ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_VIEWS_H_

#include <string>

namespace rocattach {

// SQL of all of them, for schema version 3.0.MINOR.
std::string RocpdDataViews(int minor);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_VIEWS_H_
