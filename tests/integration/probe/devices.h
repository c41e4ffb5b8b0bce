// The probe's cases of tensors on GPUs. They run on fake ones (tests/fake_device), which main() installs.
#pragma once

#include <troupe/troupe.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace probe {

void install_fake_devices();  // when the environment names some

struct Batch {
  std::string name;
  std::vector<troupe::Tensor> tensors;
  std::map<int, troupe::Tensor> more;
};

class Gpu {
 public:
  troupe::Tensor make(std::int64_t count, float value);  // on cuda:0
  float sum(const troupe::Tensor& tensor) const;
  void set(troupe::Tensor tensor, float value);  // in place: memory of fake devices is memory
  void keep(troupe::Tensor tensor) { kept_.push_back(std::move(tensor)); }
  troupe::Tensor kept() const { return kept_.back(); }
  float sum_kept() const;
  void forget() { kept_.clear(); }
  troupe::Tensor pass(troupe::Tensor tensor) const { return tensor; }
  troupe::Task<troupe::Tensor> pass_later(troupe::Tensor tensor) { co_return tensor; }
  Batch turn(Batch batch) const;  // its tensors in reverse
  troupe::Generator<troupe::Tensor> several(int n);
  float ask(troupe::Handle<Gpu> other, troupe::Tensor tensor) const;
  int same_memory(
      troupe::Handle<Gpu> other) const;  // of calls within a process: how many came back as they went
  std::string address(troupe::Tensor tensor) const;
  std::string device(troupe::Tensor tensor) const;
  std::vector<int> counts() const;  // of the fake driver: allocations, mappings, handles ever opened
  std::uint64_t in_use() const;
  int devices() const { return troupe::device_count(); }
  int pid() const;

 private:
  std::vector<troupe::Tensor> kept_;
};

const std::map<std::string, std::function<void()>>& device_cases();

}  // namespace probe

template <>
inline constexpr auto troupe::actor<probe::Gpu> =
    troupe::describe<probe::Gpu>("probe.Gpu")
        .methods<&probe::Gpu::make, &probe::Gpu::sum, &probe::Gpu::set, &probe::Gpu::keep, &probe::Gpu::kept,
                 &probe::Gpu::sum_kept, &probe::Gpu::forget, &probe::Gpu::pass, &probe::Gpu::pass_later,
                 &probe::Gpu::turn, &probe::Gpu::several, &probe::Gpu::ask, &probe::Gpu::same_memory,
                 &probe::Gpu::address, &probe::Gpu::device, &probe::Gpu::counts, &probe::Gpu::in_use,
                 &probe::Gpu::devices, &probe::Gpu::pid>();
