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
  // In a second group as well: the sums of both, with operations of both under way at once.
  std::vector<float> join_second(troupe::Group group, float value);
  // Splits into even and odd ranks: "part rank of size", the sum of the values in it and in the whole.
  std::string split(float value);
  int pid() const;

 private:
  std::string where() const;
  troupe::Group group_, second_, part_;
};

const std::map<std::string, std::function<void()>>& group_cases();

}  // namespace probe

template <>
inline constexpr auto troupe::actor<probe::Member> =
    troupe::describe<probe::Member>("probe.Member")
        .methods<&probe::Member::join, &probe::Member::reform, &probe::Member::sum, &probe::Member::gather,
                 &probe::Member::ring, &probe::Member::sum_of_size, &probe::Member::leave,
                 &probe::Member::join_second, &probe::Member::split, &probe::Member::pid>();
