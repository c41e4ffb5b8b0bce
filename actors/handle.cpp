#include "troupe/handle.h"

#include "runtime/call/actor_cell.h"
#include "runtime/lane/lane.h"
#include "runtime/process/process.h"

namespace troupe::detail {

ActorRef::~ActorRef() {
  std::uint64_t lanes = lanes_.load(std::memory_order_acquire);
  if (lanes == 0 || !Process::running()) return;
  for (std::uint16_t i = 0; lanes != 0; ++i, lanes >>= 1) {
    if (!(lanes & 1)) continue;
    Lane* lane = Process::get().lane_at(i);
    if (lane == nullptr) continue;
    run_on(*lane, [lane, id = id_] { lane->routes().drop_handle(id); });
  }
}

Route& ActorRef::route(Lane& lane) {
  if (first_.load(std::memory_order_acquire) == &lane) return *first_route_;
  Route& route = lane.routes().of(id_);
  std::uint64_t bit = std::uint64_t{1} << lane.index();
  if (!(lanes_.fetch_or(bit, std::memory_order_acq_rel) & bit)) {
    lane.routes().add_handle(route);
    Lane* none = nullptr;
    if (lanes_.load(std::memory_order_acquire) == bit) {
      first_route_ = &route;
      first_.compare_exchange_strong(none, &lane, std::memory_order_release);
    }
  }
  return route;
}

Lane& calling_lane() { return Process::get().default_lane(); }

namespace {

// A call from a thread that could not get the baton: encoded, in the order of the lane's queue.
class DeferredCall final : public LaneTask, public Pooled {
 public:
  DeferredCall(std::shared_ptr<ActorRef> actor, std::unique_ptr<QueuedCall> call)
      : actor_(std::move(actor)), call_(std::move(call)) {}
  void run_task() override {
    Lane& lane = *Lane::current();
    lane.routes().submit_encoded(actor_->route(lane), std::move(call_));
    delete this;
  }
  void drop_task() override {
    if (call_->state) call_->state->fail(Error(ErrorKind::cancelled, "the process ends"));
    delete this;
  }

 private:
  std::shared_ptr<ActorRef> actor_;
  std::unique_ptr<QueuedCall> call_;
};

}  // namespace

void submit(Lane& lane, const std::shared_ptr<ActorRef>& actor, CallSource& source,
            const CallRequest& request, CallState* state) {
  if (!actor) throw_failure(Error(ErrorKind::invalid_argument, "a call on an empty handle"));
  if (Lane::current() == &lane) {
    lane.routes().submit(actor->route(lane), source, request, state);
    return;
  }
  if (lane.try_enter()) {
    struct Leave {
      Lane& lane;
      ~Leave() { lane.leave(); }
    } leave{lane};
    lane.routes().submit(actor->route(lane), source, request, state);
    return;
  }
  Writer args;
  source.encode(args);
  auto call = std::make_unique<QueuedCall>();
  call->request = request;
  call->args.assign(args.bytes().begin(), args.bytes().end());
  call->attachments = args.take_attachments();
  call->state = Ref<CallState>::share(state);
  lane.post(new DeferredCall(actor, std::move(call)));
}

Future<void> kill(ActorId actor, bool no_restart) {
  auto state = Ref<FutureState<void>>::adopt(new FutureState<void>(default_lane()));
  Process::get().kill(actor, no_restart, [state](Result<bool> answer) {
    run_on(state->lane(), [state, answer] {
      if (!answer) {
        state->fail(answer.error());
      } else {
        state->value.emplace();
        state->finish_value();
      }
    });
  });
  return Future<void>(std::move(state));
}

}  // namespace troupe::detail
