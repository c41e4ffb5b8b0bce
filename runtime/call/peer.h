// One end of a link as the call plane sees it. On the caller's side: the table of calls in flight. On the
// callee's: the invocations whose reply goes back here. A link carries calls in one direction only.
//
// Owner: the lane. Thread: under its baton.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ref.h"
#include "core/codec/buffer.h"
#include "core/link/link.h"
#include "runtime/call/directory.h"
#include "runtime/call/frame.h"
#include "runtime/objects/lending.h"

namespace troupe {

class CallState;
class Invocation;
class Lane;
class LinkLender;
struct CallRequest;
struct Route;

class Peer final : private Link::Sink {
 public:
  static constexpr std::uint32_t kMostInFlight = 1 << 20;

  static std::unique_ptr<Peer> calling(Lane& lane, std::unique_ptr<Link> link, const Place& place);
  static std::unique_ptr<Peer> serving(Lane& lane, std::unique_ptr<Link> link);
  ~Peer();

  // ---- for the lane ----
  std::size_t receive(std::size_t most) {
    if (!unsaid_.empty()) [[unlikely]]
      say_spent();
    return link_->receive(*this, most);
  }
  void flush() { link_->flush(); }
  bool prepare_sleep() { return link_->prepare_sleep(); }
  void cancel_sleep() { link_->cancel_sleep(); }
  void on_ready() { link_->on_ready(); }
  bool closed() const { return link_->closed(); }
  int descriptor() const { return link_->descriptor(); }
  bool wants_reading() const { return serves_ || in_flight_ > 0 || lent_.size() > 0 || link_->backlog() > 0; }
  bool flush_is_cheap() const { return cheap_; }
  std::uint32_t in_flight() const { return in_flight_; }
  std::size_t backlog() const { return link_->backlog(); }
  void lost();  // the link has closed and was taken out of the lane
  void drop(const std::string& why) { link_->close(why); }  // what it still brings is not listened to
  const Place& place() const { return place_; }             // of a calling peer
  void shutdown(const std::string& why);                    // the lane ends
  std::string check() const;                                // what is wrong with its table, or nothing

  // ---- caller ----
  // False: the link is ending and took nothing; its loss will be told soon, and the call may wait for that.
  bool call(Route& route, const CallRequest& request, std::span<const std::byte> args,
            std::span<const Hop> chain, CallState* state, const CallNumber* number = nullptr,
            const Attachments* attachments = nullptr);
  // Its node's object store is also this process's.
  bool shares() const;
  void abandon(CallState& state);  // takes it out and tells the callee
  void grant(const CallState& state, std::uint32_t credit);
  void spent(std::uint32_t slot);  // what the other side has lent goes back
  std::vector<Ref<CallState>> in_flight_of(const Route& route) const;  // oldest first
  // All calls in flight, oldest first; the table is empty afterwards.
  std::vector<std::pair<std::uint64_t, Ref<CallState>>> take_in_flight();

  // ---- callee ----
  void reply(Invocation& call, Writer& result);
  void reply(Invocation& call, std::span<const std::byte> result);
  void reply(Invocation& call, FrameKind kind, const Error& error);
  void item(Invocation& call, Writer& value);
  void forget(Invocation& call);

  // The lane's bookkeeping.
  std::uint64_t serial = 0;
  bool listed = false, dirty = false, armed = false;

 private:
  struct Slot {
    Ref<CallState> state;
    Route* route = nullptr;  // stays while calls of it are in flight
    std::uint32_t generation = 0;
    std::uint32_t next_free = 0;
  };

  Peer(Lane& lane, std::unique_ptr<Link> link, bool serves, bool cheap);
  void on_frame(std::span<const std::byte> frame) override;
  void dispatch(const FrameView& view);
  void on_call(const FrameView& view);
  void on_reply(const FrameView& view);
  // Takes over what the frame refers to; false: it lies. Readers of view.bytes see the message's own bytes.
  bool take_references(FrameView& view);
  void write_value(FrameKind kind, Invocation& call, std::span<const std::byte> bytes,
                   std::unique_ptr<Attachments> attachments, const char* what);
  void not_sent(FrameKind kind, Invocation& call, const Error& why);
  std::uint64_t channel();
  void note_size(std::size_t bytes) const;
  std::byte* begin(std::size_t size, const char* what, Error* error);
  void end();
  void send(const std::vector<std::uint64_t>& frame);
  void does_not_read();
  void say_spent();
  Slot* find(std::uint64_t id);
  void free_slot(std::uint32_t index);
  void tell_of_fault() const;

  Lane& lane_;
  std::unique_ptr<Link> link_;
  bool serves_, cheap_;
  Place place_;
  std::vector<Slot> slots_;
  std::uint32_t free_head_ = 0, in_flight_ = 0;  // free_head_: index + 1
  std::vector<Invocation*> serving_;             // by the slot in the caller's number
  HopList chain_;
  Error error_;
  std::uint64_t channel_ = 0;                 // names the references sent on this link; 0: none were
  std::unique_ptr<Attachments> attachments_;  // of the frame that is being read, if it has any
  std::shared_ptr<const void> outside_;       // keeps its bytes
  LentMemory lent_;
  std::shared_ptr<LinkLender> lender_;  // of what the other side has lent
  std::vector<std::uint32_t> unsaid_;   // slots that are spent; the link had no room for the word
};

}  // namespace troupe
