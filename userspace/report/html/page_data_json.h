// The data that the scripts of a page read.
#ifndef ROCATTACH_USERSPACE_REPORT_HTML_PAGE_DATA_JSON_H_
#define ROCATTACH_USERSPACE_REPORT_HTML_PAGE_DATA_JSON_H_

#include "userspace/base/json.h"
#include "userspace/report/html/page_builder.h"
#include "userspace/report/kernel_groups.h"
#include "userspace/report/report.h"

namespace rocattach {

// One object with `recordings`, `processes`, `kernels`, `groups`, `copies`, `timeline`
// and `flame`, which refer to processes by name and to kernels by index. Times of the
// timeline are nanoseconds from its origin, each stored as a difference.
Json PageDataJson(const Report& report, const PageData& data,
                  const KernelGroups& groups);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_HTML_PAGE_DATA_JSON_H_
