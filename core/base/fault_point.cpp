#include "core/base/fault_point.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace troupe {
namespace {

struct Rule {
  std::string name;  // may end in "*"
  double probability = 0;
  std::uint64_t most = ~std::uint64_t{0};
};

constinit std::atomic<FaultPoint*> first{nullptr};

// Used only while faults are on.
struct Chooser {
  std::mutex mutex;
  std::vector<Rule> rules;
  std::uint64_t state = 0;
  FaultPoints::Decide decide;
  FaultPoints::Crash crash;

  std::uint64_t draw() {  // splitmix64
    std::uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
};

Chooser& chooser() {
  static Chooser one;
  return one;
}

bool matches(const std::string& pattern, const char* name) {
  if (!pattern.empty() && pattern.back() == '*') {
    return std::strncmp(pattern.c_str(), name, pattern.size() - 1) == 0;
  }
  return pattern == name;
}

[[maybe_unused]] const bool from_environment = [] {
  const char* text = std::getenv("TROUPE_FAULTS");
  if (text == nullptr || *text == 0) return false;
  const char* seed = std::getenv("TROUPE_FAULTS_SEED");
  auto done = FaultPoints::configure(
      text, seed != nullptr ? std::strtoull(seed, nullptr, 10) : static_cast<std::uint64_t>(::getpid()));
  if (!done) std::fprintf(stderr, "TROUPE_FAULTS: %s\n", done.error().message.c_str());
  return bool(done);
}();

}  // namespace

constinit std::atomic<bool> FaultPoint::enabled{false};

FaultPoint::FaultPoint(const char* name) : name_(name) {
  next_ = first.load();
  while (!first.compare_exchange_weak(next_, this)) {
  }
}

bool FaultPoint::decide() {
  Chooser& c = chooser();
  std::lock_guard lock(c.mutex);
  reached_.fetch_add(1, std::memory_order_relaxed);
  bool fires = false;
  if (c.decide) {
    fires = c.decide(*this);
  } else {
    for (Rule& rule : c.rules) {
      if (!matches(rule.name, name_)) continue;
      fires = rule.most > 0 && static_cast<double>(c.draw() >> 11) * 0x1p-53 < rule.probability;
      rule.most -= fires;
      break;
    }
  }
  fired_.fetch_add(fires, std::memory_order_relaxed);
  return fires;
}

void FaultPoint::crash_now(const void* where) {
  Chooser& c = chooser();
  if (c.crash) return c.crash(*this, where);
  std::fprintf(stderr, "fault point %s: this process ends\n", name_);
  ::raise(SIGKILL);
}

std::vector<FaultPoint*> FaultPoints::all() {
  std::vector<FaultPoint*> points;
  for (FaultPoint* at = first.load(); at != nullptr; at = at->next_) points.push_back(at);
  std::sort(points.begin(), points.end(),
            [](FaultPoint* a, FaultPoint* b) { return std::strcmp(a->name(), b->name()) < 0; });
  return points;
}

Result<void> FaultPoints::configure(const std::string& text, std::uint64_t seed) {
  std::vector<Rule> rules;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(text.find('/', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    auto equals = part.find('=');
    Rule rule;
    char* rest = nullptr;
    if (equals != part.npos) {
      rule.name = part.substr(0, equals);
      rule.probability = std::strtod(part.c_str() + equals + 1, &rest);
      if (*rest == '*') rule.most = std::strtoull(rest + 1, &rest, 10);
    }
    bool sound = rest != nullptr && rest != part.c_str() + equals + 1 && *rest == 0 && !rule.name.empty() &&
                 rule.probability >= 0 && rule.probability <= 1;
    if (!sound) {
      return Error(ErrorKind::invalid_argument,
                   "\"" + part + "\" is not NAME=PROBABILITY or NAME=PROBABILITY*TIMES");
    }
    rules.push_back(std::move(rule));
  }
  Chooser& c = chooser();
  std::lock_guard lock(c.mutex);
  c.rules = std::move(rules);
  c.state = seed;
  c.decide = nullptr;
  c.crash = nullptr;
  FaultPoint::enabled = !c.rules.empty();
  return {};
}

void FaultPoints::decide_by(Decide decide, Crash crash) {
  Chooser& c = chooser();
  std::lock_guard lock(c.mutex);
  c.rules.clear();
  c.decide = std::move(decide);
  c.crash = std::move(crash);
  FaultPoint::enabled = bool(c.decide);
}

}  // namespace troupe
