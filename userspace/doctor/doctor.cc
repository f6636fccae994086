#include "userspace/doctor/doctor.h"

#include <sys/utsname.h>

#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "userspace/doctor/collector_check.h"
#include "userspace/doctor/kernel_checks.h"
#include "userspace/doctor/library_checks.h"
#include "userspace/doctor/privilege_checks.h"
#include "userspace/doctor/self_tests.h"
#include "userspace/watch/discovery/library_scanner.h"
#include "userspace/watch/discovery/translated_processes.h"

namespace rocattach {

DoctorReport ReadMachine(const Machine& machine, const std::string& kernel_release,
                         const std::string& kernel_machine) {
  Capabilities capabilities = ReadCapabilities(machine);
  DoctorReport report;
  report.checks = {
      CheckKernel(kernel_release, kernel_machine),
      CheckBtf(machine),
      CheckUprobeSource(machine),
      CheckCapabilities(capabilities),
      CheckNamespaces(machine),
      CheckYama(machine, capabilities),
      CheckLockdown(machine),
      CheckSeccompOfSelf(machine),
      CheckUnprivilegedBpf(machine),
      CheckHidePid(machine, capabilities),
      CheckProcMem(machine),
      CheckMemfd(machine),
      CheckClock(machine),
      CheckGpu(machine),
  };
  return report;
}

DoctorReport RunDoctor(const DoctorOptions& options) {
  Machine machine;
  utsname name = {};
  (void)uname(&name);  // cannot fail with a valid buffer
  DoctorReport report = ReadMachine(machine, name.release, name.machine);
  Capabilities capabilities = ReadCapabilities(machine);

  report.checks.push_back(CheckPtrace());
  std::unique_ptr<KernelProbe> probe;
  report.checks.push_back(CheckHold(capabilities, options.best_hold_mode, &probe));
  report.checks.push_back(CheckFeatures(probe.get()));
  report.checks.push_back(CheckWindow(capabilities, probe.get()));
  probe.reset();
  report.checks.push_back(CheckTranslators(TranslatedProcesses::WhatIsLacking()));

  LibraryScanOptions scan_options;
  scan_options.extra_paths = options.libraries;
  // The places where rocattach-watch looks as well.
  for (std::string& place : LibraryPathPlaces()) {
    scan_options.usual_places.push_back(std::move(place));
  }
  const std::vector<std::string> library_path = LibraryPathDirectories();
  LibraryScan scan = ScanLibraries(scan_options);
  report.checks.push_back(CheckHsaRuntimes(scan, capabilities.CanTraceOthers()));
  report.checks.push_back(CheckCollector(options.collector));
  report.checks.push_back(CheckRocprofilerRegister(machine, scan, library_path));
  report.checks.push_back(CheckRocprofilerSdk(machine, scan, library_path));
  return report;
}

}  // namespace rocattach
