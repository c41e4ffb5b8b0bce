// The probe's cases of objects: references in all the ways they go, and processes killed meanwhile. They run
// on one node.
#pragma once

#include <troupe/troupe.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace probe {

using Bytes = troupe::ObjectRef<std::vector<std::uint64_t>>;

class Keeper {
 public:
  Bytes make(std::uint64_t value, int count);    // puts an object
  Bytes doubled(const Bytes& object) const;      // puts one that follows from it
  std::uint64_t sum(const Bytes& object) const;  // reads it
  std::uint64_t sum_all(const std::vector<Bytes>& objects) const;
  void keep(Bytes object) { kept_.push_back(std::move(object)); }
  Bytes kept() const { return kept_.back(); }
  std::uint64_t sum_kept() const;
  void forget() { kept_.clear(); }
  troupe::Task<std::uint64_t> await_sum(Bytes object);
  troupe::Generator<Bytes> several(int n);
  Bytes pass(Bytes object) const { return object; }
  std::uint64_t ask(troupe::Handle<Keeper> other, Bytes object) const;
  std::vector<std::uint64_t> big(int count) const;  // a result above 64 KiB
  float total(troupe::Tensor tensor) const;
  troupe::Tensor twice(troupe::Tensor tensor) const;  // in place
  void keep_tensor(troupe::Tensor tensor) { tensors_.push_back(std::move(tensor)); }
  float kept_total() const;
  void forget_tensors() { tensors_.clear(); }
  void give_tensors(troupe::Handle<Keeper> to, int count, float value) const;  // each of 64 Ki elements
  std::string text(troupe::ObjectRef<std::string> object) const;
  int pid() const;
  int descriptors() const;

 private:
  std::vector<Bytes> kept_;
  std::vector<troupe::Tensor> tensors_;
};

const std::map<std::string, std::function<void()>>& object_cases();

}  // namespace probe

template <>
inline constexpr auto troupe::actor<probe::Keeper> =
    troupe::describe<probe::Keeper>("probe.Keeper")
        .methods<&probe::Keeper::make, &probe::Keeper::doubled, &probe::Keeper::sum, &probe::Keeper::sum_all,
                 &probe::Keeper::keep, &probe::Keeper::kept, &probe::Keeper::sum_kept, &probe::Keeper::forget,
                 &probe::Keeper::await_sum, &probe::Keeper::several, &probe::Keeper::pass,
                 &probe::Keeper::ask, &probe::Keeper::big, &probe::Keeper::total, &probe::Keeper::twice,
                 &probe::Keeper::keep_tensor, &probe::Keeper::kept_total, &probe::Keeper::forget_tensors,
                 &probe::Keeper::give_tensors, &probe::Keeper::text, &probe::Keeper::pid,
                 &probe::Keeper::descriptors>();
