# Toolchain: cross-compiles for aarch64 Linux and runs the tests under QEMU (Debian: gcc-aarch64-linux-gnu, qemu-user).
#   cmake -S . -B build-aarch64 --toolchain cmake/aarch64.cmake -DNBX_SYSROOT=FOLDER
# NBX_SYSROOT holds more libraries of arm64 (cmocka, zlib), as script/test_aarch64 unpacks them; without it they are left out.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${NBX_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES NBX_SYSROOT)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${NBX_SYSROOT}")
set(ENV{PKG_CONFIG_LIBDIR} "${NBX_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig")
set(NBX_CUDA OFF)
