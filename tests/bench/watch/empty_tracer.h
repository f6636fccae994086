/* The event of bench_empty_tracer's probe. Included by BPF C and C++. */
#ifndef ROCATTACH_TESTS_BENCH_WATCH_EMPTY_TRACER_H_
#define ROCATTACH_TESTS_BENCH_WATCH_EMPTY_TRACER_H_

struct hit {
  unsigned long long time_ns; /* CLOCK_BOOTTIME */
  unsigned int tid;
  unsigned int pad;
};

#endif /* ROCATTACH_TESTS_BENCH_WATCH_EMPTY_TRACER_H_ */
