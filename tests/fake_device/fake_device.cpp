#include "tests/fake_device/fake_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <sstream>
#include <thread>
#include <utility>

namespace troupe::test {
namespace {

struct FakeHandle {
  std::uint64_t pid, fd, inode, size;
  char device[32];
};
static_assert(sizeof(FakeHandle) == sizeof(DeviceDriver::Handle));

std::vector<std::string> entries(const char* text) {
  std::vector<std::string> out;
  std::istringstream in(text != nullptr ? text : "");
  for (std::string one; std::getline(in, one, ',');) {
    if (!one.empty()) out.push_back(one);
  }
  return out;
}

bool take(std::atomic<int>& failures) {
  int left = failures.load();
  while (left > 0 && !failures.compare_exchange_weak(left, left - 1)) {
  }
  return left > 0;
}

}  // namespace

struct FakeDevice::FakeEvent {
  std::atomic<std::uint64_t> recorded{0}, done{0};
};

struct FakeDevice::FakeStream {
  explicit FakeStream(std::atomic<bool>& hangs) : hangs_(hangs), thread_([this] { run(); }) {}
  ~FakeStream() {
    push(nullptr);
    thread_.join();
  }
  void push(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    more_.notify_one();
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [&] { return !work_.empty(); });
      auto work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      if (!work) return;
      while (hangs_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      work();
    }
  }
  std::atomic<bool>& hangs_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> work_;
  std::thread thread_;
};

FakeDevice::~FakeDevice() {
  for (auto& [begin, one] : memory_) {
    ::munmap(begin, one.size);
    if (one.fd >= 0) ::close(one.fd);
  }
}

void FakeDevice::read_environment() {
  if (std::exchange(read_, true)) return;
  auto all = entries(std::getenv("TROUPE_FAKE_DEVICES"));
  if (const char* bytes = std::getenv("TROUPE_FAKE_MEMORY"))
    options_.memory = std::strtoull(bytes, nullptr, 10);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) {
    options_.devices = all;
    return;
  }
  for (const auto& one : entries(visible)) {
    char* end = nullptr;
    unsigned long place = std::strtoul(one.c_str(), &end, 10);
    if (*end != '\0')
      options_.devices.push_back(one);
    else if (place < all.size())
      options_.devices.push_back(all[place]);
  }
}

int FakeDevice::count() {
  std::lock_guard lock(mutex_);
  read_environment();
  return static_cast<int>(options_.devices.size());
}

Result<void> FakeDevice::check(int device) {
  if (device >= 0 && device < count()) return {};
  return Error(ErrorKind::wrong_device, "no fake device " + std::to_string(device));
}

Result<std::string> FakeDevice::identity(int device) {
  if (auto good = check(device); !good) return good.error();
  std::lock_guard lock(mutex_);
  return options_.devices[static_cast<std::size_t>(device)];
}

Result<DeviceDriver::Memory> FakeDevice::memory(int device) {
  if (auto good = check(device); !good) return good.error();
  std::lock_guard lock(mutex_);
  Memory out{options_.memory, options_.memory};
  for (auto& [begin, one] : memory_) {
    if (one.device == device && !one.imported) out.free -= one.size;
  }
  return out;
}

Result<void*> FakeDevice::allocate(int device, std::size_t bytes) {
  auto memory = this->memory(device);
  if (!memory) return memory.error();
  if (bytes > memory->free)
    return Error(ErrorKind::device_memory_exceeded,
                 "the fake device has " + std::to_string(memory->free) + " left");
  int fd = ::memfd_create(("fake-" + *identity(device)).c_str(), MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return system_error(errno, "memfd");
  void* begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (begin == MAP_FAILED) return system_error(errno, "mmap");
  std::lock_guard lock(mutex_);
  memory_[static_cast<std::byte*>(begin)] = {device, fd, bytes, false};
  return begin;
}

void FakeDevice::release(int, void* memory) {
  std::lock_guard lock(mutex_);
  auto at = memory_.find(static_cast<std::byte*>(memory));
  if (at == memory_.end() || at->second.imported) std::abort();
  ::munmap(memory, at->second.size);
  ::close(at->second.fd);
  memory_.erase(at);
}

Result<void*> FakeDevice::allocate_host(std::size_t bytes) {
  if (take(fail_host))
    return Error(ErrorKind::resource_exhausted, "no page-locked memory, as the test wants it");
  std::lock_guard lock(mutex_);
  ++host_;
  return std::malloc(bytes);
}

void FakeDevice::release_host(void* memory) {
  std::lock_guard lock(mutex_);
  --host_;
  std::free(memory);
}

Result<DeviceDriver::Stream> FakeDevice::make_stream(int device) {
  if (auto good = check(device); !good) return good.error();
  std::lock_guard lock(mutex_);
  ++streams_;
  return static_cast<Stream>(new FakeStream(hangs_));
}

void FakeDevice::drop_stream(int, Stream stream) {
  delete static_cast<FakeStream*>(stream);
  std::lock_guard lock(mutex_);
  --streams_;
}

Result<DeviceDriver::Event> FakeDevice::make_event(int device) {
  if (auto good = check(device); !good) return good.error();
  std::lock_guard lock(mutex_);
  ++events_;
  return static_cast<Event>(new FakeEvent);
}

void FakeDevice::drop_event(int, Event event) {
  delete static_cast<FakeEvent*>(event);
  std::lock_guard lock(mutex_);
  --events_;
}

Result<void> FakeDevice::record(int, Event event, Stream stream) {
  auto* what = static_cast<FakeEvent*>(event);
  std::uint64_t number = ++what->recorded;
  static_cast<FakeStream*>(stream)->push([what, number] { what->done = number; });
  return {};
}

Result<bool> FakeDevice::done(int, Event event) {
  auto* what = static_cast<FakeEvent*>(event);
  return what->done >= what->recorded;
}

Result<void> FakeDevice::copy(int device, const Rows& rows, Stream stream) {
  if (auto good = check(device); !good) return good;
  if (take(fail_copies)) return Error(ErrorKind::unavailable, "a copy failed, as the test wants it");
  if (rows.rows > 1 && (rows.to_pitch < rows.width || rows.from_pitch < rows.width))
    return Error(ErrorKind::invalid_argument, "rows that overlap");
  ++copies;
  static_cast<FakeStream*>(stream)->push([rows] {
    auto* to = static_cast<std::byte*>(rows.to);
    auto* from = static_cast<const std::byte*>(rows.from);
    for (std::size_t i = 0; i < rows.rows; ++i)
      std::memcpy(to + i * rows.to_pitch, from + i * rows.from_pitch, rows.width);
  });
  return {};
}

Result<DeviceDriver::Exported> FakeDevice::export_memory(int device, const void* pointer) {
  auto device_name = identity(device);
  if (!device_name) return device_name.error();
  if (take(fail_exports)) return Error(ErrorKind::unavailable, "not exported, as the test wants it");
  auto* at = static_cast<const std::byte*>(pointer);
  std::lock_guard lock(mutex_);
  for (auto& [begin, one] : memory_) {
    if (at < begin || at >= begin + one.size) continue;
    if (one.imported || one.device != device) break;
    struct stat status {};
    ::fstat(one.fd, &status);
    FakeHandle handle{static_cast<std::uint64_t>(::getpid()),
                      static_cast<std::uint64_t>(one.fd),
                      status.st_ino,
                      one.size,
                      {}};
    std::strncpy(handle.device, device_name->c_str(), sizeof handle.device - 1);
    Exported out;
    std::memcpy(out.handle.data(), &handle, sizeof handle);
    out.offset = static_cast<std::uint64_t>(at - begin);
    out.size = one.size;
    return out;
  }
  return Error(ErrorKind::invalid_argument, "memory that this process has not allocated");
}

Result<void*> FakeDevice::open(int device, const Handle& from) {
  auto device_name = identity(device);
  if (!device_name) return device_name.error();
  FakeHandle handle;
  std::memcpy(&handle, from.data(), sizeof handle);
  if (handle.pid == static_cast<std::uint64_t>(::getpid()) || *device_name != handle.device)
    return Error(ErrorKind::invalid_argument, "a handle of this process, or of another device");
  std::string path = "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  bool same = fd >= 0 && ::fstat(fd, &status) == 0 && status.st_ino == handle.inode &&
              static_cast<std::uint64_t>(status.st_size) == handle.size;
  void* begin = same ? ::mmap(nullptr, handle.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (fd >= 0) ::close(fd);
  if (begin == MAP_FAILED) return Error(ErrorKind::object_lost, "the exporter of that memory is gone");
  ++opened;
  std::lock_guard lock(mutex_);
  memory_[static_cast<std::byte*>(begin)] = {device, -1, handle.size, true};
  return begin;
}

void FakeDevice::close(int, void* begin) {
  std::lock_guard lock(mutex_);
  auto at = memory_.find(static_cast<std::byte*>(begin));
  if (at == memory_.end() || !at->second.imported) std::abort();
  ::munmap(begin, at->second.size);
  memory_.erase(at);
}

FakeDevice::Counts FakeDevice::counts() {
  std::lock_guard lock(mutex_);
  Counts out;
  for (auto& [begin, one] : memory_) ++(one.imported ? out.mappings : out.allocations);
  out.host = host_;
  out.streams = streams_;
  out.events = events_;
  return out;
}

}  // namespace troupe::test
