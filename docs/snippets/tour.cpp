// A tour of the actor API. docs/tutorial.md and docs/concepts quote it; docs/snippets/check compares.
// Run it with: troupe run --gpus 1 build/release/bin/snippets
#include "tour.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <thread>

using namespace std::chrono_literals;

void Statistics::add(const Sample& sample) {
  auto& all = values_[sample.name];
  for (double value : sample.values) all.push_back(value * scale_);
}

double Statistics::mean(const std::string& name) const {
  auto found = values_.find(name);
  if (found == values_.end()) throw std::out_of_range("no values of " + name);
  return std::accumulate(found->second.begin(), found->second.end(), 0.0) / found->second.size();
}

double Statistics::mean() const {
  double sum = 0;
  for (const auto& [name, values] : values_) sum += mean(name);
  return values_.empty() ? 0 : sum / values_.size();
}

int Statistics::count() const noexcept { return static_cast<int>(values_.size()); }

troupe::Task<double> Average::mean() {
  std::vector<troupe::Future<double>> asked;
  for (auto& part : parts_) {
    asked.push_back(part.call<troupe::overload<double() const>(&Statistics::mean)>());
  }
  auto all = troupe::when_all(std::move(asked));
  std::vector<double> means = co_await all;
  co_return std::accumulate(means.begin(), means.end(), 0.0) / means.size();
}

troupe::Future<double> Average::first() {
  return parts_.front().call<troupe::overload<double() const>(&Statistics::mean)>();
}

troupe::ObjectRef<troupe::Tensor> Features::of(int shard) const {
  return troupe::put(troupe::Tensor::from(std::vector<float>(1000, static_cast<float>(shard))));
}

troupe::Generator<int> Numbers::up_to(int last) {
  for (int i = 1; i <= last; ++i) co_yield i;
}

troupe::Task<int> Adder::sum(troupe::Handle<Numbers> numbers, int last) {
  auto stream = numbers.call<&Numbers::up_to>(last);
  int total = 0;
  for (;;) {
    auto next = stream.next_async();
    std::optional<int> number = co_await next;
    if (!number) break;
    total += *number;
  }
  co_return total;
}

std::string Probe::where() const {
  const troupe::Context& here = troupe::context();
  std::string text = here.node_name() + ", incarnation " + std::to_string(here.incarnation());
  for (auto gpu : here.gpus()) text += ", GPU slot " + std::to_string(gpu);
  return text;
}

int Probe::pid() const { return ::getpid(); }

int Probe::incarnation() const { return static_cast<int>(troupe::context().incarnation()); }

int Probe::work(int milliseconds) {
  for (int passed = 0; passed < milliseconds; ++passed) {
    if (troupe::context().cancelled()) return passed;
    std::this_thread::sleep_for(1ms);
  }
  return milliseconds;
}

troupe::Task<int> Relay::forward(troupe::Handle<Probe> probe) {
  auto pid = probe.call<&Probe::pid>();
  int result = co_await pid;
  co_return result;
}

namespace {

void handles_and_futures() {
  auto statistics = troupe::spawn<Statistics>(troupe::ActorOptions(), 2.0);

  // Returns at once. The call travels while this thread goes on.
  troupe::Future<void> added = statistics.call<&Statistics::add>(Sample{"height", {1.0, 2.0, 3.0}});
  troupe::Future<int> counted = statistics.call<&Statistics::count>();

  added.get();                  // waits; throws if the call failed
  int count = counted.get(1s);  // waits at most so long, then throws DeadlineExceeded

  // One way: nobody is told of a result or a failure.
  statistics.tell<&Statistics::add>(Sample{"weight", {5.0}});

  // Calls of one handle run in the order they were made, so this one sees the weight.
  constexpr auto mean_of = troupe::overload<double(const std::string&) const>(&Statistics::mean);
  double mean = statistics.call<mean_of>("weight").get();
  std::printf("handles: count %d, mean %g\n", count, mean);
}

void continuations() {
  auto statistics = troupe::spawn<Statistics>(troupe::ActorOptions(), 1.0);
  statistics.tell<&Statistics::add>(Sample{"height", {1.0, 2.0, 3.0}});

  constexpr auto mean = troupe::overload<double() const>(&Statistics::mean);
  troupe::Future<double> doubled = statistics.call<mean>().then([](double value) { return 2 * value; });

  auto first = statistics.call<mean>();
  auto second = statistics.call<&Statistics::count>();
  auto [value, count] = troupe::when_all(std::move(first), std::move(second)).get();
  std::printf("continuations: %g, %g, %d\n", doubled.get(), value, count);
}

void coroutines() {
  std::vector<troupe::Handle<Statistics>> parts;
  for (double scale : {1.0, 3.0}) {
    parts.push_back(troupe::spawn<Statistics>(troupe::ActorOptions(), scale));
    parts.back().tell<&Statistics::add>(Sample{"height", {1.0}});
  }
  auto average = troupe::spawn<Average>(troupe::ActorOptions(), parts);
  std::printf("coroutines: %g\n", average.call<&Average::mean>().get());

  // The same in the driver: start() gives a coroutine a future.
  auto again = [](troupe::Handle<Average> actor) -> troupe::Task<double> {
    auto mean = actor.call<&Average::mean>();
    double result = co_await mean;
    co_return result;
  };
  std::printf("coroutines: %g\n", troupe::start(again(average)).get());
}

void first_of_several() {
  std::vector<troupe::Future<int>> asked;
  for (int i = 0; i < 3; ++i) {
    auto probe = troupe::spawn<Probe>(troupe::ActorOptions());
    asked.push_back(probe.call<&Probe::work>(1000 * i));
  }
  troupe::First<int> first = troupe::when_any(std::move(asked)).get();
  std::printf("first: number %zu with %d\n", first.index, first.value);
}

void streams() {
  auto numbers = troupe::spawn<Numbers>(troupe::ActorOptions());
  int sum = 0;
  for (int number : numbers.call<&Numbers::up_to>(1000)) sum += number;

  auto adder = troupe::spawn<Adder>(troupe::ActorOptions());
  int same = adder.call<&Adder::sum>(numbers, 1000).get();
  std::printf("streams: %d, %d\n", sum, same);
}

void names() {
  auto options = troupe::ActorOptions().name("statistics").get_or_create();
  auto made = troupe::spawn<Statistics>(options, 1.0);
  auto same = troupe::spawn<Statistics>(options, 1.0);  // the actor that exists
  auto found = troupe::find<Statistics>("statistics");  // NotFound when there is none
  std::printf("names: %s\n", made == same && same == found ? "one actor" : "several actors");

  // Outlives this program, until somebody kills it or the cluster ends.
  auto kept = troupe::spawn<Statistics>(troupe::ActorOptions().name("kept").detached(), 1.0);
  kept.ready().get();  // waits until it has been constructed
  kept.kill().get();
}

void resources() {
  auto half = troupe::ActorOptions().cpus(0.5).gpus(0.5).memory(64 << 20);
  auto one = troupe::spawn<Probe>(half);
  auto two = troupe::spawn<Probe>(half);  // shares the GPU with the first
  std::printf("resources: %s; %s\n", one.call<&Probe::where>().get().c_str(),
              two.call<&Probe::where>().get().c_str());

  for (const troupe::NodeDescription& node : troupe::nodes()) {
    std::printf("resources: node %s has %g GPUs, %g free\n", node.name.c_str(), node.total.amount("gpu"),
                node.free.amount("gpu"));
  }
  one.kill().get();
  two.kill().get();
}

void light_actors() {
  std::vector<troupe::Handle<Probe>> many;
  for (int i = 0; i < 100; ++i) many.push_back(troupe::spawn<Probe>(troupe::ActorOptions().light()));
  std::vector<troupe::Future<int>> asked;
  for (auto& probe : many) asked.push_back(probe.call<&Probe::pid>());
  std::vector<int> pids = troupe::when_all(std::move(asked)).get();
  std::printf("light: 100 actors, %s\n", pids.front() == pids.back() ? "one process" : "several processes");
}

void exceptions() {
  auto statistics = troupe::spawn<Statistics>(troupe::ActorOptions(), 1.0);
  constexpr auto mean_of = troupe::overload<double(const std::string&) const>(&Statistics::mean);
  try {
    statistics.call<mean_of>("nothing").get();
  } catch (const troupe::ActorError& failure) {
    const troupe::Error& error = failure.error();
    std::printf("exceptions: %s says: %s\n", error.type.c_str(), error.message.c_str());
    for (const std::string& frame : error.backtrace) std::fprintf(stderr, "  %s\n", frame.c_str());
  }
}

void restarts() {
  auto probe = troupe::spawn<Probe>(troupe::ActorOptions().max_restarts(3));
  int pid = probe.call<&Probe::pid>().get();

  auto lost = probe.call<&Probe::work>(60'000);
  auto retried = probe.with(troupe::CallOptions().retries(2)).call<&Probe::incarnation>();
  ::kill(pid, SIGKILL);

  try {
    lost.get();
  } catch (const troupe::ActorDied& failure) {
    std::printf("restarts: %s\n", troupe::to_string(failure.kind()));
  }
  std::printf("restarts: incarnation %d answered\n", retried.get());
}

void deadlines() {
  auto probe = troupe::spawn<Probe>(troupe::ActorOptions());
  probe.ready().get();
  auto slow = probe.with(troupe::CallOptions().deadline(50ms)).call<&Probe::work>(60'000);
  try {
    slow.get();
  } catch (const troupe::DeadlineExceeded&) {
    std::printf("deadlines: passed\n");
  }

  auto unwanted = probe.call<&Probe::work>(100);
  unwanted.cancel();  // the wait ends with Cancelled, and the actor is told
  try {
    unwanted.get();
  } catch (const troupe::Cancelled&) {
    std::printf("deadlines: cancelled\n");
  }
  probe.call<&Probe::pid>().get();
}

void concurrency() {
  auto relay = troupe::spawn<Relay>(troupe::ActorOptions());
  auto probe = troupe::spawn<Probe>(troupe::ActorOptions());
  auto one = relay.call<&Relay::forward>(probe), two = relay.call<&Relay::forward>(probe);
  std::printf("concurrency: %s\n", one.get() == two.get() ? "same" : "different");
}

void owners() {
  auto options = troupe::ActorOptions().max_restarts(3).within(10min);
  options.on_failure([](const troupe::ActorFailure& failure) {
    std::printf("owners: %s is gone: %s\n", failure.class_name.c_str(), failure.error.message.c_str());
  });
  auto watched = troupe::spawn<Probe>(options);
  watched.ready().get();

  troupe::on_failure([](const troupe::ActorFailure&) { std::printf("owners: another one is gone\n"); });
  auto other = troupe::spawn<Probe>(troupe::ActorOptions());
  other.ready().get();
}

void durable_actors() {
  auto account = troupe::spawn<Account>(troupe::ActorOptions().durable(troupe::Durable()));
  account.call<&Account::deposit>(40).get();
  account.restart().get();
  std::printf("durable: %d\n", account.call<&Account::deposit>(2).get());
}

void tensors() {
  auto weights = troupe::Tensor::zeros(troupe::DType::f32, {128, 10});
  auto w = weights.view<float, 2>();
  w(3, 4) = 0.5f;
  auto row = weights.select(0, 3);     // shares the memory
  auto columns = weights.transpose();  // so does this
  std::printf("tensors: %s, %g\n", columns.describe().c_str(), row.view<float, 1>()(4));
}

void objects() {
  auto batch = troupe::Tensor::zeros(troupe::DType::f32, {1000, 64});
  troupe::ObjectRef<troupe::Tensor> ref = troupe::put(batch);  // one copy, into shared memory
  troupe::Object<troupe::Tensor> there = ref.get();            // none
  float first = there->view<float, 2>()(0, 0);
  std::printf("objects: %s, %g\n", there->describe().c_str(), first);
}

void objects_made_again() {
  auto worker = troupe::spawn<Features>(troupe::ActorOptions().max_restarts(-1));
  auto again = troupe::CallOptions().recompute(2);
  troupe::ObjectRef<troupe::Tensor> features = worker.with(again).call<&Features::of>(3).get();
  std::printf("recompute: %g\n", features.get()->view<float, 1>()(0));
}

void groups() {
  std::vector<troupe::Handle<Trainer>> trainers;
  for (int i = 0; i < 3; ++i) trainers.push_back(troupe::spawn<Trainer>(troupe::ActorOptions()));
  auto group = troupe::make_group(trainers);
  std::vector<troupe::Future<void>> entered;
  for (auto& trainer : trainers) entered.push_back(trainer.call<&Trainer::enter>(group));
  for (auto& one : entered) one.get();
  std::vector<troupe::Future<float>> means;
  for (int i = 0; i < 3; ++i) means.push_back(trainers[i].call<&Trainer::step>(i));
  std::vector<troupe::Future<float>> rows;
  for (int i = 0; i < 3; ++i) rows.push_back(trainers[i].call<&Trainer::grid>(3));
  std::printf("groups: %g, rows of %g\n", means[0].get(), rows[0].get());
}

}  // namespace

int main(int argc, char** argv) {
  troupe::Runtime runtime(
      argc, argv,
      troupe::classes<Statistics, Average, Features, Numbers, Adder, Probe, Relay, Account, Trainer>);
  try {
    handles_and_futures();
    continuations();
    coroutines();
    first_of_several();
    streams();
    names();
    light_actors();
    exceptions();
    restarts();
    deadlines();
    concurrency();
    owners();
    durable_actors();
    tensors();
    objects();
    objects_made_again();
    groups();
    resources();
  } catch (const troupe::Failure& failure) {
    std::fprintf(stderr, "snippets: %s\n", failure.what());
    return 1;
  }
}
