# -Wno-psabi: how GCC passes 32- and 64-byte vectors changed in GCC 4.6, which concerns nobody; ours are always inlined.
target_compile_options(nbx_settings INTERFACE $<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-psabi>)
if(NBX_WERROR)
    target_compile_options(nbx_settings INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()
