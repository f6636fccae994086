// Functions that newer runtimes take the address of when they are loaded, and that
// nothing here simulates: debuggers, sampling of program counters, hardware counters of
// the driver, its events, graphics, memory of other processes. They answer as a driver
// does that has no such thing, whatever they are given.
#include <hsakmttypes.h>

#define ABSENT(name)                    \
  HSAKMT_STATUS name(void);             \
  HSAKMT_STATUS name(void) {            \
    return HSAKMT_STATUS_NOT_SUPPORTED; \
  }

ABSENT(hsaKmtDbgAddressWatch)
ABSENT(hsaKmtDbgDisable)
ABSENT(hsaKmtDbgEnable)
ABSENT(hsaKmtDbgGetDeviceData)
ABSENT(hsaKmtDbgGetQueueData)
ABSENT(hsaKmtDbgRegister)
ABSENT(hsaKmtDbgUnregister)
ABSENT(hsaKmtDbgWavefrontControl)
ABSENT(hsaKmtDebugTrapIoctl)
ABSENT(hsaKmtExportDMABufHandle)
ABSENT(hsaKmtGetQueueInfo)
ABSENT(hsaKmtMapGraphicHandle)
ABSENT(hsaKmtOpenSMI)
ABSENT(hsaKmtPcSamplingCreate)
ABSENT(hsaKmtPcSamplingDestroy)
ABSENT(hsaKmtPcSamplingQueryCapabilities)
ABSENT(hsaKmtPcSamplingStart)
ABSENT(hsaKmtPcSamplingStop)
ABSENT(hsaKmtPcSamplingSupport)
ABSENT(hsaKmtPmcAcquireTraceAccess)
ABSENT(hsaKmtPmcGetCounterProperties)
ABSENT(hsaKmtPmcQueryTrace)
ABSENT(hsaKmtPmcRegisterTrace)
ABSENT(hsaKmtPmcReleaseTraceAccess)
ABSENT(hsaKmtPmcStartTrace)
ABSENT(hsaKmtPmcStopTrace)
ABSENT(hsaKmtPmcUnregisterTrace)
ABSENT(hsaKmtProcessVMRead)
ABSENT(hsaKmtProcessVMWrite)
ABSENT(hsaKmtRegisterGraphicsHandleToNodesExt)
ABSENT(hsaKmtRegisterMemory)
ABSENT(hsaKmtRegisterMemoryToNodes)
ABSENT(hsaKmtReplaceAsanHeaderPage)
ABSENT(hsaKmtReturnAsanHeaderPage)
ABSENT(hsaKmtSPMAcquire)
ABSENT(hsaKmtSPMRelease)
ABSENT(hsaKmtSPMSetDestBuffer)
ABSENT(hsaKmtUnmapGraphicHandle)
