// Memory of GPUs that other processes have exported and this one has mapped: once an allocation, as long as a
// tensor of it is there.
//
// Owner: the process, to its end. Any thread. Opening and closing take turns; who does not get its turn
// within kPatience has a device that hangs: deadline_exceeded.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/device/device_driver.h"
#include "runtime/device/piece_walk.h"
#include "runtime/objects/object_client.h"

namespace troupe {

// What an object holds that stands for a GPU's memory. In memory order, as all that processes of one node
// share.
struct ExportRecord {
  static constexpr std::uint32_t kMark = 0x67707565;
  std::uint32_t mark = kMark;
  char driver[12] = {}, device[64] = {};  // ended by zeros
  DeviceDriver::Handle handle{};
  std::uint64_t size = 0;            // of the allocation
  std::uint64_t begin = 0, end = 0;  // what may be used of it
};

class DeviceImports {
 public:
  static constexpr auto kPatience = std::chrono::seconds(30);

  static DeviceImports& get();

  // One object's use of a mapping; a tensor's owner. The mapping goes first, then the hold of the object.
  struct Import {
    ~Import();
    std::byte* base = nullptr;  // of the allocation
    int device = 0;
    ExportRecord record;
    Ref<ObjectHandle> object;

   private:
    friend class DeviceImports;
    std::uint64_t number = 0;  // of the mapping
  };
  Result<std::shared_ptr<Import>> open(DeviceDriver& driver, int device, const ExportRecord& record,
                                       Ref<ObjectHandle> object);

  // The object by which this process has that memory, if it has it from another one.
  struct Source {
    Ref<ObjectHandle> object;
    std::uint64_t offset = 0;  // of `data` in the allocation
  };
  Source source(const void* data, Span bytes);
  std::size_t mappings();  // for tests

 private:
  struct Mapping {
    std::uint64_t number = 0, size = 0;
    DeviceDriver* driver = nullptr;
    int device = 0;
    std::byte* base = nullptr;
    std::string key;
    std::vector<Import*> imports;
  };
  void close(Import& import);

  std::timed_mutex turn_;  // of opening and closing; before mutex_
  std::mutex mutex_;       // guards what follows
  std::map<std::string, std::uint64_t> by_key_;
  std::map<std::uint64_t, Mapping> mappings_;
  std::uint64_t made_ = 0;
};

}  // namespace troupe
