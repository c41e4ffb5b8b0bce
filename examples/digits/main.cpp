// Trains a perceptron on the handwritten digits with actors on all nodes of the cluster. See README.md.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include "progress.h"
#include "training.h"

namespace {

using namespace digits;

struct Settings {
  std::string data = DIGITS_DATA;
  std::uint32_t steps = 900;
  std::uint64_t seed = 1;
  bool server = false, kill_trainer = false, kill_node = false, verify = false;
};

struct Outcome {
  Parameters parameters;
  double accuracy = 0;
  std::uint32_t restarts = 0;
};

constexpr std::uint32_t kStepsPerReport = 25;

int usage(const char* problem) {
  if (problem != nullptr) std::fprintf(stderr, "digits: %s\n", problem);
  std::fprintf(
      stderr,
      "usage: digits [--sync allreduce|ps] [--data FILE] [--steps N] [--seed N] [--kill] [--kill-node]\n"
      "              [--verify]\n"
      "  --sync       who averages the gradients: a group of the trainers (the default), or a parameter\n"
      "               server\n"
      "  --kill       kill a trainer's process half way\n"
      "  --kill-node  and later a node, with all that runs on it\n"
      "  --verify     train undisturbed first and compare the parameters bit by bit\n");
  return problem != nullptr ? 2 : 0;
}

Outcome train(const Settings& settings, const std::string& title, bool disturbed) {
  auto nodes = troupe::nodes();
  auto evaluator = troupe::spawn<Evaluator>(safe(), settings.data);
  auto training = settings.server ? train_with_server(settings.data, settings.seed)
                                  : train_with_group(settings.data, settings.seed);
  ProgressLine line(title, settings.steps);
  std::uint64_t samples = 0;
  Outcome outcome;
  for (std::uint32_t done = 0; done < settings.steps;) {
    std::uint32_t count = std::min(kStepsPerReport, settings.steps - done);
    bool half = done < settings.steps / 2 && done + count >= settings.steps / 2;
    bool late = done < settings.steps * 3 / 4 && done + count >= settings.steps * 3 / 4;
    bool kill_trainer = disturbed && settings.kill_trainer && half;
    std::string place;
    int pid = -1;
    if (kill_trainer) {
      place = training->place(kTrainers - 1);
      pid = training->pid(kTrainers - 1);
    }
    training->begin(done + count);
    if (kill_trainer) {
      // Some way into the steps.
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ::kill(pid, SIGKILL);
      line.note("killed a trainer (" + place + ")");
      line.note("it is back (" + training->place(kTrainers - 1) + ")");
    }
    if (disturbed && settings.kill_node && late && nodes.size() > 1) {
      ::kill(nodes.back().pid, SIGKILL);
      line.note("killed node " + nodes.back().name);
      for (std::size_t i = 0; i < kTrainers; ++i) line.note("a trainer runs on " + training->place(i));
    }
    Snapshot now = training->finish();
    done = now.step;
    samples += count * kRowsPerStep * kTrainers;
    outcome.accuracy = evaluator.call<&Evaluator::accuracy>(now.parameters).get();
    outcome.parameters = std::move(now.parameters);
    line.show(done, now.loss, outcome.accuracy, samples);
  }
  line.end();
  outcome.restarts = training->restarts();
  training->end();
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
  troupe::Runtime runtime(argc, argv, troupe::classes<Preprocessor, Trainer, Server, Replica, Evaluator>);
  Settings settings;
  std::string sync;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    bool more = i + 1 < argc;
    if (arg == "--kill")
      settings.kill_trainer = true;
    else if (arg == "--kill-node")
      settings.kill_node = true;
    else if (arg == "--verify")
      settings.verify = true;
    else if (arg == "--sync" && more && (sync = argv[i + 1], sync == "ps" || sync == "allreduce"))
      settings.server = sync == "ps", ++i;
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
  } catch (const std::exception& e) {
    std::fprintf(stderr, "digits: %s\n", e.what());
    return 1;
  }
}
