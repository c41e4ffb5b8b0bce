#include "tests/sim/scenario.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace troupe::sim {
namespace {

constexpr std::int64_t kLook = 50'000;  // microseconds between two looks at an expectation

class Words {
 public:
  explicit Words(const std::string& line) {
    std::istringstream in(line);
    for (std::string word; in >> word;) words_.push_back(word);
  }
  bool empty() const { return at_ >= words_.size(); }
  std::string next() { return empty() ? std::string() : words_[at_++]; }
  bool take(const std::string& word) {
    bool here = !empty() && words_[at_] == word;
    at_ += here;
    return here;
  }

 private:
  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

bool time_of(const std::string& text, std::int64_t& micros) {
  char* rest = nullptr;
  double value = std::strtod(text.c_str(), &rest);
  std::string unit = rest;
  if (rest == text.c_str() || value < 0 || (unit != "s" && unit != "ms")) return false;
  micros = static_cast<std::int64_t>(value * (unit == "s" ? 1e6 : 1e3));
  return true;
}

bool number_of(const std::string& text) {
  char* rest = nullptr;
  std::strtod(text.c_str(), &rest);
  return !text.empty() && *rest == 0;
}

// What is wrong, or nothing.
std::string read_options(Words& words, const std::set<std::string>& with_value,
                         const std::set<std::string>& flags, Statement& to) {
  while (!words.empty()) {
    std::string name = words.next();
    if (flags.count(name) > 0) {
      to.options[name] = "1";
    } else if (with_value.count(name) > 0) {
      std::string value = words.next();
      if (name != "node" && name != "by" && !number_of(value)) return name + " needs a number";
      to.options[name] = value;
    } else {
      return "what is \"" + name + "\"?";
    }
  }
  return {};
}

std::string read_expectation(Words& words, Statement& to) {
  static const std::map<std::string, std::set<std::string>> kStates = {
      {"actor", {"pending", "alive", "dead"}}, {"node", {"alive", "lost"}}, {"workers", {}}};
  to.kind = words.next();
  auto states = kStates.find(to.kind);
  if (states == kStates.end()) return "expect actor, node or workers";
  if (to.kind != "workers") to.name = words.next();
  to.state = words.next();
  bool known = to.kind == "workers" ? number_of(to.state) : states->second.count(to.state) > 0;
  if (!known) return "what state is \"" + to.state + "\"?";
  if (!words.take("within") || !time_of(words.next(), to.micros)) return "within TIME is missing";
  return {};
}

std::string read_deed(Words& words, Statement& to) {
  static const std::map<std::string, std::set<std::string>> kVerbs = {
      {"kill", {"actor", "node", "head", "driver"}},
      {"crash", {"actor"}},
      {"start", {"node", "head"}},
      {"stop", {"node"}},
      {"freeze", {"node", "head"}},
      {"thaw", {"node", "head"}}};
  if (!time_of(words.next(), to.micros)) return "at needs a time, such as 2s or 500ms";
  to.verb = words.next();
  if (to.verb == "spawn") {
    to.kind = "actor";
    to.name = words.next();
    std::string bad =
        read_options(words, {"by", "cpu", "gpu", "restarts", "node"}, {"light", "detached"}, to);
    if (bad.empty() && !to.has("by")) bad = "by DRIVER is missing";
    return bad;
  }
  auto verb = kVerbs.find(to.verb);
  if (verb == kVerbs.end()) return "what is \"" + to.verb + "\"?";
  to.kind = words.next();
  if (verb->second.count(to.kind) == 0) return to.verb + " what?";
  if (to.kind != "head") to.name = words.next();
  return {};
}

}  // namespace

double Statement::number(const std::string& option) const {
  auto at = options.find(option);
  return at == options.end() ? 0 : std::atof(at->second.c_str());
}

Result<Scenario> parse_scenario(const std::string& text) {
  Scenario scenario;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    Words words(line);
    if (words.empty()) continue;
    Statement to;
    to.line = number;
    to.text = line;
    std::string bad;
    std::string first = words.next();
    if (first == "at") {
      bad = read_deed(words, to);
    } else if (first == "expect") {
      to.verb = first;
      bad = read_expectation(words, to);
    } else if (first == "node" || first == "driver") {
      to.verb = to.kind = first;
      to.name = words.next();
      bad = read_options(
          words, first == "node" ? std::set<std::string>{"cpu", "gpu"} : std::set<std::string>{}, {}, to);
    } else {
      bad = "a line begins with node, driver, at or expect";
    }
    if (bad.empty() && !words.empty()) bad = "what is \"" + words.next() + "\"?";
    if (bad.empty() && to.name.empty() && to.kind != "head" && to.kind != "workers")
      bad = "a name is missing";
    if (!bad.empty()) {
      return Error(ErrorKind::invalid_argument, "line " + std::to_string(number) + ": " + bad);
    }
    scenario.push_back(std::move(to));
  }
  return scenario;
}

Result<Scenario> read_scenario(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error(ErrorKind::not_found, "cannot read " + path);
  std::stringstream text;
  text << file.rdbuf();
  return parse_scenario(text.str());
}

Result<void> play(const Scenario& scenario, Stage& stage) {
  for (const Statement& one : scenario) {
    std::string where = "line " + std::to_string(one.line) + " (" + one.text + "): ";
    if (one.verb != "expect") {
      stage.wait_until(one.micros);
      if (auto done = stage.perform(one); !done)
        return Error(done.error().kind, where + done.error().message);
      continue;
    }
    std::int64_t limit = stage.now() + one.micros;
    while (!stage.holds(one)) {
      if (stage.now() >= limit) return Error(ErrorKind::deadline_exceeded, where + stage.situation());
      stage.wait_until(stage.now() + kLook);
    }
  }
  return {};
}

}  // namespace troupe::sim
