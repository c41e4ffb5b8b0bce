// In place of cuda_driver.cpp in builds without CUDA.
#include "runtime/device/device_driver.h"

namespace troupe {

DeviceDriver* cuda_device_driver(std::string& why) {
  why = "this build has no CUDA; configure with -DTROUPE_CUDA=ON";
  return nullptr;
}

}  // namespace troupe
