# The Debian package: scripts/package, or cpack -G DEB in a build directory that was
# configured with -DCMAKE_INSTALL_PREFIX=/usr.
set(ROCATTACH_PACKAGE_MAINTAINER "The rocattach-watch authors <rocattach-watch@example.invalid>"
  CACHE STRING "Maintainer field of the package")
set(scripts ${PROJECT_SOURCE_DIR}/scripts)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME rocattach-watch)
set(CPACK_PACKAGE_VENDOR "The rocattach-watch authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "System-wide profiling of AMD GPU processes")
set(CPACK_PACKAGE_DESCRIPTION
"Detects every process that starts to use an AMD GPU with eBPF probes, attaches a
collector to it while its HSA runtime starts, and records kernels, copies and
hardware counters. Processes need no option, no restart and no preparation.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
# Files in /etc need paths outside the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${ROCATTACH_PACKAGE_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS init-system-helpers)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "prometheus, python3-protobuf, python3-zstandard")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${scripts}/debian/postinst ${scripts}/debian/prerm
  ${scripts}/debian/postrm ${scripts}/debian/triggers ${scripts}/debian/conffiles)
include(CPack)
