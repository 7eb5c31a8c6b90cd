# NBX_SANITIZE and NBX_COVERAGE apply to the library, its programs and its tests alike. Any finding ends the program.
if(NBX_SANITIZE)
    target_compile_options(nbx_settings INTERFACE
        $<$<COMPILE_LANGUAGE:C>:-fsanitize=${NBX_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer;-g>)
    target_link_options(nbx_settings INTERFACE -fsanitize=${NBX_SANITIZE})
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # GCC loses track of what is initialised between its own checks.
        target_compile_options(nbx_settings INTERFACE $<$<COMPILE_LANGUAGE:C>:-Wno-maybe-uninitialized>)
    endif()
    set(NBX_CUDA OFF)
endif()
if(NBX_COVERAGE)
    target_compile_options(nbx_settings INTERFACE $<$<COMPILE_LANGUAGE:C>:--coverage;-O0>)
    target_link_options(nbx_settings INTERFACE --coverage)
endif()
