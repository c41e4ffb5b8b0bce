// The probe's cases of groups: actors that work on tensors together, one of which may be killed.
#pragma once

#include <troupe/troupe.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace probe {

class Member {
 public:
  // "rank R of N, generation G"; joins, or forms anew.
  std::string join(troupe::Group group);
  std::string reform();
  // What the sum of everybody's `value` is, by way of a tensor of `size` elements.
  float sum(float value, int size);
  std::vector<float> gather(float value, int count);
  // Sends around the ring and returns what came.
  float ring(float value);
  // Calls the collective with a size of its own: all must get the same error.
  float sum_of_size(int size);
  void leave() { group_.leave(); }
  int pid() const;

 private:
  std::string where() const;
  troupe::Group group_;
};

const std::map<std::string, std::function<void()>>& group_cases();

}  // namespace probe

template <>
inline constexpr auto troupe::actor<probe::Member> =
    troupe::describe<probe::Member>("probe.Member")
        .methods<&probe::Member::join, &probe::Member::reform, &probe::Member::sum, &probe::Member::gather,
                 &probe::Member::ring, &probe::Member::sum_of_size, &probe::Member::leave,
                 &probe::Member::pid>();
