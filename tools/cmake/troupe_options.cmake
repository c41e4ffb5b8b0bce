# Compiler flags, sanitizers, ccache.
# g++ 12 reports moved-from variants as uninitialised when it optimises.
add_compile_options(-Wall -Wextra -Wno-missing-field-initializers -Wno-maybe-uninitialized -fno-omit-frame-pointer)
# g++ 14 takes the short form of a string that is added to for all that it may hold.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 14)
  add_compile_options(-Wno-array-bounds)
endif()
if(CMAKE_BUILD_TYPE MATCHES "Rel")
  string(REPLACE "-g" "-g1" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
  add_link_options(-Wl,--gc-sections)
  add_compile_options(-ffunction-sections)
endif()
# Sanitizers: light optimisation builds in half the time. g++ 12 then warns about KJ's lambdas without members.
if(TROUPE_SANITIZE)
  add_compile_options(-O1 -Wno-array-bounds)
endif()
if(TROUPE_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(TROUPE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(NOT TROUPE_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TROUPE_SANITIZE is '${TROUPE_SANITIZE}': use address or thread, or leave it empty")
endif()
find_program(TROUPE_CCACHE ccache)
if(TROUPE_CCACHE)
  # What ccache needs to work with precompiled headers.
  add_compile_options(-fpch-preprocess)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      ${TROUPE_CCACHE})
endif()
