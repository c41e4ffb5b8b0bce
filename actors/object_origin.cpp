#include "troupe/detail/object_origin.h"

#include <algorithm>

#include "core/base/clock.h"
#include "runtime/lane/lane.h"

namespace troupe::detail {
namespace {

std::chrono::milliseconds left_until(std::chrono::steady_clock::time_point until) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

bool tells_of_loss(const Error& why) {
  for (const Error* at = &why; at != nullptr; at = at->cause.get()) {
    if (at->kind == ErrorKind::object_lost) return true;
  }
  return false;
}

void finish(const Ref<FutureState<ObjectBytes>>& state, Result<ObjectBytes> bytes) {
  run_on(state->lane(), [state, bytes = std::move(bytes)]() mutable {
    if (state->done()) return;
    if (!bytes) return state->fail(bytes.error());
    state->value.emplace(std::move(*bytes));
    state->finish_value();
  });
}

}  // namespace

int ObjectOrigin::depth_over(const Sources& sources) {
  int most = 0;
  for (const auto& source : sources) most = std::max(most, source->depth_);
  return most + 1;
}

ObjectOrigin::Handle ObjectOrigin::current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

Future<ObjectBytes> ObjectOrigin::open(std::chrono::milliseconds patience) {
  auto state = Opened::adopt(new FutureState<ObjectBytes>(default_lane()));
  run_on(state->lane(), [state, at = limit_after(patience)] {
    if (!state->done()) state->lane().set_deadline(*state, at);
  });
  attempt(state, Clock::now() + std::min<std::chrono::milliseconds>(patience, kEver));
  return Future<ObjectBytes>(std::move(state));
}

void ObjectOrigin::attempt(Opened state, Clock::time_point until) {
  Handle object = current();
  if (auto bytes = ObjectClient::get().try_open(*object)) return finish(state, std::move(*bytes));
  auto opened = [self = shared_from_this(), state, object, until](Result<ObjectBytes> bytes) {
    if (bytes || bytes.error().kind != ErrorKind::object_lost) return finish(state, std::move(bytes));
    run_on(state->lane(), [self, state, object, until] {
      self->renew(object, [self, state, until](const Result<void>& renewed) {
        if (renewed)
          self->attempt(state, until);
        else
          finish(state, renewed.error());
      });
    });
  };
  ObjectClient::get().open(object, left_until(until).count(), std::move(opened));
}

void ObjectOrigin::renew(const Handle& lost, Renewed then) {
  bool begins = false;
  {
    std::unique_lock lock(mutex_);
    if (current_.get() != lost.get()) {
      lock.unlock();
      return then({});
    }
    begins = waiting_.empty();
    waiting_.push_back(std::move(then));
  }
  if (begins) renew_sources(0, Clock::now() + kAttempt);
}

void ObjectOrigin::renew_sources(std::size_t from, Clock::time_point until) {
  for (; from < sources_.size(); ++from) {
    Handle source = sources_[from]->current();
    if (!source->lost()) continue;
    return sources_[from]->renew(source,
                                 [self = shared_from_this(), from, until](const Result<void>& renewed) {
                                   if (renewed)
                                     self->renew_sources(from + 1, until);
                                   else
                                     self->answer(renewed.error());
                                 });
  }
  call(until);
}

void ObjectOrigin::call(Clock::time_point until) {
  bool allowed = false;
  {
    std::lock_guard lock(mutex_);
    allowed = left_ > 0;
    if (allowed) --left_;
  }
  if (!allowed) {
    return answer(Error(ErrorKind::object_lost, "object " + to_string(current()->id()) +
                                                    " is lost, and was made again " + std::to_string(times_) +
                                                    " times, as often as its call allowed"));
  }
  Future<Handle> made;
  try {
    made = again_(left_until(until));
  } catch (...) {  // of copying or encoding the arguments
    return called(failure_of(std::current_exception()), until);
  }
  when_done(made.state(), [self = shared_from_this(), until](FutureState<Handle>& done) {
    if (done.status() == CallState::kFailed)
      self->called(done.error(), until);
    else
      self->called(std::move(*done.value), until);
  });
}

void ObjectOrigin::called(Result<Handle> made, Clock::time_point until) {
  if (made && *made) {
    {
      std::lock_guard lock(mutex_);
      current_ = std::move(*made);
    }
    return answer({});
  }
  Error why(ErrorKind::object_lost,
            "object " + to_string(current()->id()) + " is lost, and could not be made again");
  if (made) {
    why.message += ": the call gave a reference to nothing";
    return answer(why);
  }
  // A source was lost, too, which was not known before: that attempt does not count.
  bool source_lost = std::any_of(sources_.begin(), sources_.end(),
                                 [](const auto& source) { return source->current()->lost(); });
  if (source_lost && tells_of_loss(made.error()) && Clock::now() < until) {
    {
      std::lock_guard lock(mutex_);
      ++left_;
    }
    return renew_sources(0, until);
  }
  answer(why.because(made.error()));
}

void ObjectOrigin::answer(const Result<void>& result) {
  std::vector<Renewed> waiting;
  {
    std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
  }
  for (auto& then : waiting) {
    if (result)
      then({});
    else
      then(result.error());
  }
}

}  // namespace troupe::detail
