#include "runtime/process/store_journal.h"

#include <cstring>

#include "core/control/kj_error.h"

namespace troupe {
namespace {

constexpr auto kRetry = 200 * kj::MILLISECONDS;
constexpr int kLoadTries = 100;

capnp::Data::Reader as_data(const Bytes& bytes) {
  return kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size());
}

std::span<const std::byte> span_of(capnp::Data::Reader from) {
  return {reinterpret_cast<const std::byte*>(from.begin()), from.size()};
}

Result<std::shared_ptr<Recovered>> read(wire::Session::JournalLoadResults::Reader from,
                                        const JournalOwner& owner, std::vector<std::uint64_t>& firsts) {
  auto out = std::make_shared<Recovered>();
  auto image = span_of(from.getSnapshot());
  out->snapshot.assign(image.begin(), image.end());
  out->snapshot_at = out->last = from.getSnapshotAt();
  std::size_t size = 0;
  for (auto block : from.getBlocks()) size += block.getBytes().size();
  out->image.reserve(size);
  std::uint64_t base = from.getBlocks().size() == 0 ? out->last : from.getBlocks()[0].getFirst() - 1;
  for (auto block : from.getBlocks()) {
    auto bytes = span_of(block.getBytes());
    out->image.insert(out->image.end(), bytes.begin(), bytes.end());
    firsts.push_back(block.getFirst());
  }
  out->found = !firsts.empty() || !out->snapshot.empty();
  if (owner.served && !out->found) {
    return Error(ErrorKind::not_found, "the actor's journal is gone from the store");
  }
  auto scan = scan_blocks(out->image, base);
  if (!scan || scan->sound < out->image.size() || base > out->snapshot_at) {
    return Error(ErrorKind::internal, "the actor's journal in the store is damaged: " +
                                          (scan ? "it has a gap" : scan.error().message));
  }
  out->blocks = std::move(scan->blocks);
  out->last = std::max(out->last, scan->last);
  return out;
}

}  // namespace

bool StoreJournal::is_lost(const Error& why) {
  return why.kind == ErrorKind::cancelled || why.kind == ErrorKind::not_found;
}

void StoreJournal::open(Executor& loop, ControlPlane& plane, const JournalOwner& owner, Done done) {
  load(std::shared_ptr<StoreJournal>(new StoreJournal(loop, plane, owner)), kLoadTries, std::move(done));
}

void StoreJournal::load(std::shared_ptr<StoreJournal> self, int tries, Done done) {
  auto again = [self, tries, done](const Error& why) {
    if (is_lost(why) || tries == 0) return done(why);
    self->loop_.spawn("reading a journal", self->loop_.timer().afterDelay(kRetry).then(
                                               [self, tries, done] { load(self, tries - 1, done); }));
  };
  KJ_IF_MAYBE (session, self->plane_.session()) {
    auto request = session->journalLoadRequest();
    request.setActor(self->owner_.actor);
    request.setIncarnation(self->owner_.incarnation);
    self->loop_.spawn("reading a journal",
                      request.send().then(
                          [self, done](capnp::Response<wire::Session::JournalLoadResults> answer) {
                            auto recovered = read(answer, self->owner_, self->firsts_);
                            if (recovered)
                              done(OpenedJournal{self, *recovered});
                            else
                              done(recovered.error());
                          },
                          [again](kj::Exception&& failure) { again(error_of(failure)); }));
  } else {
    again(Error(ErrorKind::unavailable, "the head is away"));
  }
}

void StoreJournal::append(Bytes bytes, std::uint64_t last, std::shared_ptr<JournalListener> listener) {
  auto block = std::make_shared<Block>(Block{std::move(bytes), last, std::move(listener)});
  loop_.post(
      [self = shared_from_this(), block] { self->loop_.spawn("writing a journal", self->send(block)); });
}

kj::Promise<void> StoreJournal::send(std::shared_ptr<Block> block) {
  if (closed_) return kj::READY_NOW;
  auto self = shared_from_this();
  auto failed = [self, block](const Error& why, bool tell = true) -> kj::Promise<void> {
    if (is_lost(why)) {
      block->listener->on_lost(why);
      return kj::READY_NOW;
    }
    if (tell) block->listener->on_stalled(why);
    return self->loop_.timer().afterDelay(kRetry).then([self, block] { return self->send(block); });
  };
  KJ_IF_MAYBE (session, plane_.session()) {
    auto request = session->journalAppendRequest();
    request.setActor(owner_.actor);
    request.setIncarnation(owner_.incarnation);
    std::uint64_t first = block_first(block->bytes);
    request.getBlock().setFirst(first);
    request.getBlock().setBytes(as_data(block->bytes));
    return request.send().ignoreResult().then(
        [self, block, first]() -> kj::Promise<void> {
          if (self->firsts_.empty() || self->firsts_.back() != first) self->firsts_.push_back(first);
          block->listener->on_appended(block->last);
          return kj::READY_NOW;
        },
        [failed, block](kj::Exception&& failure) {
          // The node itself may have gone, and this process with it in a moment: then the next incarnation
          // knows whether the call took effect, and the caller need not hear that nobody does.
          bool first = connection_lost(failure) && !std::exchange(block->cut_off, true);
          return failed(error_of(failure), !first);
        });
  }
  return failed(Error(ErrorKind::unavailable, "the head is away"));
}

void StoreJournal::snapshot(Bytes image, std::uint64_t at, std::shared_ptr<JournalListener> listener) {
  auto kept = std::make_shared<Bytes>(std::move(image));
  loop_.post([self = shared_from_this(), kept, at, listener = std::move(listener)] {
    if (self->closed_) return;
    if (kept->size() > kMostStoredImage) {
      listener->on_snapshot(Error(ErrorKind::resource_exhausted,
                                  "a snapshot of " + std::to_string(kept->size()) +
                                      " bytes exceeds the limit of " + std::to_string(kMostStoredImage) +
                                      " bytes for the store"));
      return;
    }
    auto failed = [listener](const Error& why) {
      if (is_lost(why))
        listener->on_lost(why);
      else
        listener->on_snapshot(why);
    };
    KJ_IF_MAYBE (session, self->plane_.session()) {
      auto request = session->journalSnapshotRequest();
      request.setActor(self->owner_.actor);
      request.setIncarnation(self->owner_.incarnation);
      request.setAt(at);
      request.setImage(as_data(*kept));
      auto drop = request.initDrop(static_cast<unsigned>(self->firsts_.size()));
      for (unsigned i = 0; i < drop.size(); ++i) drop.set(i, self->firsts_[i]);
      self->loop_.spawn("writing a snapshot", request.send().ignoreResult().then(
                                                  [self, listener] {
                                                    self->firsts_.clear();
                                                    listener->on_snapshot({});
                                                  },
                                                  [failed](kj::Exception&& e) { failed(error_of(e)); }));
    } else {
      failed(Error(ErrorKind::unavailable, "the head is away"));
    }
  });
}

void StoreJournal::close() {
  loop_.post([self = shared_from_this()] { self->closed_ = true; });
}

}  // namespace troupe
