# troupe_library(NAME SOURCES … DEPENDS …): one layer of the house, a static library.
function(troupe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE})
  troupe_precompile(${name} <capnp/rpc-twoparty.h> <kj/async-io.h>)
endfunction()

# What most files of a target include is parsed once: it halves the build.
function(troupe_precompile name)
  target_precompile_headers(${name} PRIVATE <algorithm> <functional> <map> <memory> <string> <unordered_map> <vector>
                            ${ARGN})
endfunction()

# troupe_schemas(NAME FILES…): generates C++ from Cap'n Proto schemas under core/protocol. Calls marked there
# as cancellable get the annotation of that name from Cap'n Proto 1.0 on; earlier compilers do not know it.
function(troupe_schemas name)
  set(outputs "")
  set(schemas "")
  foreach(file ${ARGN})
    set(source ${CMAKE_SOURCE_DIR}/core/protocol/${file})
    set(schema ${CMAKE_BINARY_DIR}/core/protocol/${file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    if(CAPNP_VERSION VERSION_LESS 1.0)
      configure_file(${source} ${schema} COPYONLY)
    else()
      file(READ ${source} text)
      string(REPLACE ";  # cancellable" " $Cxx.allowCancellation;  #" text "${text}")
      if(text MATCHES "# *cancellable")
        message(FATAL_ERROR "${source}: a mark does not read ';  # cancellable'")
      endif()
      file(CONFIGURE OUTPUT ${schema} CONTENT "${text}" @ONLY)
    endif()
    list(APPEND schemas ${schema})
  endforeach()
  foreach(file ${ARGN})
    set(cpp ${CMAKE_BINARY_DIR}/core/protocol/${file}.c++)
    set(header ${CMAKE_BINARY_DIR}/core/protocol/${file}.h)
    add_custom_command(
      OUTPUT ${cpp} ${header}
      COMMAND ${CAPNP_COMPILER} compile --src-prefix=${CMAKE_BINARY_DIR}/core/protocol
              -oc++:${CMAKE_BINARY_DIR}/core/protocol ${CMAKE_BINARY_DIR}/core/protocol/${file}
      DEPENDS ${schemas}
      COMMENT "capnp ${file}")
    list(APPEND outputs ${cpp})
  endforeach()
  add_library(${name} STATIC ${outputs})
  target_include_directories(${name} PUBLIC ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC PkgConfig::CAPNP)
  target_compile_options(${name} PRIVATE -w)
endfunction()

# Target `headers`: compiles every header of the house alone. Those in folders called cuda need CUDA's.
function(troupe_check_headers)
  file(GLOB_RECURSE headers RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS core/*.h gcs/*.h runtime/*.h actors/*.h
       tools/*.h)
  if(NOT TROUPE_HAS_CUDA)
    list(FILTER headers EXCLUDE REGEX "/cuda/")
  endif()
  set(sources "")
  foreach(header ${headers})
    string(REPLACE "/" "_" name ${header})
    set(source ${CMAKE_BINARY_DIR}/headers/${name}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"  // twice: guards\n")
    list(APPEND sources ${source})
  endforeach()
  add_library(headers OBJECT EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(headers PRIVATE troupe_actors troupe_gcs troupe_runtime troupe_core)
  if(TROUPE_HAS_CUDA)
    target_include_directories(headers SYSTEM PRIVATE ${CUDA_INCLUDE} ${NCCL_INCLUDE})
  endif()
endfunction()
