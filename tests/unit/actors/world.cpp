#include "tests/unit/actors/world.h"

#include <sys/socket.h>

#include <condition_variable>
#include <future>

namespace troupe::test {

World::World(Options options) : options_(std::move(options)) {
  LaneOptions driver;
  driver.drivable = true;
  driver.poll = options_.poll;
  driver_ = std::make_unique<Lane>(driver, *this);
  for (int i = 0; i < options_.workers; ++i) {
    LaneOptions worker;
    worker.index = i + 1;
    worker.hand_off = options_.hand_off;
    worker.poll = options_.poll;
    workers_.push_back(std::make_unique<Lane>(worker, *this));
  }
  driver_->start();
  for (auto& worker : workers_) worker->start();
}

World::~World() {
  if (journals_) {
    for (auto& worker : workers_) {
      on(*worker, [&] {
        for (auto& [id, cell] : worker->actors()) cell->end(Error(ErrorKind::cancelled, "the test ends"));
      });
    }
    journals_ = nullptr;  // nothing is told to a lane that is gone
  }
  driver_->stop("the test ends");
  for (auto& worker : workers_) worker->stop("the test ends");
}

void World::on(Lane& lane, const std::function<void()>& f) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  lane.post_function([&] {
    f();
    std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
}

void World::register_class(const ClassTable& table) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  const ClassTable* tables[] = {&table};
  (void)register_classes(tables);
}

ActorNews World::news_of(ActorId id, std::uint32_t incarnation, Phase phase, const std::string& class_name,
                         int worker) {
  ActorNews news;
  news.actor = id;
  news.incarnation = incarnation;
  news.phase = phase;
  news.class_name = class_name;
  auto where = std::make_shared<Place>();
  where->process =
      options_.join == Join::local ? self() : ProcessId{static_cast<std::uint64_t>(100 + worker)};
  where->lane = static_cast<std::uint16_t>(worker + 1);
  news.place = where;
  return news;
}

void World::place(ActorId id, std::uint32_t incarnation, const ClassTable& table, int worker) {
  Lane& lane = this->worker(worker);
  on(lane, [&] {
    ActorIdentity identity;
    identity.id = id;
    identity.incarnation = incarnation;
    identity.node_name = "test";
    auto* cell = new ActorCell(lane, table, std::move(identity));
    Writer args;
    encode(args, std::uint16_t{0});
    Reader reader(args.bytes());
    auto made = cell->construct(reader);
    if (made)
      lane.actors()[id] = cell;
    else
      cell->release();
  });
  tell(news_of(id, incarnation, Phase::alive, table.name, worker));
}

Result<void> World::place_durable(ActorId id, std::uint32_t incarnation, const ClassTable& table, int worker,
                                  const std::string& folder, const Durability& plan, JournalIo& io) {
  if (!journals_) journals_ = std::make_unique<JournalThread>();
  std::promise<Result<OpenedJournal>> promise;
  FileJournal::open(
      *journals_, folder, {id.value, plan.key, incarnation, false},
      [&](Result<OpenedJournal> opened) { promise.set_value(std::move(opened)); }, io);
  auto opened = promise.get_future().get();
  if (!opened) return opened.error();
  Lane& lane = this->worker(worker);
  Result<void> made;
  on(lane, [&] {
    ActorIdentity identity;
    identity.id = id;
    identity.incarnation = incarnation;
    auto* cell = new ActorCell(lane, table, std::move(identity));
    Writer args;
    encode(args, std::uint16_t{0});
    Reader reader(args.bytes());
    made = cell->construct(reader);
    auto durable = std::make_shared<DurableActor>(*cell, lane, plan, opened->journal, nullptr);
    cell->make_durable(durable);
    if (made) made = durable->recover(*opened->recovered);
    if (made)
      lane.actors()[id] = cell;
    else
      cell->release();
  });
  if (!made) return made;
  ActorNews news = news_of(id, incarnation, Phase::alive, table.name, worker);
  news.durable = true;
  tell(std::move(news));
  return {};
}

void World::end(ActorId id, bool told) {
  for (auto& worker : workers_) {
    on(*worker, [&] {
      auto at = worker->actors().find(id);
      if (at == worker->actors().end()) return;
      ActorCell* cell = at->second;
      worker->actors().erase(at);
      cell->end(Error(ErrorKind::cancelled, "it was killed"));
      cell->release();
    });
  }
  if (!told) return;
  ActorNews news;
  {
    std::lock_guard lock(mutex_);
    news = known_[id.value].news;
  }
  news.phase = Phase::dead;
  news.failure = std::make_shared<const Error>(Error(ErrorKind::cancelled, "it was killed"));
  tell(std::move(news));
}

bool World::answers(const Known& known, std::uint32_t after) const {
  if (!known.told) return false;
  if (known.news.phase == Phase::alive) return known.news.incarnation > after;
  return known.news.phase == Phase::dead || known.news.infeasible;
}

void World::tell(ActorNews news) {
  std::vector<Lane*> waiting;
  {
    std::lock_guard lock(mutex_);
    Known& known = known_[news.actor.value];
    known.news = news;
    known.told = true;
    std::erase_if(known.asking, [&](auto& question) {
      if (!answers(known, question.second)) return false;
      waiting.push_back(question.first);
      return true;
    });
  }
  for (Lane* lane : waiting) lane->post_function([lane, news] { lane->routes().learn(news); });
}

void World::forget(ActorId id) {
  std::lock_guard lock(mutex_);
  known_[id.value].told = false;
}

void World::resolve(ActorId actor, std::uint32_t after, Lane& lane) {
  ++questions;
  std::lock_guard lock(mutex_);
  Known& known = known_[actor.value];
  if (answers(known, after)) {
    lane.post_function([&lane, news = known.news] { lane.routes().learn(news); });
  } else {
    known.asking.emplace_back(&lane, after);
  }
}

void World::verdict() {
  std::lock_guard lock(mutex_);
  for (auto& [actor, known] : known_) {
    if (!known.told || known.news.phase != Phase::alive) continue;
    for (auto& [lane, after] : std::exchange(known.asking, {})) {
      lane->post_function([lane = lane, actor = ActorId{actor}] {
        lane->routes().learn_failed(actor,
                                    Error(ErrorKind::deadline_exceeded, "the head knows of no ending"));
      });
    }
  }
}

void World::connect(std::shared_ptr<const Place> place, Lane& lane) {
  ++connects;
  if (refuse_connect) {
    if (auto refused = refuse_connect(); !refused) {
      lane.post_function([&lane, place, error = refused.error()] { lane.routes().linked(*place, error); });
      return;
    }
  }
  int index = place->lane - 1;
  Lane& far = worker(index);
  std::unique_ptr<Link> ours, theirs;
  std::pair<UniqueFd, UniqueFd> wire;
  if (options_.join == Join::tcp) {
    auto [a, b] = connected_sockets();
    wire = {copy(a), copy(b)};
    ours = must(TcpLink::open(std::move(a)));
    theirs = must(TcpLink::open(std::move(b)));
  } else {
    UniqueFd memory = must(create_ring_memory());
    int pair[2];
    check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
    wire = {UniqueFd(check(::dup(pair[0]), "dup")), UniqueFd(check(::dup(pair[1]), "dup"))};
    auto bell = [](Lane& of) { return UniqueFd(check(::dup(of.doorbell()), "dup")); };
    ours = must(RingLink::open({copy(memory), RingSide::creator, UniqueFd(pair[0]), bell(far)}));
    theirs = must(RingLink::open({std::move(memory), RingSide::joiner, UniqueFd(pair[1]), bell(lane)}));
  }
  {
    std::lock_guard lock(mutex_);
    wires_.emplace_back(index, std::move(wire));
  }
  far.post_function(
      [&far, theirs = std::move(theirs)]() mutable { far.add_peer(Peer::serving(far, std::move(theirs))); });
  lane.post_function(
      [&lane, place, ours = std::move(ours)]() mutable { lane.routes().linked(*place, std::move(ours)); });
}

void World::cut(int worker) {
  std::lock_guard lock(mutex_);
  for (auto& [index, wire] : wires_) {
    if (index != worker) continue;
    ::shutdown(wire.first.get(), SHUT_RDWR);
    ::shutdown(wire.second.get(), SHUT_RDWR);
  }
  std::erase_if(wires_, [&](const auto& entry) { return entry.first == worker; });
}

Lane* World::lane_at(std::uint16_t index) {
  if (index == 0) return driver_.get();
  return index <= workers_.size() ? workers_[index - 1u].get() : nullptr;
}

}  // namespace troupe::test
