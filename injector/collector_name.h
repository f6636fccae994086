// How the collector is named where it has no path.
#ifndef ROCATTACH_INJECTOR_COLLECTOR_NAME_H_
#define ROCATTACH_INJECTOR_COLLECTOR_NAME_H_

// The collector's DT_SONAME, by which the dynamic loader finds it in a process that has
// loaded it, whatever it was opened by. The memfd with its contents has the same name.
#define ROCATTACH_COLLECTOR_NAME "librocattach-collector.so"

// That memfd in /proc/PID/maps, without " (deleted)".
#define ROCATTACH_COLLECTOR_MEMFD "/memfd:" ROCATTACH_COLLECTOR_NAME

#endif  // ROCATTACH_INJECTOR_COLLECTOR_NAME_H_
