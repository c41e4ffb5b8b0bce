#include "runtime/process/control_plane.h"

#include <algorithm>
#include <cstdio>

#include "core/base/log.h"
#include "core/control/kj_error.h"
#include "runtime/call/route.h"
#include "runtime/lane/lane.h"
#include "runtime/process/output.h"
#include "runtime/process/wire_types.h"

namespace troupe {

namespace {

struct Ignore final : kj::TaskSet::ErrorHandler {
  void taskFailed(kj::Exception&& failure) override {
    log(Level::warning, "control plane: " + error_of(failure).describe());
  }
};

}  // namespace

class ControlPlane::Client final : public wire::JobClient::Server {
 public:
  explicit Client(ControlPlane& plane) : plane_(plane) {}
  kj::Promise<void> changed(ChangedContext context) override {
    for (auto state : context.getParams().getStates()) plane_.told(read_news(state));
    return kj::READY_NOW;
  }
  kj::Promise<void> output(OutputContext context) override {
    auto params = context.getParams();
    std::vector<std::string> lines;
    for (auto line : params.getLines()) lines.emplace_back(line.cStr(), line.size());
    print_output(params.getNode().cStr(), params.getProcess(), lines, params.getDropped());
    return kj::READY_NOW;
  }
  kj::Promise<void> nodeLost(NodeLostContext context) override {
    plane_.lost({context.getParams().getNode()});
    return kj::READY_NOW;
  }
  kj::Promise<void> groupBroken(GroupBrokenContext context) override {
    auto params = context.getParams();
    plane_.groups_.broken(params.getGroup(), params.getGeneration(), params.getRank(),
                          read_failure(params.getFailure()));
    return kj::READY_NOW;
  }

 private:
  ControlPlane& plane_;
};

ControlPlane::ControlPlane(Executor& loop, LinkIdentity self, Hooks hooks)
    : loop_(loop),
      self_(std::move(self)),
      hooks_(std::move(hooks)),
      session_(loop, [this](const Error& why) { give_up(why); }),
      groups_(session_),
      on_failure_(kj::heap<Ignore>()),
      tasks_(kj::heap<kj::TaskSet>(*on_failure_)) {}

ControlPlane::~ControlPlane() noexcept(false) { tasks_ = nullptr; }

wire::JobClient::Client ControlPlane::client() { return kj::heap<Client>(*this); }

void ControlPlane::use_session(wire::Session::Client session) {
  bool anew = session_.number() > 0;
  session_.use(kj::mv(session));
  if (!anew) return;
  // What was told while there was no session is not known: everything is asked for again, when it is needed.
  std::vector<ActorId> wanted;
  for (auto& [actor, known] : known_) {
    bool only_here = known.news.failure && known.news.phase == Phase::dead && known.news.incarnation == 0;
    if (only_here) continue;
    bool was_ours = std::exchange(known.ours, false);
    if (was_ours && known.waiters.empty()) known.news = ActorNews();
    if (was_ours && !known.waiters.empty()) wanted.push_back(actor);
  }
  for (ActorId actor : wanted) ask(actor, known_.at(actor));
  drop_links_to_lost_nodes();
  groups_.resume();
}

// Those that were lost while nobody could tell.
void ControlPlane::drop_links_to_lost_nodes() {
  std::set<NodeId> used;
  for (auto& [key, weak] : places_) {
    if (auto place = weak.lock()) used.insert(place->node);
  }
  if (used.empty()) return;
  nodes([this, used](Result<std::vector<NodeSummary>> answer) {
    if (!answer) return;
    std::set<NodeId> lost = used;
    for (const NodeSummary& node : *answer) {
      if (!node.lost) lost.erase(node.id);
    }
    for (NodeId node : lost) this->lost(node);
  });
}

// What was known of actors there is of the past, though the head's news of how they ended may come later.
void ControlPlane::lost(NodeId node) {
  lost_[node] = question_;
  if (lost_.size() > kMostLost) lost_.erase(lost_.begin());
  for (auto& [actor, known] : known_) {
    if (is_lost(known.news)) known.news.phase = Phase::restarting;
  }
  hooks_.node_lost(node);
}

bool ControlPlane::is_lost(const ActorNews& news) const {
  return news.phase == Phase::alive && news.place && lost_.count(news.place->node) > 0;
}

void ControlPlane::give_up(const Error& why) {
  for (auto& [actor, known] : known_) {
    auto waiters = std::move(known.waiters);
    known.waiters.clear();
    for (const Waiter& waiter : waiters) {
      waiter.lane->post_function(
          [lane = waiter.lane, actor = actor, why] { lane->routes().learn_failed(actor, why); });
    }
  }
}

// ---- spawning ----

void ControlPlane::spawn(std::vector<SpawnRequest> requests) {
  for (auto& request : requests) known_[request.actor].ours = true;
  for (std::size_t begin = 0, end = 0; begin < requests.size(); begin = end) {
    std::size_t bytes = 0;
    while (end < requests.size() && end - begin < kSpawnsPerCall &&
           (end == begin || bytes < kSpawnBytesPerCall)) {
      bytes += requests[end++].args.size();
    }
    auto part = std::make_shared<std::vector<SpawnRequest>>(
        std::make_move_iterator(requests.begin() + static_cast<std::ptrdiff_t>(begin)),
        std::make_move_iterator(requests.begin() + static_cast<std::ptrdiff_t>(end)));
    session_.request([this, part](wire::Session::Client& session) { return send_spawns(session, *part); },
                     [this, part](const Error& why) {
                       for (const SpawnRequest& one : *part) spawn_failed(one.actor, one.class_name, why);
                     });
  }
}

kj::Promise<void> ControlPlane::send_spawns(wire::Session::Client& session,
                                            const std::vector<SpawnRequest>& part) {
  auto call = session.spawnRequest();
  auto list = call.initActors(static_cast<unsigned>(part.size()));
  std::vector<std::pair<ActorId, std::string>> actors;
  for (unsigned i = 0; i < list.size(); ++i) {
    write_spec(list[i], part[i]);
    actors.emplace_back(part[i].actor, part[i].class_name);
  }
  return call.send().then([this, actors](capnp::Response<wire::Session::SpawnResults> answer) {
    auto spawned = answer.getSpawned();
    for (unsigned i = 0; i < spawned.size() && i < actors.size(); ++i) {
      if (spawned[i].hasFailure())
        spawn_failed(actors[i].first, actors[i].second, read_failure(spawned[i].getFailure()));
    }
  });
}

void ControlPlane::spawn_failed(ActorId actor, const std::string& class_name, const Error& why) {
  ActorNews news;
  news.actor = actor;
  news.class_name = class_name;
  news.phase = Phase::dead;
  news.failure = std::make_shared<const Error>(why);
  hooks_.died(news);
  changed(std::move(news));
}

void ControlPlane::spawn_named(SpawnRequest request, Answer<ActorId> answer) {
  auto shared = std::make_shared<SpawnRequest>(std::move(request));
  // Before it is sent: when it has to be sent again, news of it may come before the answer.
  known_[shared->actor].ours = true;
  auto answered = [this, answer, asked = shared->actor](Result<ActorId> which) {
    if (!which || *which != asked) known_[asked].ours = false;
    forget_if_unused(asked);
    answer(std::move(which));
  };
  session_.request(
      [shared, answered](wire::Session::Client& session) {
        auto call = session.spawnRequest();
        write_spec(call.initActors(1)[0], *shared);
        return call.send().then([answered](capnp::Response<wire::Session::SpawnResults> response) {
          auto spawned = response.getSpawned()[0];
          if (spawned.hasFailure())
            answered(read_failure(spawned.getFailure()));
          else
            answered(ActorId{spawned.getActor()});
        });
      },
      answered);
}

void ControlPlane::find(const std::string& name, const std::string& class_name, Answer<ActorId> answer) {
  session_.request(
      [name, class_name, answer](wire::Session::Client& session) {
        auto call = session.findRequest();
        call.setName(name.c_str());
        return call.send().then([answer, name,
                                 class_name](capnp::Response<wire::Session::FindResults> response) {
          auto state = response.getState();
          if (state.getClassName() != class_name.c_str()) {
            answer(Error(
                ErrorKind::invalid_argument,
                "the actor \"" + name + "\" is a " + state.getClassName().cStr() + ", not a " + class_name));
            return;
          }
          answer(ActorId{state.getActor()});
        });
      },
      answer);
}

void ControlPlane::kill(ActorId actor, bool no_restart, Answer<bool> answer) {
  session_.request(
      [this, actor, no_restart, answer](wire::Session::Client& session) {
        auto call = session.killRequest();
        call.setActor(actor.value);
        call.setNoRestart(no_restart);
        return call.send().then(
            [this, actor, no_restart, answer](capnp::Response<wire::Session::KillResults>) {
              // A call made after the kill must not reach it while it is being ended.
              if (no_restart) hooks_.incarnation_over(actor, ~std::uint32_t{0}, nullptr);
              answer(true);
            });
      },
      answer, no_restart);  // a second one would end the next incarnation
}

void ControlPlane::nodes(Answer<std::vector<NodeSummary>> answer) {
  session_.request(
      [answer](wire::Session::Client& session) {
        return session.nodesRequest().send().then(
            [answer](capnp::Response<wire::Session::NodesResults> response) {
              std::vector<NodeSummary> out;
              for (auto node : response.getNodes()) {
                out.push_back({{node.getNode()},
                               node.getName().cStr(),
                               node.getHostId().cStr(),
                               node.getAlive(),
                               node.getLost(),
                               node.getPid(),
                               read_resources(node.getTotal()),
                               read_resources(node.getFree())});
              }
              answer(std::move(out));
            });
      },
      answer);
}

// ---- finding actors ----

bool ControlPlane::answers(const ActorNews& news, std::uint32_t after) {
  return news.phase == Phase::dead || news.infeasible ||
         (news.phase == Phase::alive && news.incarnation > after);
}

void ControlPlane::resolve(ActorId actor, std::uint32_t after, Lane& lane) {
  Known& known = known_[actor];
  if (answers(known.news, after)) {
    lane.post_function([&lane, news = known.news] { lane.routes().learn(news); });
    // What the head does not tell us changes of is asked anew each time.
    if (!known.ours) known.news = ActorNews();
    forget_if_unused(actor);
    return;
  }
  std::uint64_t number = ++waiter_number_;
  known.waiters.push_back({&lane, after, number});
  if (!known.ours) ask(actor, known);
  if (session_.hopeless()) return give_up(session_.trouble());
  // Only a lane whose link broke needs a verdict in bounded time; an actor that waits for its place may take
  // long.
  if (after == 0) return;
  tasks_->add(loop_.timer().afterDelay(kVerdictMs * kj::MILLISECONDS).then([this, actor, number] {
    auto at = known_.find(actor);
    if (at == known_.end()) return;
    auto& waiters = at->second.waiters;
    auto waiter =
        std::find_if(waiters.begin(), waiters.end(), [&](const Waiter& w) { return w.number == number; });
    if (waiter == waiters.end()) return;
    Lane* lane = waiter->lane;
    waiters.erase(waiter);
    lane->post_function([lane, actor] {
      lane->routes().learn_failed(actor, Error(ErrorKind::deadline_exceeded, "the head knows of no ending"));
    });
  }));
}

void ControlPlane::ask(ActorId actor, Known& known) {
  std::uint32_t after = known.waiters.empty() ? 0 : known.waiters.front().after;
  for (const Waiter& waiter : known.waiters) after = std::min(after, waiter.after);
  if (known.asked && known.asked_after == after) return;
  known.asked = true;
  known.asked_after = after;
  std::uint64_t question = known.question = ++question_;
  session_.request(
      [this, actor, after, question](wire::Session::Client& session) {
        auto call = session.resolveRequest();
        call.setActor(actor.value);
        call.setAfter(after);
        return call.send().then(
            [this, actor, question](capnp::Response<wire::Session::ResolveResults> response) {
              auto at = known_.find(actor);
              if (at != known_.end() && at->second.question == question) at->second.asked = false;
              auto news = read_news(response.getState());
              news.actor = actor;
              changed(std::move(news), question);
            });
      },
      [this, actor, question](const Error& why) { ask_failed(actor, question, why); });
}

void ControlPlane::ask_failed(ActorId actor, std::uint64_t question, const Error& why) {
  auto at = known_.find(actor);
  if (at == known_.end()) return;
  if (at->second.question == question) at->second.asked = false;
  auto waiters = std::move(at->second.waiters);
  at->second.waiters.clear();
  for (const Waiter& waiter : waiters) {
    waiter.lane->post_function([lane = waiter.lane, actor, why] { lane->routes().learn_failed(actor, why); });
  }
  forget_if_unused(actor);
}

void ControlPlane::told(ActorNews news) {
  if (news.phase == Phase::dead) hooks_.died(news);
  if (news.phase == Phase::dead || news.phase == Phase::restarting) {
    hooks_.incarnation_over(news.actor, news.incarnation, news.failure);
  }
  changed(std::move(news));
}

void ControlPlane::changed(ActorNews news, std::uint64_t question) {
  if (news.place) {
    // One copy for all actors of a place.
    auto& shared = places_[{news.place->process, news.place->lane}];
    if (auto kept = shared.lock())
      news.place = kept;
    else
      shared = news.place;
  }
  ActorId actor = news.actor;
  auto at = known_.find(actor);
  if (at == known_.end()) return;
  Known& known = at->second;
  // News may cross answers on the way: what is older than what we know is dropped.
  if (news.incarnation < known.news.incarnation && news.phase != Phase::dead) return;
  if (is_lost(news)) {
    auto lost = lost_.find(news.place->node);
    if (question <= lost->second) {
      // It may have been on its way when the node was lost.
      known.asked = false;
      ask(actor, known);
      return;
    }
    lost_.erase(lost);
  }
  if (known.ours && news.infeasible && !known.news.infeasible && news.failure) {
    log(Level::warning,
        "actor " + to_string(actor) + " (" + news.class_name + ") waits: " + news.failure->message);
  }
  // How the incarnation before ended is what its callers want to know.
  if (news.phase == Phase::alive && !news.failure) news.failure = known.news.failure;
  known.news = std::move(news);
  answer_waiters(known);
  if (!known.ours) known.news = ActorNews();
  forget_if_unused(actor);
}

void ControlPlane::answer_waiters(Known& known) {
  auto waiters = std::move(known.waiters);
  known.waiters.clear();
  for (const Waiter& waiter : waiters) {
    if (!answers(known.news, waiter.after)) {
      known.waiters.push_back(waiter);
      continue;
    }
    waiter.lane->post_function([lane = waiter.lane, news = known.news] { lane->routes().learn(news); });
  }
}

void ControlPlane::forget_if_unused(ActorId actor) {
  auto at = known_.find(actor);
  if (at == known_.end() || !at->second.waiters.empty() || at->second.asked) return;
  // A dead actor of ours is asked about at most by handles that have not heard yet: the head remembers it a
  // while.
  if (!at->second.ours || at->second.news.phase == Phase::dead) {
    if (at->second.ours && at->second.news.failure && at->second.news.incarnation == 0)
      return;  // it never existed in the head: we alone know why
    known_.erase(at);
  }
}

// ---- links ----

void ControlPlane::connect(std::shared_ptr<const Place> place, Lane& lane) {
  tasks_->add(hooks_.connect(*place, self_, lane)
                  .then(
                      [place, &lane](kj::Own<std::unique_ptr<Link>> link) {
                        auto shared = std::make_shared<std::unique_ptr<Link>>(std::move(*link));
                        lane.post_function(
                            [&lane, place, shared] { lane.routes().linked(*place, std::move(*shared)); });
                      },
                      [place, &lane](kj::Exception&& failure) {
                        Error why = error_of(failure);
                        lane.post_function([&lane, place, why] { lane.routes().linked(*place, why); });
                      }));
}

}  // namespace troupe
