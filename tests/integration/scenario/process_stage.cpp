#include "tests/integration/scenario/process_stage.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/clock.h"

namespace troupe::test {
namespace {

Error wrong(const std::string& what) { return Error(ErrorKind::invalid_argument, what); }

std::string word(const sim::Statement& what, const std::string& option, const std::string& otherwise) {
  auto at = what.options.find(option);
  return at == what.options.end() ? otherwise : at->second;
}

int parent_of(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(stat, line);
  auto close = line.rfind(')');
  return close == line.npos ? 0 : std::atoi(line.c_str() + close + 4);
}

}  // namespace

ProcessStage::ProcessStage() : begin_(steady_ns()) {
  (void)on_head("start");
  begin_ = steady_ns();
}

ProcessStage::~ProcessStage() noexcept(false) {
  for (auto& [name, driver] : drivers_) end(driver, SIGKILL);
  for (auto& [name, machine] : nodes_) {
    if (machine.running) end(machine.process, SIGKILL);
  }
  if (head_) end(*head_, SIGKILL);
}

std::int64_t ProcessStage::now() { return (steady_ns() - begin_) / 1000; }

void ProcessStage::wait_until(std::int64_t micros) {
  std::this_thread::sleep_for(std::chrono::microseconds(std::max<std::int64_t>(micros - now(), 0)));
}

void ProcessStage::end(Scene::Process& process, int signal) {
  ::kill(process.pid, signal);
  ::kill(process.pid, SIGCONT);
  (void)process.finish(20);
}

Result<void> ProcessStage::perform(const sim::Statement& what) {
  if (what.kind == "head") return on_head(what.verb);
  if (what.kind == "node") return on_node(what);
  if (what.kind == "driver") return on_driver(what);
  return on_actor(what);
}

Result<void> ProcessStage::on_head(const std::string& verb) {
  if (verb == "start") {
    if (head_) return wrong("the head runs already");
    head_ = std::make_unique<Scene::Process>(scene_.start({bin("troupe"), "head"}));
    if (!head_->wait_for("listening on", 30)) return wrong("the head does not come up: " + head_->seen);
    return {};
  }
  if (!head_) return wrong("no head runs");
  if (verb == "freeze") ::kill(head_->pid, SIGSTOP);
  if (verb == "thaw") ::kill(head_->pid, SIGCONT);
  if (verb == "kill") {
    end(*head_, SIGKILL);
    head_ = nullptr;
  }
  return {};
}

Result<void> ProcessStage::start(const std::string& name, Machine& machine) {
  if (machine.running) ::waitpid(machine.process.pid, nullptr, WNOHANG);
  if (machine.running && ::kill(machine.process.pid, 0) == 0) return {};
  machine.process =
      scene_.start({bin("troupe"), "node", "--name", name, "--cpus", machine.cpu, "--gpus", machine.gpu});
  machine.running = true;
  return {};
}

Result<void> ProcessStage::on_node(const sim::Statement& what) {
  if (what.verb == "node") {
    Machine& machine = nodes_[what.name];
    machine.cpu = word(what, "cpu", "0");
    machine.gpu = word(what, "gpu", "0");
    return start(what.name, machine);
  }
  auto at = nodes_.find(what.name);
  if (at == nodes_.end()) return wrong("no node " + what.name);
  Machine& machine = at->second;
  if (what.verb == "start") return start(what.name, machine);
  if (!machine.running) return {};
  if (what.verb == "freeze") ::kill(machine.process.pid, SIGSTOP);
  if (what.verb == "thaw") ::kill(machine.process.pid, SIGCONT);
  if (what.verb == "stop" || what.verb == "kill") {
    end(machine.process, what.verb == "stop" ? SIGTERM : SIGKILL);
    machine.running = false;
  }
  return {};
}

Result<void> ProcessStage::on_driver(const sim::Statement& what) {
  if (what.verb == "kill") {
    auto at = drivers_.find(what.name);
    if (at == drivers_.end()) return wrong("no driver " + what.name);
    end(at->second, SIGKILL);
    drivers_.erase(at);
    return {};
  }
  auto driver = scene_.start({bin("probe"), "scenario"});
  if (!driver.wait_for("probe: ready", 30)) return wrong("the driver does not come up: " + driver.seen);
  drivers_.emplace(what.name, std::move(driver));
  return {};
}

Result<void> ProcessStage::on_actor(const sim::Statement& what) {
  if (what.verb == "kill") {
    Outcome killed = scene_.run({bin("troupe"), "kill", what.name}, 20);
    return killed.status == 0 ? Result<void>() : wrong("troupe kill: " + killed.output);
  }
  auto by = what.verb == "spawn" ? word(what, "by", "") : spawners_[what.name];
  auto at = drivers_.find(by);
  if (at == drivers_.end()) return wrong("no driver " + by);
  Scene::Process& driver = at->second;
  driver.seen.clear();
  if (what.verb == "spawn") {
    spawners_[what.name] = by;
    driver.write("spawn " + what.name + " " + word(what, "cpu", "0") + " " + word(what, "gpu", "0") + " " +
                 word(what, "restarts", "0") + " " + word(what, "node", "-") + " " +
                 word(what, "light", "0") + " " + word(what, "detached", "0") + "\n");
    if (!driver.wait_for("probe: spawned " + what.name, 20)) return wrong("no answer: " + driver.seen);
    return {};
  }
  std::string answer = "probe: pid " + what.name + " ";
  driver.write("pid " + what.name + "\n");
  if (!driver.wait_for(answer, 20) || !driver.wait_for("\n", 20)) return wrong("no answer: " + driver.seen);
  int pid = std::atoi(driver.seen.c_str() + driver.seen.find(answer) + answer.size());
  if (pid > 1) ::kill(pid, SIGKILL);
  return {};
}

// ---- expectations ----

std::string ProcessStage::listing(const std::string& what) {
  Outcome outcome = scene_.run({bin("troupe"), "list", what, "--json"}, 20);
  return outcome.status == 0 ? outcome.output : "[]";
}

std::string ProcessStage::phase(const std::string& name) {
  auto all = nlohmann::json::parse(listing("actors"), nullptr, false);
  std::string found;
  if (!all.is_array()) return found;
  for (const auto& one : all) {
    if (one["name"] != name) continue;
    std::string phase = one["phase"];
    if (found.empty() || found == "dead") found = phase;
  }
  return found;
}

bool ProcessStage::holds(const sim::Statement& what) {
  if (what.kind == "workers") return std::to_string(workers()) == what.state;
  if (what.kind == "node") {
    auto all = nlohmann::json::parse(listing("nodes"), nullptr, false);
    bool alive = false;
    if (!all.is_array()) return false;
    for (const auto& one : all) alive |= one["name"] == what.name && one["alive"] == true;
    return alive == (what.state == "alive");
  }
  std::string is = phase(what.name);
  if (what.state != "pending") return is == what.state;
  return is == "pending" || is == "starting" || is == "restarting";
}

// Probes that are neither drivers nor the parents of workers: a zygote is its agent's child.
int ProcessStage::workers() {
  int count = 0;
  for (pid_t pid : scene_.processes()) {
    std::error_code bad;
    std::string program = std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", bad);
    if (bad || program != bin("probe")) continue;
    bool driver = false, zygote = false;
    for (auto& [name, one] : drivers_) driver |= one.pid == pid;
    for (auto& [name, one] : nodes_) zygote |= one.running && one.process.pid == parent_of(pid);
    count += !driver && !zygote;
  }
  return count;
}

std::string ProcessStage::situation() {
  return "it is otherwise: " + listing("nodes") + listing("actors") + std::to_string(workers()) +
         " workers\n" + scene_.describe_processes();
}

}  // namespace troupe::test
