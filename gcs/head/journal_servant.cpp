// The journals of durable actors that lie in the store: one hash for each actor, a field for each block.
//
// A write of an incarnation that is not the current one is refused. One that was let in before stands in the
// store's queue, so a reader first passes a write of its own through it.
#include <algorithm>
#include <charconv>

#include "core/control/kj_error.h"
#include "gcs/head/cancellation.h"
#include "gcs/head/record_codec.h"
#include "gcs/head/servants.h"
#include "gcs/head/wire.h"

namespace troupe::gcs {
namespace {

using Done = kj::Own<kj::PromiseFulfiller<void>>;

constexpr const char* kOwner = "owner";
constexpr const char* kSnapshot = "snapshot";

Write field(ActorId actor, const std::string& name, std::optional<std::string> value) {
  return {StoreTable::journals, std::to_string(actor.value) + "/" + name, std::move(value)};
}

std::string bytes(capnp::Data::Reader from) {
  return std::string(reinterpret_cast<const char*>(from.begin()), from.size());
}

capnp::Data::Reader as_data(std::string_view from) {
  return kj::arrayPtr(reinterpret_cast<const kj::byte*>(from.data()), from.size());
}

// Whatever the store has: the incarnation may write, now or later.
kj::Exception refusal(const Store& store, const Error& error) {
  return store.fenced() ? replaced_head(store) : kj_exception(Error(ErrorKind::unavailable, error.message));
}

kj::Promise<void> write(Store& store, Batch batch) {
  auto pair = kj::newPromiseAndFulfiller<void>();
  auto done = std::make_shared<Done>(kj::mv(pair.fulfiller));
  store.write(std::move(batch), [done, &store](Result<void> result) {
    if (result)
      (*done)->fulfill();
    else
      (*done)->reject(refusal(store, result.error()));
  });
  return kj::mv(pair.promise);
}

kj::Promise<kj::Own<std::vector<Entry>>> read(Store& store, ActorId actor) {
  auto pair = kj::newPromiseAndFulfiller<kj::Own<std::vector<Entry>>>();
  auto done =
      std::make_shared<kj::Own<kj::PromiseFulfiller<kj::Own<std::vector<Entry>>>>>(kj::mv(pair.fulfiller));
  store.read_journal(std::to_string(actor.value), [done](Result<std::vector<Entry>> found) {
    if (found)
      (*done)->fulfill(kj::heap<std::vector<Entry>>(std::move(*found)));
    else
      (*done)->reject(kj_exception(found.error()));
  });
  return kj::mv(pair.promise);
}

// "POSITION BYTES"
void split_snapshot(const std::string& from, std::uint64_t& at, std::string_view& image) {
  auto space = from.find(' ');
  at = 0;
  std::from_chars(from.data(), from.data() + std::min(space, from.size()), at);
  image = space == from.npos ? std::string_view() : std::string_view(from).substr(space + 1);
}

}  // namespace

bool SessionServant::is_current(ActorId actor, std::uint32_t incarnation) const {
  const ActorRecord* record = head().core().actor(actor);
  return record != nullptr && record->process == process_ && record->incarnation == incarnation &&
         (record->phase == Phase::starting || record->phase == Phase::alive);
}

kj::Promise<void> SessionServant::not_current(ActorId actor, std::uint32_t incarnation) const {
  Error why(ErrorKind::cancelled, "incarnation " + std::to_string(incarnation) + " of actor " +
                                      to_string(actor) + " is not the current one");
  return head()
      .ask([](RequestId request) { return Acknowledge{request}; })
      .then([why = std::move(why)](kj::Own<Answer>&&) { kj::throwFatalException(kj_exception(why)); });
}

kj::Promise<void> SessionServant::journalLoad(JournalLoadContext context) {
  head().refuse_if_overloaded();
  ActorId actor{context.getParams().getActor()};
  std::uint32_t incarnation = context.getParams().getIncarnation();
  if (!is_current(actor, incarnation)) return not_current(actor, incarnation);
  allow_cancellation(context);
  return write(head().writable_store(), {field(actor, kOwner, std::to_string(incarnation))})
      .then([this, actor] { return read(head().writable_store(), actor); })
      .then([context, actor](kj::Own<std::vector<Entry>>&& found) mutable {
        auto results = context.getResults();
        std::vector<std::pair<std::uint64_t, const std::string*>> blocks;
        for (const Entry& entry : *found) {
          std::uint64_t first = 0;
          auto [end, bad] = std::from_chars(entry.key.data(), entry.key.data() + entry.key.size(), first);
          if (entry.key == kIncompleteJournal) {
            kj::throwFatalException(kj_exception(Error(
                ErrorKind::not_found, "the end of the journal of actor " + to_string(actor) +
                                          " was lost in a failover of the store; see control_store.md")));
          } else if (entry.key == kSnapshot) {
            std::uint64_t at;
            std::string_view image;
            split_snapshot(entry.value, at, image);
            results.setSnapshotAt(at);
            results.setSnapshot(as_data(image));
          } else if (bad == std::errc{} && end == entry.key.data() + entry.key.size()) {
            blocks.emplace_back(first, &entry.value);
          }
        }
        std::sort(blocks.begin(), blocks.end());
        auto list = results.initBlocks(static_cast<unsigned>(blocks.size()));
        for (unsigned i = 0; i < list.size(); ++i) {
          list[i].setFirst(blocks[i].first);
          list[i].setBytes(as_data(*blocks[i].second));
        }
      });
}

kj::Promise<void> SessionServant::journalAppend(JournalAppendContext context) {
  head().refuse_if_overloaded();
  auto params = context.getParams();
  ActorId actor{params.getActor()};
  if (!is_current(actor, params.getIncarnation())) return not_current(actor, params.getIncarnation());
  auto block = params.getBlock();
  Batch batch{field(actor, std::to_string(block.getFirst()), bytes(block.getBytes()))};
  context.releaseParams();
  return write(head().writable_store(), std::move(batch));
}

kj::Promise<void> SessionServant::journalSnapshot(JournalSnapshotContext context) {
  head().refuse_if_overloaded();
  auto params = context.getParams();
  ActorId actor{params.getActor()};
  if (!is_current(actor, params.getIncarnation())) return not_current(actor, params.getIncarnation());
  Batch batch;
  bool incomplete = head().incomplete_journals().count(actor) != 0;
  if (incomplete) {
    batch.push_back({StoreTable::journals, std::to_string(actor.value) + "/", std::nullopt});
    batch.push_back(field(actor, kOwner, std::to_string(params.getIncarnation())));
  }
  batch.push_back(field(actor, kSnapshot, std::to_string(params.getAt()) + " " + bytes(params.getImage())));
  for (auto first : params.getDrop()) batch.push_back(field(actor, std::to_string(first), std::nullopt));
  context.releaseParams();
  return write(head().writable_store(), std::move(batch)).then([this, actor, incomplete] {
    if (incomplete) head().incomplete_journals().erase(actor);
  });
}

}  // namespace troupe::gcs
