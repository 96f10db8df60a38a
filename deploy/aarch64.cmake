# Toolchain: builds on Debian for 64-bit Arm.
#     deploy/aarch64.sh DIR      puts the libraries of arm64 into DIR/root
#     cmake -B build-aarch64 --toolchain deploy/aarch64.cmake -DPENSTOCK_SYSROOT=DIR/root
# Debian's libxnnpack cannot be installed for two architectures at once, hence the folder. The compiler: deploy/install-deps.sh aarch64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PENSTOCK_SYSROOT)
set(CMAKE_SYSROOT ${PENSTOCK_SYSROOT})
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${PENSTOCK_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${PENSTOCK_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${PENSTOCK_SYSROOT}/usr/share/pkgconfig)
# Programs of this host run at the build; ctest runs what was built in the emulator.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -cpu max -L ${PENSTOCK_SYSROOT})
