#include "runtime/call/invocation.h"

#include "core/base/throws_error.h"
#include "runtime/call/actor_cell.h"
#include "runtime/call/peer.h"
#include "runtime/call/route.h"
#include "runtime/lane/lane.h"

namespace troupe {

Invocation::~Invocation() = default;

void Invocation::finished() { cell->done(this); }

void Invocation::failed(Error error) {
  error.actor = cell->identity().id;
  error.incarnation = cell->identity().incarnation;
  error.node = cell->identity().node;
  error_ = std::make_unique<Error>(std::move(error));
  cell->done(this);
}

void Invocation::not_here() {
  gone_ = true;
  error_ = std::make_unique<Error>(ErrorKind::actor_died, "incarnation " + std::to_string(incarnation) +
                                                              " of actor " + to_string(target) +
                                                              " is not in this process (any more)");
  error_->actor = target;
  error_->incarnation = incarnation;
  reply();
}

void Invocation::send_item(Writer& item) {
  if (peer != nullptr) {
    peer->item(*this, item);
  } else if (state) {
    // The consumer lives on another lane, perhaps: the bytes travel.
    std::vector<std::byte> bytes(item.bytes().begin(), item.bytes().end());
    std::shared_ptr<Attachments> attachments(item.take_attachments());
    auto deliver = [state = state, bytes = std::move(bytes), attachments] {
      Reader reader(bytes, attachments.get());
      try {
        state->take_item(reader);
      } catch (...) {
        state->lane().routes().abandon(
            *state, codec_error(ErrorKind::internal, "a stream's item could not be decoded"));
      }
    };
    if (Lane::current() == &state->lane())
      deliver();
    else
      state->lane().post_function(std::move(deliver));
  }
}

void Invocation::reply() {
  if (peer != nullptr) {
    if (error_ && gone_) {
      peer->reply(*this, FrameKind::gone, *error_);
    } else if (error_) {
      peer->reply(*this, FrameKind::failure, *error_);
    } else {
      static thread_local Writer scratch;
      scratch.clear();
      scratch.set_sharing(shares);
      try {
        encode_result(scratch);
        peer->reply(*this, scratch);
      } catch (...) {
        peer->reply(*this, FrameKind::failure,
                    codec_error(ErrorKind::internal, "the result could not be encoded"));
      }
      scratch.trim();
    }
    delete this;
  } else if (state) {
    returning_ = true;
    cell = nullptr;
    if (Lane::current() == &state->lane())
      complete();
    else
      state->lane().post(this);
  } else {
    delete this;
  }
}

void Invocation::complete() {
  Ref<CallState> waiter = std::move(state);
  state = nullptr;
  if (gone_) {
    waiter->lane().routes().gone(target, incarnation, waiter, *error_);
  } else if (error_) {
    waiter->fail(std::move(*error_));
  } else if (!waiter->done()) {
    deliver(*waiter);
    waiter->finish_value();
  }
  delete this;
}

bool Invocation::try_arrive(Lane& here) {
  auto at = here.actors().find(target);
  if (at == here.actors().end() || at->second->ended() ||
      (incarnation != 0 && at->second->identity().incarnation != incarnation)) {
    return false;
  }
  at->second->accept(this);
  return true;
}

void Invocation::run_task() {
  if (returning_)
    complete();
  else if (!try_arrive(*Lane::current()))
    not_here();
}

void Invocation::drop_task() { delete this; }

}  // namespace troupe
