#include "userspace/report/html/html_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "userspace/report/html/page_assets.h"
#include "userspace/report/html/page_data_json.h"

namespace rocattach {
namespace {

// JSON inside a script element: nothing in it can end the element or begin a comment.
std::string ScriptJson(const Json& json) {
  return absl::StrReplaceAll(DumpJson(json),
                             {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

}  // namespace

std::string FormatHtmlPage(const Report& report, const PageData& data,
                           const KernelGroups& groups) {
  const PageAssets assets = BuiltinPageAssets();
  return absl::StrReplaceAll(
      assets.page, {{"{{style}}", assets.style},
                    {"{{data}}", ScriptJson(PageDataJson(report, data, groups))},
                    {"{{script}}", assets.script}});
}

}  // namespace rocattach
