// A fuzz target turns any bytes into one run of the code under test. It must end, and neither crash nor trip
// a sanitizer nor abort: it aborts itself when a rule is broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::fuzz {

using Input = std::vector<std::uint8_t>;

// Defined by each target.
void run(std::span<const std::uint8_t> input);
std::vector<Input> seeds();  // inputs that reach far, to begin from

// Reads an input as a series of small decisions; zeros when it is used up.
class Script {
 public:
  explicit Script(std::span<const std::uint8_t> input) : input_(input) {}
  bool done() const { return input_.empty(); }
  std::uint8_t byte() {
    if (input_.empty()) return 0;
    std::uint8_t b = input_.front();
    input_ = input_.subspan(1);
    return b;
  }
  std::uint64_t number(int bytes) {
    std::uint64_t n = 0;
    for (int i = 0; i < bytes; ++i) n |= std::uint64_t{byte()} << 8 * i;
    return n;
  }
  std::span<const std::uint8_t> bytes(std::size_t n) {
    auto out = input_.first(n < input_.size() ? n : input_.size());
    input_ = input_.subspan(out.size());
    return out;
  }

 private:
  std::span<const std::uint8_t> input_;
};

// Aborts with `rule` when it does not hold.
void require(bool holds, const char* rule);

}  // namespace troupe::fuzz
