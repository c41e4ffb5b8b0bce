// The probe's durable cases: an actor's process is killed while calls are made, and each is applied once.
#pragma once

#include <troupe/troupe.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace probe {

class Ledger {
 public:
  int append(int n);
  void refuse(const std::string& why);
  std::vector<int> all() const { return entries_; }
  int pid() const;
  std::uint32_t incarnation() const;
  std::string where() const;
  void save(troupe::Writer& to) const { troupe::encode(to, entries_); }
  void load(troupe::Reader& from) { troupe::decode(from, entries_); }

 private:
  std::vector<int> entries_;
};

const std::map<std::string, std::function<void()>>& durable_cases();

// How much durable_node, durable_light, durable_shared and durable_store do.
struct DurableSize {
  int actors = 5;
  int calls = 1000;  // to each
  int kills = 4;     // of each
};
extern DurableSize durable_size;

}  // namespace probe

template <>
inline constexpr auto troupe::actor<probe::Ledger> =
    troupe::describe<probe::Ledger>("probe.Ledger")
        .methods<&probe::Ledger::append, &probe::Ledger::refuse, &probe::Ledger::all, &probe::Ledger::pid,
                 &probe::Ledger::incarnation, &probe::Ledger::where>();
