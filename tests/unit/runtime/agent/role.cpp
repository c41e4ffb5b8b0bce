#include "tests/unit/runtime/agent/role.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/control/rpc.h"
#include "core/protocol/cluster.capnp.h"
#include "runtime/worker/worker_start.h"

namespace troupe::test {
namespace {

constexpr const char* kBody = "TROUPE_TEST_BODY";

[[noreturn]] void wait_for_ever() {
  for (;;) ::pause();
}

class FakeWorker final : public wire::Worker::Server {
 public:
  explicit FakeWorker(std::function<void(wire::Placement::Reader)> placed) : placed_(std::move(placed)) {}
  kj::Promise<void> place(PlaceContext context) override {
    for (auto one : context.getParams().getPlacements()) placed_(one);
    return kj::READY_NOW;
  }
  kj::Promise<void> destroy(DestroyContext context) override {
    for (auto one : context.getParams().getActors())
      std::printf("destroyed %d\n", static_cast<int>(one.getActor()));
    return kj::READY_NOW;
  }

 private:
  std::function<void(wire::Placement::Reader)> placed_;
};

class FakeClient final : public wire::JobClient::Server {};

[[noreturn]] void serve(const WorkerStart& start) {
  ControlLoop loop;
  RpcConnection agent(kj::heap<SocketStream>(loop, UniqueFd(start.channel_fd)));
  auto host = agent.bootstrap().castAs<wire::WorkerHost>();
  auto placed = [&](wire::Placement::Reader one) {
    auto request = host.reportRequest();
    auto event = request.initEvents(1)[0];
    if (one.getSpec().getClassName() == "Bad") {
      auto failed = event.initActorFailed();
      failed.initOf().setActor(one.getSpec().getActor());
      failed.getOf().setIncarnation(one.getIncarnation());
      failed.initFailure().setMessage("its constructor threw");
    } else {
      auto alive = event.initActorAlive();
      alive.initOf().setActor(one.getSpec().getActor());
      alive.getOf().setIncarnation(one.getIncarnation());
      alive.initEndpoint().setProcess(start.process);
      alive.getEndpoint().setTcpPort(static_cast<std::uint16_t>(::getpid()));
    }
    loop.spawn("report", request.send().ignoreResult());
  };
  auto request = host.registerRequest();
  request.setWorker(kj::heap<FakeWorker>(placed));
  request.setClient(kj::heap<FakeClient>());
  request.setFingerprint(kFingerprint);
  loop.spawn("register", request.send().ignoreResult());
  loop.spawn("the agent's end", agent.on_disconnect().then([] { ::_exit(0); }));
  loop.run();
  ::_exit(0);
}

[[noreturn]] void play(const WorkerStart& start, const std::string& body) {
  if (body == "register") serve(start);
  if (body == "exit3") {
    std::fprintf(stderr, "first trouble\nlast trouble\n");
    ::_exit(3);
  }
  if (body == "spam") {
    for (int i = 0; i < 5000; ++i) std::printf("line %d\n", i);
  }
  if (body == "devices") {
    const char* devices = std::getenv("CUDA_VISIBLE_DEVICES");
    std::printf("devices %s\n", devices != nullptr ? devices : "unset");
  }
  if (body == "family") {
    if (::fork() == 0) wait_for_ever();
    pid_t other = ::fork();
    if (other == 0) {
      ::setsid();
      wait_for_ever();
    }
    // Said when the second one has left the group.
    while (::getsid(other) != other) ::usleep(100);
    std::printf("family\n");
    wait_for_ever();
  }
  std::printf("worker %d %s\n", static_cast<int>(start.process),
              std::getenv("TROUPE_ROLE") == nullptr ? "" : "unclean");
  pollfd channel{start.channel_fd, POLLIN, 0};
  ::poll(&channel, 1, -1);
  std::printf("channel ended\n");
  ::_exit(0);
}

// Before main, where a job's program makes its runtime.
const bool entered = [] {
  if (std::getenv("TROUPE_ROLE") == nullptr) return false;
  const char* body = std::getenv(kBody);
  if (body == nullptr) body = "wait";
  if (body == std::string("deaf")) {
    std::fprintf(stderr, "no runtime here\n");
    ::_exit(4);
  }
  bool launches = std::getenv(kLauncherVariable) != nullptr;
  if (body == std::string("threads") && !launches) std::thread(wait_for_ever).detach();
  auto start = enter_worker_role();
  if (start) play(*start, body);
  return false;
}();

}  // namespace

std::vector<std::string> environment_of(const std::string& body) { return {std::string(kBody) + "=" + body}; }

SpawnOptions this_program(const std::string& body) {
  SpawnOptions options;
  options.executable = own_executable();
  options.arguments = {options.executable};
  options.environment = overlay_environment(environment_of(body), {});
  return options;
}

}  // namespace troupe::test
