#include "tests/sim/sim_call.h"

#include <stdexcept>

#include "runtime/call/actor_cell.h"
#include "runtime/call/invocation.h"
#include "runtime/call/peer.h"

namespace troupe::sim {
namespace {

struct Arguments {
  std::uint64_t call = 0;
  std::uint64_t other = 0;
  Micros time = 0;
  Deed deed = Deed::answers;
};

// The user's object.
struct SimActor {
  std::uint64_t key = 0;  // of the judge
};

World& world() { return *World::running; }

// A method's run.
class SimInvocation final : public Invocation {
 public:
  explicit SimInvocation(const Arguments& arguments) : arguments_(arguments) {}
  ~SimInvocation() override { over(); }

  void start(void* object) override {
    program_ = Program::current();
    const ActorIdentity& who = cell->identity();
    CallJudge::Run run;
    run.call = arguments_.call;
    run.actor = who.id;
    run.incarnation = who.incarnation;
    run.object = static_cast<SimActor*>(object)->key;
    run.link = peer != nullptr ? peer->serial : 0;
    run.alone = cell->table().concurrency == 1;
    run_ = world().calls.begins(run);
    world().note_parts("call ", arguments_.call, " runs in actor ", to_string(who.id), "/", who.incarnation);
    switch (arguments_.deed) {
      case Deed::answers:
        return finish();
      case Deed::throws:
        return fail(Error(ErrorKind::actor_error, "the method threw"));
      case Deed::takes_time:
        return take_time();
      case Deed::asks:
      case Deed::asks_and_blocks:
        return ask();
      case Deed::crashes:
        // The process ends before anything it writes now has left.
        program_->crash();
        return finish();
    }
  }
  void abandon() override {
    alive_.reset();
    stop_waiting();
  }
  void encode_result(Writer& to) override {
    to.append(&arguments_.call, sizeof arguments_.call);
    to.append(&run_, sizeof run_);
  }
  void deliver(CallState& to) override { static_cast<SimCall&>(to).set_value(arguments_.call, run_); }

 private:
  void over() {
    stop_waiting();
    if (run_ != 0 && !std::exchange(ended_, true)) world().calls.ends(run_);
  }
  void finish() {
    over();
    finished();
  }
  void fail(Error error) {
    over();
    failed(std::move(error));
  }
  void stop_waiting() {
    asked_ = nullptr;
    if (std::exchange(blocks_, false)) cell->waits_for(nullptr);
  }
  // Ends as a coroutine does that a timer resumes: on the actor's lane.
  void take_time() {
    Program* program = program_;
    auto at = static_cast<std::size_t>(cell->lane().index());
    world().time.after(arguments_.time,
                       [this, program, at, process = program->alive(), alive = std::weak_ptr<int>(alive_)] {
                         if (process.expired() || alive.expired()) return;
                         program->lane(at).post_function([this, alive] {
                           if (!alive.expired()) finish();
                         });
                       });
  }
  void ask() {
    CallPlan plan;
    plan.target = {arguments_.other};
    plan.deadline = 2 * kSecond;
    asked_ = make_call(*program_, cell->lane(), plan);
    if (arguments_.deed == Deed::asks_and_blocks) {
      blocks_ = true;
      cell->waits_for(asked_.get());
    }
    asked_->then([this, alive = std::weak_ptr<int>(alive_)] {
      if (alive.expired()) return;
      bool worked = asked_->status() == CallState::kValue;
      worked ? finish() : fail(Error(ErrorKind::actor_error, "the actor that it asked failed"));
    });
  }

  Arguments arguments_;
  Program* program_ = nullptr;
  std::uint64_t run_ = 0;
  bool ended_ = false, blocks_ = false;
  Ref<SimCall> asked_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

Invocation* decode(Reader& from) {
  Arguments arguments;
  from.read(&arguments, sizeof arguments);
  return new SimInvocation(arguments);
}

void* construct(Reader&) {
  World& w = world();
  Program& program = *Program::current();
  if (program.dead()) throw std::runtime_error("killed");
  const ActorIdentity& who = current().cell->identity();
  auto actor = std::make_unique<SimActor>();
  actor->key = w.new_pid();
  Hosted hosted;
  hosted.actor = who.id;
  hosted.incarnation = who.incarnation;
  hosted.node = who.node;
  hosted.agent = program.options().agent;
  hosted.gpus = who.gpus;
  w.note("actor " + to_string(who.id) + "/" + std::to_string(who.incarnation) + " begins in " +
         program.options().name);
  w.judge.hosting(actor->key, hosted);
  w.calls.hosted(who.id, who.incarnation, who.node);
  if (w.random.chance(w.chances.constructor_fails)) {
    w.reach("constructor fails");
    w.judge.hosting_over(actor->key);
    throw std::runtime_error("no luck");
  }
  w.judge.reported_alive(actor->key);
  return actor.release();
}

void destroy(void* object) {
  auto* actor = static_cast<SimActor*>(object);
  world().judge.hosting_over(actor->key);
  delete actor;
}

constexpr MethodEntry kMethods[] = {{&decode, true}};
constexpr ClassTable kCounter{"Counter", &construct, &destroy, kMethods, 1};
constexpr ClassTable kCrowd{"Crowd", &construct, &destroy, kMethods, 4};

class Source final : public CallSource {
 public:
  explicit Source(const Arguments& arguments) : arguments_(arguments) {}
  void encode(Writer& to) override { to.append(&arguments_, sizeof arguments_); }
  Invocation* make_local() override { return new SimInvocation(arguments_); }

 private:
  Arguments arguments_;
};

struct Prepared {
  Arguments arguments;
  CallRequest request;
  Ref<SimCall> state;
};

Prepared prepare(Program& program, Lane& lane, const CallPlan& plan) {
  World& w = program.world();
  CallJudge::Made made;
  made.program = program.number();
  made.lane = lane.index();
  made.target = plan.target;
  made.one_way = plan.one_way;
  made.by_actor = current().cell != nullptr;
  made.retries = plan.retries;
  made.deadline = plan.deadline == 0 ? 0 : w.time.now() + plan.deadline;
  made.sure = plan.sure;
  Prepared out;
  out.arguments.call = w.calls.made(made);
  out.arguments.other = plan.other.value;
  out.arguments.time = plan.time;
  out.arguments.deed = plan.deed;
  out.request.retries = plan.retries;
  if (plan.deadline != 0) out.request.deadline = World::steady_of(made.deadline);
  if (!plan.one_way) out.state = Ref<SimCall>::adopt(new SimCall(lane, program, out.arguments.call));
  w.note_parts(program.options().name, " calls ", to_string(plan.target), ": call ", out.arguments.call);
  return out;
}

}  // namespace

// ---- callers ----

struct SimCall::Ended final : Runnable {
  explicit Ended(SimCall& c) : call(c) {}
  void run() override {
    Ref<SimCall> keep = Ref<SimCall>::share(&call);
    delete this;
    SimCall& ended = *keep;
    if (ended.program_.dead()) return;
    ended.program_.calls().erase(ended.number_);
    World& w = ended.program_.world();
    w.note_parts("call ", ended.number_, " ends ", static_cast<int>(ended.status()));
    if (ended.status() == kFailed)
      w.calls.failed(ended.number_, ended.error(), w.time.now());
    else
      w.calls.answered(ended.number_, ended.named_, ended.run_, w.time.now());
    if (auto then = std::move(ended.then_)) then();
  }
  void discard() override { delete this; }
  SimCall& call;
};

// Watched to its end, whether or not somebody holds it.
SimCall::SimCall(Lane& lane, Program& program, std::uint64_t number)
    : CallState(lane), program_(program), number_(number) {
  program.calls().emplace(number, Ref<SimCall>::share(this));
  set_continuation(new Ended(*this));
}

void SimCall::decode_value(Reader& reply) {
  std::uint64_t named = 0, run = 0;
  reply.read(&named, sizeof named);
  reply.read(&run, sizeof run);
  set_value(named, run);
}

void SimCall::set_value(std::uint64_t call, std::uint64_t run) {
  named_ = call;
  run_ = run;
  program_.world().calls.taken(number_, run);
}

Ref<SimCall> make_call(Program& program, Lane& lane, const CallPlan& plan) {
  Prepared made = prepare(program, lane, plan);
  Source source(made.arguments);
  lane.routes().submit(lane.routes().of(plan.target), source, made.request, made.state.get());
  return made.state;
}

Ref<SimCall> post_call(Program& program, Lane& lane, const CallPlan& plan) {
  Prepared made = prepare(program, lane, plan);
  auto call = std::make_shared<std::unique_ptr<QueuedCall>>(std::make_unique<QueuedCall>());
  Writer args;
  Source(made.arguments).encode(args);
  (*call)->args.assign(args.bytes().begin(), args.bytes().end());
  (*call)->request = made.request;
  (*call)->state = Ref<CallState>::share(made.state.get());
  lane.post_function([&lane, target = plan.target, call] {
    lane.routes().submit_encoded(lane.routes().of(target), std::move(*call));
  });
  return made.state;
}

void cancel_call(SimCall& call) {
  if (call.done()) return;
  World::running->calls.cancelled(call.number());
  call.lane().routes().abandon(call, Error(ErrorKind::cancelled, "the caller cancelled the call"));
}

void register_sim_classes() {
  static const ClassTable* const tables[] = {&kCounter, &kCrowd};
  static const bool known = static_cast<bool>(register_classes(tables));
  (void)known;
}

}  // namespace troupe::sim
