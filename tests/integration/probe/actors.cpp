#include "actors.h"

#include <algorithm>

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace probe {

void Worker::fail(const std::string& text) const { throw std::out_of_range(text); }
int Worker::pid() const { return ::getpid(); }
std::string Worker::where() const { return troupe::context().node_name(); }

std::string Worker::devices() const {
  const char* devices = std::getenv("CUDA_VISIBLE_DEVICES");
  return devices != nullptr ? devices : "unset";
}

std::uint32_t Worker::incarnation() const { return troupe::context().incarnation(); }

void Worker::sleep_ms(int ms) const { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

bool Worker::wait_for_cancel(int ms) const {
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (std::chrono::steady_clock::now() < end) {
    if (troupe::context().cancelled()) return true;
  }
  return false;
}

int Worker::owned() {
  owned_.push_back(troupe::spawn<Worker>(troupe::ActorOptions()));
  return owned_.back().call<&Worker::pid>().get();
}

void Worker::deal_with_failures() {
  troupe::on_failure([this](const troupe::ActorFailure& failure) { failures_ += failure.class_name + ";"; });
}

int Worker::child(const std::string& command) const {
  int pid = ::fork();
  if (pid == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  return pid;
}

void Worker::print(int lines) const {
  for (int i = 0; i < lines; ++i) std::printf("line %d of the worker\n", i);
  std::fflush(stdout);
}

int Worker::hold(int mebibytes, int ms) const {
  std::vector<char> memory(static_cast<std::size_t>(mebibytes) << 20, 'x');
  sleep_ms(ms);
  return static_cast<int>(std::count(memory.begin(), memory.end(), 'x') >> 20);
}

Thrower::Thrower(std::string text) { throw std::invalid_argument(text); }

}  // namespace probe
