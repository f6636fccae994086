// A report as one page for browsers that needs nothing else.
#ifndef ROCATTACH_USERSPACE_REPORT_HTML_HTML_PAGE_H_
#define ROCATTACH_USERSPACE_REPORT_HTML_HTML_PAGE_H_

#include <string>

#include "userspace/report/html/page_builder.h"
#include "userspace/report/kernel_groups.h"
#include "userspace/report/report.h"

namespace rocattach {

// The whole file. Whatever the recording contains is data in it, never markup or code;
// its size is bounded, whatever that of the recording.
std::string FormatHtmlPage(const Report& report, const PageData& data,
                           const KernelGroups& groups);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_HTML_HTML_PAGE_H_
