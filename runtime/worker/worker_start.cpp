#include "runtime/worker/worker_start.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "core/os/process.h"
#include "runtime/worker/zygote.h"

namespace troupe {
namespace {

constexpr std::string_view kVersion = "3";

void put(std::string& out, std::string_view field) {
  out += std::to_string(field.size());
  out += ':';
  out += field;
}
template <class Number>
requires std::is_arithmetic_v<Number>
void put(std::string& out, Number number) { put(out, std::to_string(number)); }

// Takes fields of the form LENGTH:BYTES off the front.
struct Fields {
  std::string_view rest;
  bool good = true;

  std::string_view next() {
    std::size_t size = 0;
    auto [end, bad] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    std::size_t used = static_cast<std::size_t>(end - rest.data());
    if (!good || bad != std::errc{} || used >= rest.size() || *end != ':' || size > rest.size() - used - 1) {
      good = false;
      return {};
    }
    auto field = rest.substr(used + 1, size);
    rest.remove_prefix(used + 1 + size);
    return field;
  }
  void get(std::string& out) { out = next(); }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void get(Number& out) {
    auto text = next();
    auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (bad != std::errc{} || end != text.data() + text.size()) good = false;
  }
};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "troupe: this process was started as a worker, but %s\n", why.c_str());
  std::fflush(stderr);
  ::_exit(2);
}

// Output goes to a pipe, which the C library would buffer in large blocks.
void flush_lines() { std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ); }

}  // namespace

std::string WorkerStart::encode() const {
  std::string out;
  put(out, kVersion);
  put(out, process), put(out, job), put(out, node);
  put(out, node_name), put(out, host_id);
  put(out, channel_fd), put(out, isolation), put(out, lanes);
  put(out, journals), put(out, socket_dir), put(out, tcp_host), put(out, token_hex);
  put(out, set_devices ? 1 : 0), put(out, devices), put(out, gpu_units);
  return out;
}

Result<WorkerStart> WorkerStart::decode(std::string_view text) {
  Fields fields{text};
  WorkerStart out;
  int set_devices = 0;
  if (fields.next() != kVersion) {
    return Error(ErrorKind::mismatch, "the worker's parameters are of another version than the agent's");
  }
  fields.get(out.process), fields.get(out.job), fields.get(out.node);
  fields.get(out.node_name), fields.get(out.host_id);
  fields.get(out.channel_fd), fields.get(out.isolation), fields.get(out.lanes);
  fields.get(out.journals), fields.get(out.socket_dir), fields.get(out.tcp_host), fields.get(out.token_hex);
  fields.get(set_devices), fields.get(out.devices), fields.get(out.gpu_units);
  if (!fields.good || !fields.rest.empty()) {
    return Error(ErrorKind::invalid_argument, "the worker's parameters are damaged");
  }
  out.set_devices = set_devices != 0;
  return out;
}

std::optional<WorkerStart> enter_worker_role() {
  const char* role_text = std::getenv(kRoleVariable);
  if (role_text == nullptr) return {};
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  std::string role = role_text, worker = variable(kWorkerVariable), zygote = variable(kZygoteVariable);
  std::string program = variable(kLauncherVariable);
  for (auto name :
       {kRoleVariable, kWorkerVariable, kZygoteVariable, kLauncherVariable, "TROUPE_TOKEN", "TROUPE_HEAD"}) {
    ::unsetenv(name);
  }
  if (role == "zygote") {
    std::fflush(nullptr);  // or every child would print what is pending
    auto start = run_zygote(std::atoi(zygote.c_str()), program);
    if (start) flush_lines();
    return start;
  }
  if (role != "worker") give_up("TROUPE_ROLE is '" + role + "', neither worker nor zygote");
  auto start = WorkerStart::decode(worker);
  if (!start) give_up(start.error().message);
  flush_lines();
  return std::move(*start);
}

}  // namespace troupe
