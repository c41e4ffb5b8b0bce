// Trains a perceptron on the handwritten digits with actors on all nodes of the cluster. See README.md.
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "actors.h"
#include "progress.h"

namespace {

using namespace digits;

struct Settings {
  std::string data = DIGITS_DATA;
  std::uint32_t steps = 900;
  std::uint64_t seed = 1;
  bool kill_trainer = false, kill_node = false, verify = false;
};

struct Outcome {
  Parameters parameters;
  double accuracy = 0;
  std::uint32_t restarts = 0;
};

constexpr std::uint32_t kStepsPerReport = 25;

int usage(const char* problem) {
  if (problem != nullptr) std::fprintf(stderr, "digits: %s\n", problem);
  std::fprintf(stderr,
               "usage: digits [--data FILE] [--steps N] [--seed N] [--kill] [--kill-node] [--verify]\n"
               "  --kill       kill a trainer's process half way\n"
               "  --kill-node  and later a node, with all that runs on it\n"
               "  --verify     train undisturbed first and compare the parameters bit by bit\n");
  return problem != nullptr ? 2 : 0;
}

// What survives a node's death by being made again elsewhere.
troupe::ActorOptions restartable() { return troupe::ActorOptions().cpus(0.25).max_restarts(-1); }

Outcome train(const Settings& settings, const std::string& title, bool disturbed) {
  auto nodes = troupe::nodes();
  // State lives on the first node; the second is the one that may be killed.
  auto safe = [&] { return troupe::ActorOptions().cpus(0.25).node(nodes.front().name); };
  std::vector<troupe::Handle<Preprocessor>> sources;
  for (int i = 0; i < 2; ++i) sources.push_back(troupe::spawn<Preprocessor>(restartable(), settings.data));
  std::vector<troupe::Handle<Trainer>> trainers;
  for (std::uint32_t i = 0; i < kTrainers; ++i) {
    trainers.push_back(troupe::spawn<Trainer>(restartable(), sources[i % sources.size()], i));
  }
  auto server = troupe::spawn<Server>(safe(), trainers, settings.seed);
  auto evaluator = troupe::spawn<Evaluator>(safe(), settings.data);

  ProgressLine line(title, settings.steps);
  std::uint64_t samples = 0;
  double accuracy = 0;
  auto retried = troupe::CallOptions().retries(20);
  for (std::uint32_t done = 0; done < settings.steps;) {
    std::uint32_t count = std::min(kStepsPerReport, settings.steps - done);
    auto training = server.call<&Server::train>(count);
    bool half = done < settings.steps / 2 && done + count >= settings.steps / 2;
    if (disturbed && settings.kill_trainer && half) {
      auto& victim = trainers.back();
      auto place = victim.call<&Trainer::place>().get();
      int pid = victim.call<&Trainer::pid>().get();
      ::kill(pid, SIGKILL);
      line.note("killed a trainer (" + place + ")");
      line.note("it is back (" + victim.with(retried).call<&Trainer::place>().get() + ")");
    }
    bool late = done < settings.steps * 3 / 4 && done + count >= settings.steps * 3 / 4;
    if (disturbed && settings.kill_node && late && nodes.size() > 1) {
      ::kill(nodes.back().pid, SIGKILL);
      line.note("killed node " + nodes.back().name);
      for (auto& trainer : trainers) {
        line.note("a trainer runs on " + trainer.with(retried).call<&Trainer::place>().get());
      }
    }
    Progress progress = training.get();
    done = progress.step;
    samples += count * kRowsPerStep * kTrainers;
    accuracy = evaluator.call<&Evaluator::accuracy>(server.call<&Server::parameters>().get()).get();
    line.show(done, progress.loss, accuracy, samples);
  }
  line.end();
  Outcome outcome;
  outcome.parameters = server.call<&Server::parameters>().get();
  outcome.accuracy = accuracy;
  for (auto& trainer : trainers) {
    outcome.restarts += trainer.with(retried).call<&Trainer::incarnation>().get() - 1;
    trainer.kill().get();
  }
  for (auto& source : sources) source.kill().get();
  server.kill().get();
  evaluator.kill().get();
  return outcome;
}

bool same_bits(const Parameters& a, const Parameters& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

int run(const Settings& settings) {
  std::optional<Outcome> reference;
  if (settings.verify) reference = train(settings, "undisturbed", false);
  Outcome outcome = train(settings, "training", true);
  const char* identical = "not compared";
  bool ok = true;
  if (reference) {
    ok = same_bits(reference->parameters, outcome.parameters);
    identical = ok ? "yes" : "no";
  }
  std::printf("digits: %s accuracy=%.4f restarts=%u identical=%s\n", ok ? "ok" : "failed", outcome.accuracy,
              outcome.restarts, identical);
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  troupe::Runtime runtime(argc, argv, troupe::classes<Preprocessor, Trainer, Server, Evaluator>);
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    bool more = i + 1 < argc;
    if (arg == "--kill")
      settings.kill_trainer = true;
    else if (arg == "--kill-node")
      settings.kill_node = true;
    else if (arg == "--verify")
      settings.verify = true;
    else if (arg == "--data" && more)
      settings.data = argv[++i];
    else if (arg == "--steps" && more)
      settings.steps = static_cast<std::uint32_t>(std::strtoul(argv[++i], nullptr, 10));
    else if (arg == "--seed" && more)
      settings.seed = std::strtoull(argv[++i], nullptr, 10);
    else if (arg == "--help")
      return usage(nullptr);
    else
      return usage(("unknown or incomplete option " + arg).c_str());
  }
  if (settings.steps == 0) return usage("--steps must be at least 1");
  try {
    return run(settings);
  } catch (const troupe::Failure& e) {
    std::fprintf(stderr, "digits: %s\n", e.what());
    return 1;
  }
}
