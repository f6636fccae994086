// A library that was built for one version of the thunk's interface: it imports what that
// version has, and calls what the tests want to see.
#include <stdbool.h>
#include <stdint.h>

int hsaKmtOpenKFD(void);
int hsaKmtGetNodeProperties(uint32_t node, void* properties);
int hsaKmtGetNodeIoLinkProperties(uint32_t node, uint32_t count, void* links);
int hsaKmtGetVersion(uint32_t version[2]);
int hsaKmtRuntimeEnable(void* r_debug, bool setup_ttmp);
int hsaKmtRuntimeDisable(void);
int hsaKmtCreateQueueExt(void);
int hsaKmtModelEnabled(bool* enabled);

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int caller_node(uint32_t node, void* properties) {
  volatile int status = hsaKmtGetNodeProperties(node, properties);
  return status;  // no tail call, which would have the test for its caller
}
EXPORTED int caller_links(uint32_t node, uint32_t count, void* links) {
  volatile int status = hsaKmtGetNodeIoLinkProperties(node, count, links);
  return status;
}
EXPORTED int caller_version(uint32_t version[2]) {
  volatile int status = hsaKmtGetVersion(version);
  return status;
}
EXPORTED int caller_enable(void) {
  volatile int status = hsaKmtRuntimeEnable(0, false);
  return status;
}
EXPORTED int caller_disable(void) {
  volatile int status = hsaKmtRuntimeDisable();
  return status;
}

#if CALLER_INTERFACE >= 2024
EXPORTED int caller_of_2024(void) {
  return hsaKmtCreateQueueExt();
}
#endif
#if CALLER_INTERFACE >= 2025
EXPORTED int caller_of_2025(bool* enabled) {
  return hsaKmtModelEnabled(enabled);
}
#endif
