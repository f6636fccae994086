# Helpers that every folder uses, so that a target is declared in one line and all
# targets get the same warnings, sanitizers and include root (the repository's top).

# For every compile command, also those of custom commands: -Werror where warnings are
# to fail the build, which is nowhere but in the developer presets.
set(ROCATTACH_WERROR_FLAG)
if(ROCATTACH_WERROR)
  set(ROCATTACH_WERROR_FLAG -Werror)
endif()

add_library(rocattach_options INTERFACE)
target_compile_options(rocattach_options INTERFACE
  -Wall -Wextra -Wshadow -Wvla -Wpointer-arith ${ROCATTACH_WERROR_FLAG}
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  # g++ 12 warns of overlaps inside std::string that cannot be (GCC bug 105329).
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>
  -fno-omit-frame-pointer -fstack-protector-strong)
if(ROCATTACH_SANITIZE)
  target_compile_options(rocattach_options INTERFACE
    -fsanitize=${ROCATTACH_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(rocattach_options INTERFACE -fsanitize=${ROCATTACH_SANITIZE})
  if(ROCATTACH_SANITIZE MATCHES thread)
    # Fences are not followed: what they order must be atomic accesses by itself.
    target_compile_options(rocattach_options INTERFACE
      $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()
if(ROCATTACH_COVERAGE)
  target_compile_options(rocattach_options INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(rocattach_options INTERFACE --coverage)
endif()
if(ROCATTACH_FUZZ)
  target_compile_options(rocattach_options INTERFACE
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  target_link_options(rocattach_options INTERFACE -fsanitize=address,undefined)
endif()

# Headers are named by their path from the repository's top, and a target finds only
# those of its own folder and of the libraries that it declares: each folder is exported
# as a directory of the build tree that holds nothing but a link to it.
# rocattach_exported_folder(VARIABLE): that directory, for the current source folder.
function(rocattach_exported_folder variable)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE / - name ${folder})
  set(view ${PROJECT_BINARY_DIR}/exports/${name})
  if(NOT EXISTS ${view}/${folder})
    get_filename_component(parent ${view}/${folder} DIRECTORY)
    file(MAKE_DIRECTORY ${parent})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${view}/${folder} SYMBOLIC)
  endif()
  set(${variable} ${view} PARENT_SCOPE)
endfunction()

# rocattach_optimize(source…): sources of this folder with code that runs for every record,
# where inlining more than usual pays. Not in debug builds.
function(rocattach_optimize)
  set_source_files_properties(${ARGN} PROPERTIES
    COMPILE_OPTIONS "$<$<CONFIG:Release,RelWithDebInfo>:-O3>")
endfunction()

# rocattach_library(name SOURCES a.cc b.cc DEPS x y): static library rocattach_NAME
# with the alias rocattach::NAME. Without sources it is headers only.
# scripts/check-layers reads these declarations too.
function(rocattach_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  rocattach_exported_folder(view)
  if(ARG_SOURCES)
    add_library(rocattach_${name} STATIC ${ARG_SOURCES})
    target_link_libraries(rocattach_${name} PUBLIC ${ARG_DEPS} PRIVATE rocattach_options)
    target_include_directories(rocattach_${name} PUBLIC ${view})
  else()
    add_library(rocattach_${name} INTERFACE)
    target_link_libraries(rocattach_${name} INTERFACE ${ARG_DEPS})
    target_include_directories(rocattach_${name} INTERFACE ${view})
  endif()
  add_library(rocattach::${name} ALIAS rocattach_${name})
endfunction()

# rocattach_program(name SOURCES … DEPS …): an executable of ours.
function(rocattach_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  rocattach_exported_folder(view)
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${view})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} rocattach_options)
endfunction()

# Tests and benchmarks see everything.
add_library(rocattach_test_options INTERFACE)
target_link_libraries(rocattach_test_options INTERFACE rocattach_options)
target_include_directories(rocattach_test_options INTERFACE ${PROJECT_SOURCE_DIR})

# Tests take half of the time of a build, and most of theirs went into optimising and
# describing code that runs once. Backtraces still have lines; the preset dev has it all.
add_library(rocattach_fast_build INTERFACE)
target_compile_options(rocattach_fast_build INTERFACE
  $<$<CONFIG:RelWithDebInfo>:-O1 -g1>)

# rocattach_test(name SOURCES … DEPS … LABELS unit|integration|privileged …
#                [QUICK Suite.Case …] [TIMEOUT s] [ENV A=B …] [RUN_SERIAL]):
# a GoogleTest program. Each of its cases is a test of its own, NAME/Suite.Case, with its
# own status, time and time limit, so that a case that was skipped shows as skipped. The
# cases are listed when ctest runs, not when the program is built. The cases under QUICK
# belong to `scripts/test --quick`, as all with the label unit do. With RUN_SERIAL nothing
# runs beside a case.
function(rocattach_test name)
  cmake_parse_arguments(ARG "RUN_SERIAL" "TIMEOUT" "SOURCES;DEPS;LABELS;ENV;QUICK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock
    GTest::gtest_main rocattach_test_options rocattach_fast_build)
  if(ROCATTACH_SANITIZE STREQUAL "thread")
    target_link_libraries(${name} PRIVATE rocattach_tsan)
  endif()
  gtest_discover_tests(${name} TEST_PREFIX ${name}/ NO_PRETTY_VALUES
    DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)
  # gtest_discover_tests(PROPERTIES) takes no lists.
  set(properties "TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT [==[${ARG_ENV}]==]")
  if(ARG_RUN_SERIAL)
    string(APPEND properties " RUN_SERIAL TRUE")
  endif()
  set(script "if(${name}_TESTS)
  set_tests_properties(\${${name}_TESTS} PROPERTIES LABELS [==[${ARG_LABELS}]==]
    ${properties})
")
  foreach(case IN LISTS ARG_QUICK)
    string(APPEND script "  set_tests_properties(${name}/${case} PROPERTIES
    LABELS [==[${ARG_LABELS};quick]==])
")
  endforeach()
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake)
  file(GENERATE OUTPUT ${file} CONTENT "${script}endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
endfunction()

# rocattach_python_test(name PROGRAM file.py [ARGS …] LABELS … [TIMEOUT s] [RUN_SERIAL]):
# a program of python3's unittest. Its cases are tests of their own, NAME/Class.case, or
# NAME/Class where they share a fixture (tests/python_cases.py).
function(rocattach_python_test name)
  cmake_parse_arguments(ARG "RUN_SERIAL" "PROGRAM;TIMEOUT" "ARGS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set(program ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_PROGRAM})
  # Debian's python3, which has the modules that scripts/setup installs.
  find_program(ROCATTACH_PYTHON python3 HINTS /usr/bin NO_DEFAULT_PATH)
  find_program(ROCATTACH_PYTHON python3 REQUIRED)
  set(run ${ROCATTACH_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/python_cases.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${program}
    ${PROJECT_SOURCE_DIR}/tests/python_cases.py)
  execute_process(COMMAND ${run} --list ${program} OUTPUT_VARIABLE cases
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" cases "${cases}")
  foreach(case IN LISTS cases)
    add_test(NAME ${name}/${case} COMMAND ${run} ${program} ${case} ${ARG_ARGS})
    set_tests_properties(${name}/${case} PROPERTIES LABELS "${ARG_LABELS}"
      TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77)
    if(ARG_RUN_SERIAL)
      set_tests_properties(${name}/${case} PROPERTIES RUN_SERIAL TRUE)
    endif()
  endforeach()
endfunction()

# rocattach_fuzz(name SOURCES … DEPS … CORPUS dir …): a libFuzzer program; built only
# with ROCATTACH_FUZZ. `scripts/fuzz SECONDS` runs each of them, from the seeds in its
# CORPUS folders. Seeds made by the build belong in ${PROJECT_BINARY_DIR}/seeds/NAME.
function(rocattach_fuzz name)
  cmake_parse_arguments(ARG "" "" "CORPUS;SOURCES;DEPS" ${ARGN})
  if(NOT ROCATTACH_FUZZ)
    return()
  endif()
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)  # all of them
  endif()
  add_executable(${name} ${ARG_SOURCES})
  add_dependencies(fuzzers ${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} rocattach_test_options)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
  # For scripts/fuzz: which targets there are, and where their seeds lie.
  list(JOIN ARG_CORPUS "\n" folders)
  file(WRITE ${PROJECT_BINARY_DIR}/fuzz/${name}.seeds "${folders}\n")
endfunction()

# rocattach_bench(name SOURCES … DEPS …): a Google Benchmark program under build/bench.
function(rocattach_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} benchmark::benchmark rocattach_test_options)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
endfunction()
