// The fixed parts of a page, compiled in from userspace/report/html/assets/.
#ifndef ROCATTACH_USERSPACE_REPORT_HTML_PAGE_ASSETS_H_
#define ROCATTACH_USERSPACE_REPORT_HTML_PAGE_ASSETS_H_

#include "absl/strings/string_view.h"

namespace rocattach {

struct PageAssets {
  absl::string_view page, style, script;
};

PageAssets BuiltinPageAssets();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_HTML_PAGE_ASSETS_H_
