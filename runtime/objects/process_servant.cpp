#include "runtime/objects/process_servant.h"

#include "core/control/kj_error.h"
#include "runtime/objects/wire_objects.h"

namespace troupe {
namespace {

constexpr std::uint32_t kMostBlanks = 256, kMostListed = 10'000;
// A borrower's word may overtake the creator's; it is asked again so often.
constexpr int kTries = 100;
constexpr auto kPause = 20 * kj::MILLISECONDS;

std::shared_ptr<ObjectState> locked(const std::weak_ptr<ObjectState>& weak) {
  auto state = weak.lock();
  if (!state)
    kj::throwFatalException(kj_exception(Error(ErrorKind::unavailable, "the object store has ended")));
  return state;
}

void write_blank(wire::Blank::Builder to, const StoreCore::Blank& blank) {
  to.setSlot(blank.slot);
  to.setOffset(blank.offset);
  to.setSize(blank.size);
  to.setTouched(blank.touched);
}

StoreCore::Now limit(StoreCore::Now now, std::uint64_t patience_ms) {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 40;
  return now + static_cast<StoreCore::Now>(std::min(patience_ms, kLongest));
}

}  // namespace

// ---- processes ----

kj::Promise<void> ProcessServant::attach(AttachContext context) {
  auto state = locked(state_);
  if (process_ != 0) return kj_exception(Error(ErrorKind::invalid_argument, "attached already"));
  std::uint32_t page = 0;
  process_ = state->attach(connection_, context.getParams().getClient(), page);
  auto results = context.getResults();
  results.setNode(state->node().value);
  results.setCluster(state->core().cluster());
  results.setProcess(process_);
  results.setPins(page);
  return kj::READY_NOW;
}

kj::Promise<void> ProcessServant::update(UpdateContext context) {
  auto ops = context.getParams().getOps();
  locked(state_)->decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) {
    for (auto op : ops) {
      ObjectId id = read_id(op.getId());
      switch (op.which()) {
        case wire::ObjectOp::CREATED:
          core.created(process_, id, op.getCreated().getSlot(), op.getCreated().getSize(),
                       op.getCreated().getWatched(), now, out);
          break;
        case wire::ObjectOp::DROP:
          core.drop(process_, id, now, out);
          break;
        case wire::ObjectOp::SENT:
          core.sent(process_, id, read_transit(op.getSent()), now, out);
          break;
        case wire::ObjectOp::CLAIM:
          core.claim(process_, id, read_transit(op.getClaim()), now, out);
          break;
        case wire::ObjectOp::EXPIRE:
          core.expire(process_, op.getExpire(), now);
          break;
        case wire::ObjectOp::DISCARD:
          core.discard(process_, op.getDiscard(), now, out);
          break;
      }
    }
  });
  return kj::READY_NOW;
}

kj::Promise<void> ProcessServant::lease(LeaseContext context) {
  auto params = context.getParams();
  auto blanks =
      locked(state_)->core().lease(process_, params.getSize(), std::min(params.getCount(), kMostBlanks));
  auto list = context.getResults().initBlanks(static_cast<unsigned>(blanks.size()));
  for (unsigned i = 0; i < blanks.size(); ++i) write_blank(list[i], blanks[i]);
  return kj::READY_NOW;
}

kj::Promise<void> ProcessServant::create(CreateContext context) {
  auto state = locked(state_);
  auto params = context.getParams();
  auto* client = state->client(process_);
  if (client == nullptr) return kj_exception(Error(ErrorKind::invalid_argument, "attach first"));
  auto paf = kj::newPromiseAndFulfiller<StoreCore::Blank>();
  auto ticket = params.getTicket();
  client->creating[ticket] = kj::mv(paf.fulfiller);
  auto answered = paf.promise.then(
      [context](StoreCore::Blank blank) mutable { write_blank(context.getResults().initBlank(), blank); });
  state->decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) {
    core.create(process_, ticket, params.getSize(), limit(now, params.getPatienceMs()), now, out);
  });
  return answered;
}

kj::Promise<void> ProcessServant::get(GetContext context) {
  auto state = locked(state_);
  auto params = context.getParams();
  auto* client = state->client(process_);
  if (client == nullptr) return kj_exception(Error(ErrorKind::invalid_argument, "attach first"));
  auto paf = kj::newPromiseAndFulfiller<StoreCore::Found>();
  auto ticket = params.getTicket();
  client->getting[ticket] = kj::mv(paf.fulfiller);
  auto answered = paf.promise.then([context](StoreCore::Found found) mutable {
    auto results = context.getResults();
    results.setSlot(found.slot);
    results.setOffset(found.offset);
    results.setSize(found.size);
  });
  state->decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) {
    core.get(process_, ticket, read_id(params.getId()), limit(now, params.getPatienceMs()), now, out);
  });
  return answered;
}

kj::Promise<void> ProcessServant::cancel(CancelContext context) {
  auto state = locked(state_);
  auto ticket = context.getParams().getTicket();
  if (auto* client = state->client(process_)) {
    auto give_up = [&](auto& table) {
      auto at = table.find(ticket);
      if (at == table.end()) return;
      at->second->reject(kj_exception(Error(ErrorKind::cancelled, "the process gave it up")));
      table.erase(at);
    };
    give_up(client->creating);
    give_up(client->getting);
  }
  state->decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) {
    core.cancel(process_, ticket, now, out);
  });
  return kj::READY_NOW;
}

// ---- other nodes ----

PeerServant::~PeerServant() noexcept(false) {
  if (auto state = state_.lock(); state && from_) state->peers().went(from_);
}

kj::Promise<void> PeerServant::hello(HelloContext context) {
  auto state = locked(state_);
  if (from_) return kj_exception(Error(ErrorKind::invalid_argument, "greeted already"));
  from_ = {context.getParams().getNode()};
  if (from_) state->peers().came(from_);
  context.getResults().setNode(state->node().value);
  return kj::READY_NOW;
}

kj::Promise<void> PeerServant::borrow(BorrowContext context) { return lend(context, 0); }

kj::Promise<void> PeerServant::lend(BorrowContext context, int tries) {
  auto state = locked(state_);
  if (!from_) return kj_exception(Error(ErrorKind::invalid_argument, "greet first"));
  auto refs = context.getParams().getRefs();
  if (tries < kTries) {
    for (auto ref : refs) {
      if (!state->core().may_come(read_id(ref.getId()))) continue;
      // Later words of this caller wait for this one's answer or do no harm: a claim of what is lent here.
      return state->pause(kPause).then([this, context, tries]() mutable { return lend(context, tries + 1); });
    }
  }
  std::vector<std::uint32_t> unknown;
  state->decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) {
    for (unsigned i = 0; i < refs.size(); ++i) {
      if (!core.lend(from_, read_id(refs[i].getId()), read_transit(refs[i].getTransit()), now, out))
        unknown.push_back(i);
    }
  });
  auto list = context.getResults().initUnknown(static_cast<unsigned>(unknown.size()));
  for (unsigned i = 0; i < unknown.size(); ++i) list.set(i, unknown[i]);
  return kj::READY_NOW;
}

kj::Promise<void> PeerServant::give(GiveContext context) {
  auto ids = context.getParams().getIds();
  locked(state_)->decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) {
    for (auto id : ids) core.take_back(from_, read_id(id), now, out);
  });
  return kj::READY_NOW;
}

kj::Promise<void> PeerServant::claimed(ClaimedContext context) {
  auto transits = context.getParams().getTransits();
  locked(state_)->decide([&](StoreCore& core, StoreCore::Now now, StoreCore::Actions& out) {
    for (auto transit : transits) core.claimed(read_transit(transit), now, out);
  });
  return kj::READY_NOW;
}

kj::Promise<void> PeerServant::source(SourceContext context) { return source(context, 0); }

kj::Promise<void> PeerServant::source(SourceContext context, int tries) {
  auto state = locked(state_);
  auto params = context.getParams();
  if (tries < kTries && state->core().may_come(read_id(params.getId()))) {
    return state->pause(kPause).then([this, context, tries]() mutable { return source(context, tries + 1); });
  }
  if (!from_) return kj_exception(Error(ErrorKind::invalid_argument, "greet first"));
  if (state->puller() == nullptr)
    return kj_exception(Error(ErrorKind::unavailable, "this node passes no objects on"));
  ObjectAsker asker{from_, params.getHost().cStr(), params.getPort(), {params.getFailed()}};
  return state->puller()->source(read_id(params.getId()), asker).then([context](ObjectSource source) mutable {
    auto results = context.getResults();
    results.setNode(source.node.value);
    results.setHost(source.host.c_str());
    results.setPort(source.port);
    results.setSize(source.size);
  });
}

kj::Promise<void> PeerServant::fetched(FetchedContext context) {
  auto state = locked(state_);
  auto params = context.getParams();
  if (from_ && state->puller() != nullptr)
    state->puller()->fetched(read_id(params.getId()), from_, params.getWhole());
  return kj::READY_NOW;
}

kj::Promise<void> PeerServant::memory(MemoryContext context) {
  locked(state_)->fill(context.getResults().initMemory());
  return kj::READY_NOW;
}

kj::Promise<void> PeerServant::list(ListContext context) {
  auto state = locked(state_);
  std::uint32_t limit = std::min(context.getParams().getLimit(), kMostListed);
  auto views = state->core().list(limit == 0 ? kMostListed : limit, state->now());
  auto list = context.getResults().initObjects(static_cast<unsigned>(views.size()));
  for (unsigned i = 0; i < views.size(); ++i) {
    const auto& from = views[i];
    auto to = list[i];
    write_id(to.initId(), from.id);
    to.setSize(from.size);
    to.setState(from.state);
    to.setHolders(from.holders);
    to.setTransits(from.transits);
    auto nodes = to.initBorrowers(static_cast<unsigned>(from.borrowers.size()));
    for (unsigned n = 0; n < nodes.size(); ++n) nodes.set(n, from.borrowers[n].value);
    to.setPinned(from.pinned);
    to.setAgeMs(static_cast<std::uint64_t>(from.age));
    to.setPid(from.pid);
  }
  context.getResults().setTotal(state->core().objects());
  return kj::READY_NOW;
}

}  // namespace troupe
