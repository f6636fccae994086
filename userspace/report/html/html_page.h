// A report as one self-contained HTML page.
#ifndef ROCATTACH_USERSPACE_REPORT_HTML_HTML_PAGE_H_
#define ROCATTACH_USERSPACE_REPORT_HTML_HTML_PAGE_H_

#include <string>

#include "userspace/report/html/page_builder.h"
#include "userspace/report/kernel_groups.h"
#include "userspace/report/report.h"

namespace rocattach {

// The whole file. Contents of the recording are in it as data only, never as markup or
// code. Its size is bounded, regardless of the size of the recording.
std::string FormatHtmlPage(const Report& report, const PageData& data,
                           const KernelGroups& groups);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_HTML_HTML_PAGE_H_
