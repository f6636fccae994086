// Writes a few well-formed images into a directory, as seeds for elf_fuzz.
#include <fstream>
#include <string>

#include "tests/unit/injector/elf_builder.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  using rocattach::ElfBuilder;
  int number = 0;
  for (auto hash :
       {ElfBuilder::Hash::kGnu, ElfBuilder::Hash::kSysv, ElfBuilder::Hash::kNone}) {
    for (bool versions : {true, false}) {
      ElfBuilder builder;
      builder.hash = hash;
      builder.versions = versions;
      builder.symbols = {{"hsa_init"},
                         {"dlopen", 0x2010, STT_FUNC, STB_GLOBAL, true, 0x8002},
                         {"dlopen"},
                         {"f", 0x2020, STT_GNU_IFUNC},
                         {"function_1"}};
      std::ofstream out(std::string(argv[1]) + "/image-" + std::to_string(number++),
                        std::ios::binary);
      out << builder.Build();
      if (!out.flush()) return 1;
    }
  }
  return 0;
}
