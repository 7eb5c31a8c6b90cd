# cmake --install: headers, libraries, commands, nbx.pc and the CMake package (find_package(nbx), target nbx::nbx).
include(CMakePackageConfigHelpers)
install(TARGETS nbx nbx_static EXPORT nbx_targets)
install(DIRECTORY include/nbx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(target nbx-cli nbx-conform nbx_cuda)
    if(TARGET ${target})
        set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}") # where nbx finds libnbx_cuda.so
        install(TARGETS ${target})
    endif()
endforeach()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/nbx)
install(EXPORT nbx_targets NAMESPACE nbx:: DESTINATION ${package})
configure_package_config_file(cmake/nbx-config.cmake.in nbx-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(nbx-config-version.cmake COMPATIBILITY SameMajorVersion)
# The prefix is told from where nbx.pc lies, so that an installed tree can be moved.
file(RELATIVE_PATH prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
if(NBX_WITH_ZLIB)
    set(zlib_flag -lz)
endif()
configure_file(cmake/nbx.pc.in nbx.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/nbx-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/nbx-config-version.cmake
        DESTINATION ${package})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/nbx.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
