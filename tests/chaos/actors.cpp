#include "actors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

namespace chaos {

Counter::Counter(const std::string& prefix) {
  std::string path = prefix + "." + std::to_string(troupe::context().incarnation());
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  if (file_ >= 0) return;
  // No incarnation begins a second time.
  if (errno == EEXIST) ::close(::open((path + ".again").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  throw std::runtime_error("cannot make " + path);
}

Counter::~Counter() {
  if (file_ >= 0) ::close(file_);
}

Receipt Counter::run(std::uint32_t caller, std::uint32_t via, std::uint64_t number) {
  Record record{caller, via, number};
  if (::write(file_, &record, sizeof record) != sizeof record) throw std::runtime_error("cannot write");
  return {troupe::context().incarnation(), 0};
}

int Counter::pid() const { return ::getpid(); }

troupe::Task<Receipt> Relay::forward(troupe::Handle<Counter> to, std::uint32_t caller, std::uint64_t number,
                                     int deadline_ms) {
  auto& target = targets_.try_emplace(to.id().value, to).first->second;
  auto options = troupe::CallOptions().deadline(std::chrono::milliseconds(deadline_ms));
  Receipt receipt;
  try {
    receipt =
        co_await target.with(options).call<&Counter::run>(caller, troupe::context().incarnation(), number);
  } catch (const troupe::Failure& failure) {
    receipt.failed = 1 + static_cast<std::uint32_t>(failure.error().kind);
  }
  co_return receipt;
}

}  // namespace chaos
