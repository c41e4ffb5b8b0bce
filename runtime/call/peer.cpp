#include "runtime/call/peer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "core/base/clock.h"
#include "core/base/fault_point.h"
#include "core/base/log.h"
#include "core/base/throws_error.h"
#include "runtime/call/actor_cell.h"
#include "runtime/call/call_state.h"
#include "runtime/call/invocation.h"
#include "runtime/call/link_lender.h"
#include "runtime/call/route.h"
#include "runtime/device/devices.h"
#include "runtime/lane/lane.h"
#include "runtime/objects/travel.h"

namespace troupe {
namespace {

FaultPoint call_lost("link.lose_request"), reply_lost("link.lose_reply"), reply_twice("link.reply_twice");

std::span<const std::byte> bytes_of(const std::vector<std::uint64_t>& words) {
  return std::as_bytes(std::span(words));
}

// Results up to this size travel in the frame.
constexpr std::size_t kInlineResult = 64 << 10;

constexpr std::uint32_t slot_of(std::uint64_t id) { return static_cast<std::uint32_t>(id); }

// Whether tensors of a GPU are shared or copied should not depend on who was quicker: a process that uses
// GPUs waits for its store. Where there is none, it asks again after a while.
void attach_for_devices() {
  constexpr std::int64_t kAgainNs = 5'000'000'000;
  static std::mutex mutex;  // guards `next`; those who come meanwhile wait for the outcome too
  static std::int64_t next = 0;
  std::lock_guard lock(mutex);
  if (ObjectClient::get().node() || steady_ns() < next) return;
  (void)ObjectClient::get().attach();
  next = steady_ns() + kAgainNs;
}

}  // namespace

Peer::Peer(Lane& lane, std::unique_ptr<Link> link, bool serves, bool cheap)
    : lane_(lane), link_(std::move(link)), serves_(serves), cheap_(cheap) {}

Peer::~Peer() {
  if (lender_) lender_->end();
  if (channel_ != 0) ObjectClient::get().expire(channel_);
}

std::uint64_t Peer::channel() {
  if (channel_ == 0) channel_ = ObjectClient::get().new_channel();
  return channel_;
}

// Big messages on a link within the machine: the next ones may go through its object store.
void Peer::note_size(std::size_t bytes) const {
  if (bytes >= kInlineResult && cheap_ && !ObjectClient::get().node()) ObjectClient::get().want();
}

bool Peer::shares() const { return place_.node && place_.node == ObjectClient::get().node(); }

bool Peer::take_references(FrameView& view) {
  attachments_ = std::make_unique<Attachments>();
  if (!lender_) lender_ = std::make_shared<LinkLender>(lane_, *this);
  if (!receive_travellers(view.bytes, *attachments_, lender_)) {
    attachments_ = nullptr;
    return false;
  }
  return true;
}

std::unique_ptr<Peer> Peer::calling(Lane& lane, std::unique_ptr<Link> link, const Place& place) {
  bool cheap = link->flush_is_cheap();
  auto peer = std::unique_ptr<Peer>(new Peer(lane, std::move(link), false, cheap));
  peer->place_ = place;
  return peer;
}

std::unique_ptr<Peer> Peer::serving(Lane& lane, std::unique_ptr<Link> link) {
  bool cheap = link->flush_is_cheap();
  return std::unique_ptr<Peer>(new Peer(lane, std::move(link), true, cheap));
}

std::byte* Peer::begin(std::size_t size, const char* what, Error* error) {
  if (size > kMaxFrame) {
    if (error != nullptr) {
      *error = Error(ErrorKind::invalid_argument,
                     std::string(what) + " of " + std::to_string(size) + " bytes exceeds the limit of " +
                         std::to_string(kMaxFrame) + " bytes for one message: pass it in pieces");
    }
    return nullptr;
  }
  std::byte* to = link_->begin_frame(size);
  if (to == nullptr && error != nullptr) {
    *error = link_->closed() ? Error(ErrorKind::unavailable, "the link is closed: " + link_->close_reason())
                             : Error(ErrorKind::overloaded, std::to_string(link_->backlog()) +
                                                                " bytes wait for the peer to read already");
  }
  return to;
}

void Peer::end() {
  link_->end_frame();
  lane_.stream_written(*this);
}

void Peer::send(const std::vector<std::uint64_t>& frame) {
  auto bytes = bytes_of(frame);
  if (std::byte* to = begin(bytes.size(), "a failure", nullptr)) {
    std::copy(bytes.begin(), bytes.end(), to);
    end();
  } else {
    does_not_read();  // an outcome that is not sent would leave its caller waiting for ever
  }
}

// ---- caller ----

bool Peer::call(Route& route, const CallRequest& request, std::span<const std::byte> args,
                std::span<const Hop> chain, CallState* state, const CallNumber* number,
                const Attachments* attachments) {
  CallHeader header;
  header.shares = shares();
  if (!header.shares && cheap_ && Devices::wanted()) [[unlikely]] {
    attach_for_devices();
    header.shares = shares();
  }
  if (number != nullptr) header.number = *number;
  header.actor = route.actor;
  header.incarnation = route.incarnation;
  header.method = request.method;
  header.one_way = state == nullptr;
  header.credit = request.credit;
  header.trace = request.trace;
  if (request.deadline != 0) {
    std::int64_t left = (request.deadline - steady_ns() + 999'999) / 1'000'000;
    if (left <= UINT32_MAX) header.deadline_ms = static_cast<std::uint32_t>(std::max<std::int64_t>(left, 1));
  }
  std::uint32_t index = 0;
  if (state != nullptr) {
    if (free_head_ != 0) {
      index = free_head_ - 1;
    } else if (slots_.size() < kMostInFlight) {
      index = static_cast<std::uint32_t>(slots_.size());
      slots_.emplace_back();
      free_head_ = index + 1;
    } else {
      state->fail(
          Error(ErrorKind::overloaded, std::to_string(kMostInFlight) + " calls are in flight already"));
      return true;
    }
    header.id = index | static_cast<std::uint64_t>(slots_[index].generation) << 32;
  }
  std::vector<std::byte> with_refs;
  if (attachments != nullptr) {
    header.extras.refs = true;
    auto packed = with_travellers(args, *attachments, channel(), header.shares, lent_);
    if (!packed) {
      if (state != nullptr) state->fail(packed.error());
      return true;
    }
    with_refs = std::move(*packed);
    args = with_refs;
  }
  note_size(args.size());
  std::size_t size = call_size(args.size(), chain.size(), number != nullptr);
  Error error;
  std::byte* to = begin(size, "a call with arguments", &error);
  if (to == nullptr) {
    if (attachments != nullptr) take_back(args, lent_);
    if (size <= kMaxFrame && (link_->closed() || link_->backlog() == 0)) return false;
    if (state != nullptr) state->fail(std::move(error));
    return true;
  }
  write_call(to, size, header, args, chain);
  end();
  lane_.peer_busy(*this);
  if (state == nullptr) return true;
  Slot& slot = slots_[index];
  free_head_ = slot.next_free;
  slot.state = Ref<CallState>::share(state);
  slot.route = &route;
  state->in_flight.peer = this;
  state->in_flight.id = header.id;
  ++in_flight_;
  ++route.in_flight;
  if (call_lost.fires()) link_->close("a fault point lost a call");
  return true;
}

Peer::Slot* Peer::find(std::uint64_t id) {
  std::uint32_t index = slot_of(id);
  if (index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  return slot.state && slot.generation == id >> 32 ? &slot : nullptr;
}

void Peer::free_slot(std::uint32_t index) {
  Slot& slot = slots_[index];
  ++slot.generation;
  slot.next_free = free_head_;
  free_head_ = index + 1;
  --in_flight_;
}

void Peer::abandon(CallState& state) {
  std::uint64_t id = state.in_flight.id;
  Slot* slot = find(id);
  if (slot == nullptr || slot->state.get() != &state) return;
  Route& route = *slot->route;
  slot->state = nullptr;
  state.in_flight.peer = nullptr;
  // A late reply finds another generation.
  free_slot(slot_of(id));
  std::size_t size = short_size();
  if (std::byte* to = begin(size, "a cancel", nullptr)) {
    write_cancel(to, size, id);
    end();
  }
  lane_.routes().call_ended(route);
}

void Peer::grant(const CallState& state, std::uint32_t credit) {
  std::size_t size = short_size();
  if (std::byte* to = begin(size, "credit", nullptr)) {
    write_credit(to, size, state.in_flight.id, credit);
    end();
  } else {
    does_not_read();
  }
}

void Peer::spent(std::uint32_t slot) {
  unsaid_.push_back(slot);
  say_spent();
}

void Peer::say_spent() {
  std::size_t size = short_size();
  while (!unsaid_.empty()) {
    std::byte* to = begin(size, "lent memory", nullptr);
    if (to == nullptr) return lane_.peer_busy(*this);  // when the backlog has moved on
    write_spent(to, size, unsaid_.back());
    end();
    unsaid_.pop_back();
  }
}

// What must be told cannot be: the end of the link tells.
void Peer::does_not_read() {
  if (link_->closed()) return;
  link_->close("the peer does not read: " + std::to_string(link_->backlog()) + " bytes wait for it");
  lane_.peer_busy(*this);
}

void Peer::on_reply(const FrameView& view) {
  Slot* slot = find(view.call.id);
  if (slot == nullptr) return;  // abandoned
  if (view.kind == FrameKind::item) {
    Ref<CallState> state = slot->state;
    try {
      Reader reader(view.bytes, attachments_.get());
      state->take_item(reader);
    } catch (...) {
      lane_.routes().abandon(*state,
                             codec_error(ErrorKind::internal, "a stream's item could not be decoded"));
    }
    return;
  }
  Ref<CallState> state = std::move(slot->state);
  slot->state = nullptr;
  Route& route = *slot->route;
  free_slot(slot_of(view.call.id));
  state->in_flight.peer = nullptr;
  if (view.kind == FrameKind::value) {
    note_size(view.bytes.size());
    Reader reader(view.bytes, attachments_.get());
    state->finish_from(reader);
  } else if (view.kind == FrameKind::gone) {
    lane_.routes().gone(route.actor, error_.incarnation, std::move(state), error_);
  } else {
    state->fail(std::move(error_));
    error_ = Error();
  }
  lane_.routes().call_ended(route);
}

std::vector<Ref<CallState>> Peer::in_flight_of(const Route& route) const {
  std::vector<Ref<CallState>> out;
  for (const Slot& slot : slots_) {
    if (slot.state && slot.route == &route) out.push_back(slot.state);
  }
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return a->in_flight.call < b->in_flight.call; });
  return out;
}

std::vector<std::pair<std::uint64_t, Ref<CallState>>> Peer::take_in_flight() {
  std::vector<std::pair<std::uint64_t, Ref<CallState>>> out;
  for (Slot& slot : slots_) {
    if (slot.state) out.emplace_back(slot.state->in_flight.call, std::move(slot.state));
    slot.state = nullptr;
  }
  in_flight_ = 0;
  slots_.clear();
  free_head_ = 0;
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

// ---- callee ----

void Peer::on_call(const FrameView& view) {
  auto refuse = [&](FrameKind kind, Error error) {
    error.actor = view.call.actor;
    error.incarnation = view.call.incarnation;
    if (!view.call.one_way) send(failure_frame(kind, view.call.id, error));
  };
  auto at = lane_.actors().find(view.call.actor);
  if (at == lane_.actors().end() || at->second->identity().incarnation != view.call.incarnation ||
      at->second->ended()) {
    refuse(FrameKind::gone, Error(ErrorKind::actor_died,
                                  "incarnation " + std::to_string(view.call.incarnation) + " of actor " +
                                      to_string(view.call.actor) + " is not in this process (any more)"));
    return;
  }
  ActorCell& cell = *at->second;
  auto methods = cell.table().methods;
  if (view.call.method >= methods.size()) {
    refuse(FrameKind::failure,
           Error(ErrorKind::mismatch, "the class has no method number " + std::to_string(view.call.method)));
    return;
  }
  std::uint32_t slot = slot_of(view.call.id);
  if (!view.call.one_way && slot >= kMostInFlight) {
    link_->close("a call with an impossible number");
    return;
  }
  Invocation* call;
  try {
    Reader reader(view.bytes, attachments_.get());
    call = methods[view.call.method].decode(reader);
  } catch (...) {
    refuse(FrameKind::failure,
           codec_error(ErrorKind::invalid_argument, "the arguments could not be decoded"));
    return;
  }
  call->one_way = view.call.one_way;
  call->method = view.call.method;
  call->target = view.call.actor;
  call->incarnation = view.call.incarnation;
  call->credit = view.call.credit;
  call->trace = view.call.trace;
  call->shares = view.call.shares;
  call->chain = chain_;
  if (view.call.number.sequence != 0) call->once = std::make_unique<OnceCall>(view.call.number, view.bytes);
  if (view.call.deadline_ms != 0)
    call->deadline = steady_ns() + view.call.deadline_ms * std::int64_t{1'000'000};
  if (!call->one_way) {
    if (slot >= serving_.size()) serving_.resize(slot + 1);
    // The caller uses the number again, so it has given the earlier call up.
    if (Invocation* earlier = serving_[slot]) {
      forget(*earlier);
      earlier->cell->cancel(*earlier);
    }
    call->peer = this;
    call->id = view.call.id;
    serving_[slot] = call;
  }
  cell.accept(call);
}

void Peer::on_frame(std::span<const std::byte> frame) {
  FrameView view;
  if (!parse_frame(frame, view, chain_, error_)) {
    link_->blame("the peer sent a frame that is not a well-formed message");
    return;
  }
  if (view.extras.refs) [[unlikely]] {
    if (!take_references(view)) return link_->blame("the peer sent references that are none");
    if (view.extras.outside) {
      auto bytes = outside_bytes(*attachments_);
      if (bytes) {
        view.bytes = bytes->bytes;
        outside_ = bytes->owner;
      } else {
        view.kind = FrameKind::failure;  // of a result: only those lie outside
        error_ = bytes.error();
      }
      attachments_->erase(attachments_->begin());
    }
    dispatch(view);
    attachments_ = nullptr;
    outside_ = nullptr;
    return;
  }
  dispatch(view);
}

void Peer::dispatch(const FrameView& view) {
  switch (view.kind) {
    case FrameKind::call:
      if (serves_)
        on_call(view);
      else
        link_->blame("the peer sent a call on a link that carries calls the other way");
      return;
    case FrameKind::value:
    case FrameKind::failure:
    case FrameKind::gone:
    case FrameKind::item:
      if (!serves_) on_reply(view);
      return;
    case FrameKind::credit:
    case FrameKind::cancel: {
      std::uint32_t slot = slot_of(view.call.id);
      if (!serves_ || slot >= serving_.size()) return;
      Invocation* call = serving_[slot];
      if (call == nullptr || call->id != view.call.id) return;
      if (view.kind == FrameKind::credit) {
        call->grant(view.credit);
      } else {
        forget(*call);
        call->cell->cancel(*call);
      }
      return;
    }
    case FrameKind::spent:
      return lent_.spent(view.slot);
    case FrameKind::unknown:
      return;  // from a later version of the schema
  }
}

void Peer::forget(Invocation& call) {
  std::uint32_t slot = slot_of(call.id);
  if (slot < serving_.size() && serving_[slot] == &call) serving_[slot] = nullptr;
  call.peer = nullptr;
}

void Peer::reply(Invocation& call, Writer& result) {
  if (reply_lost.fires()) {
    link_->close("a fault point lost a reply");
    return forget(call);
  }
  write_value(FrameKind::value, call, result.bytes(), result.take_attachments(), "a result");
  forget(call);
}

void Peer::reply(Invocation& call, std::span<const std::byte> result) {
  if (reply_lost.fires()) {
    link_->close("a fault point lost a reply");
    return forget(call);
  }
  write_value(FrameKind::value, call, result, nullptr, "a result");
  forget(call);
}

// Big results go through the object store where both sides read it, and the frame only names them.
void Peer::write_value(FrameKind kind, Invocation& call, std::span<const std::byte> bytes,
                       std::unique_ptr<Attachments> attachments, const char* what) {
  FrameExtras extras;
  std::vector<std::byte> with_refs;
  if (call.shares && bytes.size() > kInlineResult) {
    if (auto space = ObjectClient::get().try_reserve(bytes.size())) {
      space.write(0, bytes);
      auto object = space.leave_unsealed(bytes.size());
      if (!attachments) attachments = std::make_unique<Attachments>();
      attachments->insert(attachments->begin(), Ref<Attachment>::adopt(object.leave()));
      extras.outside = true;
      bytes = {};
    }
  }
  if (attachments) {
    extras.refs = true;
    auto packed = with_travellers(bytes, *attachments, channel(), call.shares, lent_);
    if (!packed) return not_sent(kind, call, packed.error());
    with_refs = std::move(*packed);
    bytes = with_refs;
  }
  std::size_t size = bytes_size(bytes.size());
  Error error;
  if (std::byte* to = begin(size, what, &error)) {
    write_bytes(to, size, kind, call.id, bytes, extras);
    end();
    if (kind == FrameKind::value && !extras.refs && reply_twice.fires()) {
      if (std::byte* again = begin(size, what, nullptr)) {
        write_bytes(again, size, kind, call.id, bytes, extras);
        end();
      }
    }
    return;
  }
  if (extras.refs) take_back(bytes, lent_);
  not_sent(kind, call, error);
}

void Peer::not_sent(FrameKind kind, Invocation& call, const Error& why) {
  // A generator stops at its next step; it is still on the stack here.
  if (kind == FrameKind::item) call.cancelled = true;
  send(failure_frame(FrameKind::failure, call.id, why));
}

void Peer::reply(Invocation& call, FrameKind kind, const Error& error) {
  send(failure_frame(kind, call.id, error));
  forget(call);
}

void Peer::item(Invocation& call, Writer& value) {
  write_value(FrameKind::item, call, value.bytes(), value.take_attachments(), "a stream's item");
}

// ---- the end ----

void Peer::tell_of_fault() const {
  static std::atomic<std::uint64_t> faults{0};
  static thread_local RateLimit limit(5);
  std::uint64_t number = faults.fetch_add(1) + 1, dropped = 0;
  if (!limit.pass(std::chrono::steady_clock::now(), dropped)) return;
  std::string with = serves_ ? "from a caller" : "to process " + to_string(place_.process);
  log(Level::warning, "a link " + with + " was ended: " + link_->close_reason() + " (fault " +
                          std::to_string(number) + " of a link in this process)");
}

void Peer::lost() {
  if (link_->peer_at_fault()) tell_of_fault();
  if (!serves_) {
    lane_.routes().link_lost(*this, link_->close_reason());
    return;
  }
  // Nobody waits for these any more.
  auto calls = std::move(serving_);
  serving_.clear();
  for (Invocation* call : calls) {
    if (call == nullptr) continue;
    call->peer = nullptr;
    call->cell->cancel(*call);
  }
}

void Peer::shutdown(const std::string& why) {
  for (auto& [number, state] : take_in_flight()) state->fail(Error(ErrorKind::cancelled, why));
  for (Invocation* call : serving_) {
    if (call != nullptr) call->peer = nullptr;
  }
  serving_.clear();
  link_->flush();
  link_->close(why);
}

}  // namespace troupe
