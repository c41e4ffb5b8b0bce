#include "troupe/runtime.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "core/auth/random.h"
#include "runtime/call/actor_cell.h"
#include "runtime/process/process.h"
#include "runtime/worker/worker_start.h"
#include "troupe/supervision.h"

namespace troupe {
namespace {

// They travel through the control plane and lie in the control store.
constexpr std::size_t kMostConstructorBytes = 8 << 20;

ProcessOptions process_options(const RuntimeOptions& options) {
  ProcessOptions out;
  if (options.poll().count() >= 0) {
    out.poll = options.poll();
  } else if (const char* text = std::getenv("TROUPE_POLL_US")) {
    char* end = nullptr;
    long value = std::strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 0 || value > 1'000'000) {
      throw_failure(
          Error(ErrorKind::invalid_argument,
                std::string("TROUPE_POLL_US must be microseconds from 0 to 1000000, not \"") + text + "\""));
    }
    out.poll = std::chrono::microseconds(value);
  }
  return out;
}

// Waits for an answer of the control plane, driving the lane meanwhile.
template <class T, class Ask>
T wait_for_answer(Ask ask) {
  auto state = Ref<detail::FutureState<T>>::adopt(new detail::FutureState<T>(detail::default_lane()));
  ask([state](Result<T> answer) {
    detail::run_on(state->lane(), [state, answer = std::move(answer)]() mutable {
      if (!answer) {
        state->fail(answer.error());
      } else {
        state->value.emplace(std::move(*answer));
        state->finish_value();
      }
    });
  });
  return Future<T>(std::move(state)).get();
}

}  // namespace

Runtime::Runtime(int argc, char** argv, std::span<const ClassTable* const> classes, RuntimeOptions options) {
  if (auto registered = register_classes(classes); !registered) throw_failure(registered.error());
  ProcessOptions process = process_options(options);
  if (auto worker = enter_worker_role()) Process::run_worker(*worker, process);
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  auto started = Process::start_driver(options.head(), argc > 0 ? argv[0] : "driver", arguments, process);
  if (!started) throw_failure(started.error());
  process_ = std::move(*started);
}

Runtime::~Runtime() = default;

JobId Runtime::job() const { return process_->job(); }

std::vector<NodeDescription> nodes() {
  auto found = wait_for_answer<std::vector<NodeSummary>>(
      [](Answer<std::vector<NodeSummary>> answer) { Process::get().nodes(std::move(answer)); });
  std::vector<NodeDescription> out;
  for (auto& node : found) {
    out.push_back(
        {node.id, std::move(node.name), node.alive, node.pid, std::move(node.total), std::move(node.free)});
  }
  return out;
}

void on_failure(FailureHandler handler) {
  ActorCell* cell = current().cell;
  Process::get().on_failure(cell != nullptr ? cell->identity().id : ActorId(), std::move(handler));
}

namespace detail {
namespace {

Durability checked(const ClassTable& table, Durability plan) {
  if (table.save == nullptr || table.concurrency != 1) {
    throw_failure(Error(ErrorKind::invalid_argument,
                        std::string("a durable actor's class has save and load, and is not concurrent: ") +
                            table.name + " cannot be durable"));
  }
  if (plan.place == Durability::Place::shared && (plan.path.empty() || plan.path[0] != '/')) {
    throw_failure(
        Error(ErrorKind::invalid_argument,
              "JournalPlace::shared needs the absolute path of a folder that all nodes see, not \"" +
                  plan.path + "\""));
  }
  if (plan.place == Durability::Place::store) {
    plan.journal_limit = std::min(plan.journal_limit, kStoredJournalLimit);
    plan.snapshot_bytes = std::min(plan.snapshot_bytes, kStoredSnapshotBytes);
    if (plan.snapshot_bytes == 0) plan.snapshot_bytes = kStoredSnapshotBytes;
  }
  std::array<std::uint8_t, sizeof plan.key> key;
  if (auto got = random_bytes(key); !got) throw_failure(got.error());
  std::memcpy(&plan.key, key.data(), key.size());
  return plan;
}

}  // namespace

ActorId spawn(const ClassTable& table, const ActorOptions& options, const Writer& args) {
  if (find_class(table.name) != &table) {
    throw_failure(Error(ErrorKind::invalid_argument, std::string("the class ") + table.name +
                                                         " is not among those given to troupe::Runtime (" +
                                                         class_names() + "): add it to troupe::classes<…>"));
  }
  if (options.get_or_create() && options.name().empty()) {
    throw_failure(
        Error(ErrorKind::invalid_argument, "get_or_create needs a name: ActorOptions().name(\"…\")"));
  }
  if (options.max_restarts() < -1) {
    throw_failure(Error(ErrorKind::invalid_argument, "max_restarts must be -1 (without limit), 0 or more"));
  }
  if (options.within().count() < 0) {
    throw_failure(Error(ErrorKind::invalid_argument, "within: a negative time"));
  }
  if (options.detached() && options.on_failure()) {
    throw_failure(Error(ErrorKind::invalid_argument, "a detached actor has no owner to tell of its failure"));
  }
  if (args.has_attachments()) {
    throw_failure(Error(
        ErrorKind::invalid_argument,
        "a constructor's arguments cannot refer to objects, nor be tensors of a GPU: pass them in a call"));
  }
  if (args.size() > kMostConstructorBytes) {
    throw_failure(Error(ErrorKind::invalid_argument,
                        "constructor arguments of " + std::to_string(args.size()) +
                            " bytes exceed the limit of " + std::to_string(kMostConstructorBytes) +
                            " bytes: pass big data in a call"));
  }
  SpawnRequest request;
  request.class_name = table.name;
  request.args.assign(args.bytes().begin(), args.bytes().end());
  request.name = options.name();
  request.detached = options.detached();
  request.get_or_create = options.get_or_create();
  request.light = options.isolation() == Isolation::light;
  request.resources = options.resources();
  request.node = options.node();
  request.max_restarts = options.max_restarts();
  if (options.durability()) request.durability = checked(table, *options.durability());
  request.restart_window = options.within().count();
  request.on_failure = options.on_failure();
  if (ActorCell* cell = current().cell) request.owner = cell->identity().id;
  if (request.name.empty()) return Process::get().spawn(std::move(request));
  return wait_for_answer<ActorId>(
      [&](Answer<ActorId> answer) { Process::get().spawn_named(std::move(request), std::move(answer)); });
}

ActorId find(const ClassTable& table, const std::string& name) {
  return wait_for_answer<ActorId>(
      [&](Answer<ActorId> answer) { Process::get().find(name, table.name, std::move(answer)); });
}

}  // namespace detail
}  // namespace troupe
