// The actor classes of the tour (tour.cpp), which the tutorial and the concepts quote.
#pragma once

#include <troupe/troupe.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

// A plain aggregate travels as it is: nothing need be written for it.
struct Sample {
  std::string name;
  std::vector<double> values;
};

class Statistics {
 public:
  explicit Statistics(double scale) : scale_(scale) {}

  void add(const Sample& sample);
  double mean(const std::string& name) const;  // throws when nothing of that name was added
  double mean() const;                         // of all
  int count() const noexcept;

 private:
  double scale_;
  std::map<std::string, std::vector<double>> values_;
};

template <>
inline constexpr auto troupe::actor<Statistics> =
    troupe::describe<Statistics>("Statistics")
        .constructor<double>()
        .methods<&Statistics::add, &Statistics::count, troupe::overload<double() const>(&Statistics::mean),
                 troupe::overload<double(const std::string&) const>(&Statistics::mean)>();

class Average {
 public:
  explicit Average(std::vector<troupe::Handle<Statistics>> parts) : parts_(std::move(parts)) {}
  troupe::Task<double> mean();
  troupe::Future<double> first();

 private:
  std::vector<troupe::Handle<Statistics>> parts_;
};

template <>
inline constexpr auto troupe::actor<Average> = troupe::describe<Average>("Average")
                                                   .constructor<std::vector<troupe::Handle<Statistics>>>()
                                                   .methods<&Average::mean, &Average::first>();

class Features {
 public:
  troupe::ObjectRef<troupe::Tensor> of(int shard) const;
};

template <>
inline constexpr auto troupe::actor<Features> =
    troupe::describe<Features>("Features").methods<&Features::of>();

class Numbers {
 public:
  troupe::Generator<int> up_to(int last);
};

template <>
inline constexpr auto troupe::actor<Numbers> =
    troupe::describe<Numbers>("Numbers").methods<&Numbers::up_to>();

class Adder {
 public:
  troupe::Task<int> sum(troupe::Handle<Numbers> numbers, int last);
};

template <>
inline constexpr auto troupe::actor<Adder> = troupe::describe<Adder>("Adder").methods<&Adder::sum>();

class Probe {
 public:
  std::string where() const;
  int pid() const;
  int incarnation() const;
  int work(int milliseconds);  // how many of them passed before the caller lost interest
};

template <>
inline constexpr auto troupe::actor<Probe> =
    troupe::describe<Probe>("Probe").methods<&Probe::where, &Probe::pid, &Probe::incarnation, &Probe::work>();

// Two calls of it may be in progress at a time: they interleave where they co_await.
class Relay {
 public:
  troupe::Task<int> forward(troupe::Handle<Probe> probe);
};

template <>
inline constexpr auto troupe::actor<Relay> =
    troupe::describe<Relay>("Relay").methods<&Relay::forward>().concurrent(2);

// Its state survives its process.
class Account {
 public:
  int deposit(int amount) { return balance_ += amount; }
  int balance() const { return balance_; }
  void save(troupe::Writer& to) const { troupe::encode(to, balance_); }
  void load(troupe::Reader& from) { troupe::decode(from, balance_); }

 private:
  int balance_ = 0;
};

template <>
inline constexpr auto troupe::actor<Account> =
    troupe::describe<Account>("Account").methods<&Account::deposit, &Account::balance>();

class Trainer {
 public:
  void enter(troupe::Group group) {
    group_ = group;
    group_.join().get();  // waits for all
  }
  float step(float loss) {
    auto gradients = troupe::Tensor::from(std::vector<float>(1000, loss));
    group_.all_reduce(gradients, troupe::ReduceOp::average).get();
    return gradients.span<float>()[0];
  }
  float grid(int columns) {
    auto activations = troupe::Tensor::from(std::vector<float>(10, 1.0f));
    auto row = group_.split(group_.rank() / columns).get();
    auto column = group_.split(group_.rank() % columns).get();
    row.all_reduce(activations).get();
    column.barrier().get();
    return activations.span<float>()[0];
  }

 private:
  troupe::Group group_;
};
template <>
inline constexpr auto troupe::actor<Trainer> =
    troupe::describe<Trainer>("Trainer").methods<&Trainer::enter, &Trainer::step, &Trainer::grid>();
