// What became of each call of one caller, and whether that agrees with what the actors say they ran.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors.h"

namespace chaos {

struct Sums {
  std::uint64_t made = 0, acknowledged = 0, hung = 0;
  std::uint64_t lost = 0;      // acknowledged, but no actor ran it
  std::uint64_t twice = 0;     // ran more often than it may
  std::uint64_t disorder = 0;  // ran behind a later one of its handle
  std::uint64_t again = 0;     // incarnations that began a second time
  std::int64_t longest_ms = 0;
  std::map<std::string, std::uint64_t> failed;  // by kind

  void add(const Sums& other);
  std::string json() const;
  bool good() const { return hung + lost + twice + disorder + again == 0; }
};

// The calls of one caller, numbered from 0. One thread.
class Ledger {
 public:
  explicit Ledger(bool retries) : retries_(retries) {}
  std::uint64_t make() { return ends_.push_back(kOpen), sums_.made++; }
  void acknowledge(std::uint64_t number, std::uint32_t incarnation, std::int64_t ms);
  void fail(std::uint64_t number, std::uint32_t kind, std::int64_t ms);
  void give_up(std::uint64_t number);  // it hangs
  // Compares with the files of the Counter; `from` and `to`: the numbers that went to it.
  void check(const std::string& prefix, std::uint32_t caller, std::uint64_t from, std::uint64_t to);
  const Sums& sums() const { return sums_; }

 private:
  static constexpr std::uint32_t kOpen = 0, kFailed = 0xffffffff;  // else the incarnation that answered
  bool retries_;
  std::vector<std::uint32_t> ends_;
  Sums sums_;
};

}  // namespace chaos
