// Writes the SDK's file of counters, for programs that read it: blocks and
// architectures of the simulated hardware, in the format of the installed file.
#include <cstdio>
#include <sstream>
#include <string>

#include "tests/simrocm/sdk/counter_names.h"

int main() {
  printf("rocprofiler-sdk:\n  counters-schema-version: 1\n  counters:\n");
  for (const auto& block : simrocm::sdk::kNamedBlocks) {
    std::istringstream names(block.names);
    for (std::string name; names >> name;) {
      printf(
          "  - name: %s\n"
          "    description: Simulated counter. Its block is in the definition below,\n"
          "      and so are its architectures.\n"
          "    properties: []\n"
          "    definitions:\n"
          "    - architectures:\n"
          "      - gfx90a\n%s"
          "      block: %s\n"
          "      event: 1\n",
          name.c_str(), block.only_gfx90a ? "" : "      - gfx906\n", block.block);
    }
  }
  return fflush(stdout) == 0 ? 0 : 1;
}
