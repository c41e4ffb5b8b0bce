#include "ledger.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace chaos {

void Sums::add(const Sums& other) {
  made += other.made, acknowledged += other.acknowledged, hung += other.hung, lost += other.lost;
  twice += other.twice, disorder += other.disorder, again += other.again;
  longest_ms = std::max(longest_ms, other.longest_ms);
  for (auto& [kind, count] : other.failed) failed[kind] += count;
}

std::string Sums::json() const {
  std::ostringstream out;
  out << "{\"made\":" << made << ",\"acknowledged\":" << acknowledged << ",\"hung\":" << hung
      << ",\"lost\":" << lost << ",\"twice\":" << twice << ",\"disorder\":" << disorder
      << ",\"again\":" << again << ",\"longest_ms\":" << longest_ms << ",\"failed\":{";
  const char* comma = "";
  for (auto& [kind, count] : failed) out << std::exchange(comma, ",") << '"' << kind << "\":" << count;
  return out.str() + "}}";
}

void Ledger::acknowledge(std::uint64_t number, std::uint32_t incarnation, std::int64_t ms) {
  ends_[number] = incarnation;
  ++sums_.acknowledged;
  sums_.longest_ms = std::max(sums_.longest_ms, ms);
}

void Ledger::fail(std::uint64_t number, std::uint32_t kind, std::int64_t ms) {
  ends_[number] = kFailed;
  ++sums_.failed[troupe::to_string(static_cast<troupe::ErrorKind>(kind))];
  sums_.longest_ms = std::max(sums_.longest_ms, ms);
}

void Ledger::give_up(std::uint64_t number) {
  ends_[number] = kFailed;
  ++sums_.hung;
}

void Ledger::check(const std::string& prefix, std::uint32_t caller, std::uint64_t from, std::uint64_t to) {
  std::map<std::uint32_t, std::string> files;  // by incarnation
  std::filesystem::path at(prefix);
  for (auto& file : std::filesystem::directory_iterator(at.parent_path())) {
    std::string name = file.path().filename().string(), mine = at.filename().string() + ".";
    if (name.rfind(mine, 0) != 0) continue;
    if (name.ends_with(".again"))
      ++sums_.again;
    else
      files[static_cast<std::uint32_t>(std::stoul(name.substr(mine.size())))] = file.path().string();
  }
  auto complain = [&](const char* what, const Record& r, std::uint32_t incarnation) {
    std::fprintf(stderr, "ledger: %s: call %llu of caller %u via %u, %s.%u\n", what,
                 static_cast<unsigned long long>(r.number), r.caller, r.via, prefix.c_str(), incarnation);
  };
  std::vector<std::uint8_t> ran(to - from, 0), answered(to - from, 0);
  std::map<std::uint32_t, std::uint64_t> last;  // by relay: the number after the newest
  for (auto& [incarnation, path] : files) {
    std::ifstream in(path, std::ios::binary);
    if (retries_) last.clear(), std::fill(ran.begin(), ran.end(), std::uint8_t{0});
    for (Record r; in.read(reinterpret_cast<char*>(&r), sizeof r);) {
      if (r.caller != caller || r.number < from || r.number >= to) continue;
      auto& runs = ran[r.number - from];
      if (runs++ > 0) ++sums_.twice, complain("ran twice", r, incarnation);
      auto& next = last[r.via];
      if (runs == 1 && r.number < next) ++sums_.disorder, complain("out of order", r, incarnation);
      next = std::max(next, r.number + 1);
      if (ends_[r.number] == incarnation) answered[r.number - from] = 1;
    }
  }
  for (std::uint64_t n = from; n < to; ++n) {
    if (ends_[n] == kOpen || ends_[n] == kFailed || answered[n - from]) continue;
    ++sums_.lost, complain("acknowledged but did not run", {caller, 0, n}, ends_[n]);
  }
}

}  // namespace chaos
