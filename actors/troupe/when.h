// when_all and when_any: many futures as one. The combined future fails with the first failure (when_all), or
// with that of the first future to finish (when_any); the calls themselves go on.
#pragma once

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "troupe/future.h"

namespace troupe {

namespace detail {

template <class R>
struct AllOf {
  AllOf(std::size_t n, Lane& lane)
      : target(Ref<FutureState<std::vector<R>>>::adopt(new FutureState<std::vector<R>>(lane))),
        values(n),
        left(n) {}
  Ref<FutureState<std::vector<R>>> target;
  std::vector<std::optional<R>> values;
  std::size_t left;
};

template <>
struct AllOf<void> {
  AllOf(std::size_t n, Lane& lane)
      : target(Ref<FutureState<void>>::adopt(new FutureState<void>(lane))), left(n) {}
  Ref<FutureState<void>> target;
  std::size_t left;
};

}  // namespace detail

// All values, in the order of the futures; Future<void> when R is void.
template <class R>
auto when_all(std::vector<Future<R>> futures) {
  using All = detail::AllOf<R>;
  Lane& lane = futures.empty() ? detail::default_lane() : futures.front().state()->lane();
  auto all = std::make_shared<All>(futures.size(), lane);
  auto target = all->target;
  auto finish = [](All& a) {
    if constexpr (std::is_void_v<R>) {
      a.target->value.emplace();
    } else {
      auto& out = a.target->value.emplace();
      out.reserve(a.values.size());
      for (auto& v : a.values) out.push_back(std::move(*v));
    }
    a.target->finish_value();
  };
  if (futures.empty()) detail::run_on(lane, [all, finish] { finish(*all); });
  for (std::size_t i = 0; i < futures.size(); ++i) {
    auto state = futures[i].release();
    detail::when_done(state, [all, i, finish](detail::FutureState<R>& from) {
      detail::run_on(all->target->lane(), [all, i, finish, from = Ref<detail::FutureState<R>>::share(&from)] {
        if (all->target->done()) return;
        if (from->status() == CallState::kFailed) {
          all->target->fail(from->error());
          return;
        }
        if constexpr (!std::is_void_v<R>) all->values[i] = std::move(from->value);
        if (--all->left == 0) finish(*all);
      });
    });
  }
  using Result = std::conditional_t<std::is_void_v<R>, Future<void>, Future<std::vector<detail::Stored<R>>>>;
  return Result(std::move(target));
}

// Futures of different types; void ones yield detail::Unit.
template <class... R>
requires(sizeof...(R) > 0) Future<std::tuple<detail::Stored<R>...>> when_all(Future<R>... futures) {
  using Tuple = std::tuple<detail::Stored<R>...>;
  struct All {
    explicit All(Lane& lane)
        : target(Ref<detail::FutureState<Tuple>>::adopt(new detail::FutureState<Tuple>(lane))) {}
    Ref<detail::FutureState<Tuple>> target;
    std::tuple<std::optional<detail::Stored<R>>...> values;
    std::size_t left = sizeof...(R);
  };
  Lane& lane = std::get<0>(std::tie(futures...)).state()->lane();
  auto all = std::make_shared<All>(lane);
  auto target = all->target;
  auto attach = [&]<std::size_t I, class V>(std::integral_constant<std::size_t, I>, Future<V>& future) {
    auto state = future.release();
    detail::when_done(state, [all](detail::FutureState<V>& from) {
      detail::run_on(all->target->lane(), [all, from = Ref<detail::FutureState<V>>::share(&from)] {
        if (all->target->done()) return;
        if (from->status() == CallState::kFailed) {
          all->target->fail(from->error());
          return;
        }
        std::get<I>(all->values) = std::move(from->value);
        if (--all->left > 0) return;
        all->target->value.emplace(
            std::apply([](auto&... v) { return Tuple(std::move(*v)...); }, all->values));
        all->target->finish_value();
      });
    });
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (attach(std::integral_constant<std::size_t, I>{}, futures), ...);
  }
  (std::index_sequence_for<R...>{});
  return Future<Tuple>(std::move(target));
}

template <class R>
struct First {
  std::size_t index = 0;  // of the future that finished first
  detail::Stored<R> value{};
};

// The first to finish. An empty vector fails with InvalidArgument.
template <class R>
Future<First<R>> when_any(std::vector<Future<R>> futures) {
  Lane& lane = futures.empty() ? detail::default_lane() : futures.front().state()->lane();
  auto target = Ref<detail::FutureState<First<R>>>::adopt(new detail::FutureState<First<R>>(lane));
  if (futures.empty()) {
    detail::run_on(lane,
                   [target] { target->fail(Error(ErrorKind::invalid_argument, "when_any of no futures")); });
  }
  for (std::size_t i = 0; i < futures.size(); ++i) {
    auto state = futures[i].release();
    detail::when_done(state, [target, i](detail::FutureState<R>& from) {
      detail::run_on(target->lane(), [target, i, from = Ref<detail::FutureState<R>>::share(&from)] {
        if (target->done()) return;
        if (from->status() == CallState::kFailed) {
          target->fail(from->error());
          return;
        }
        target->value.emplace(First<R>{i, std::move(*from->value)});
        target->finish_value();
      });
    });
  }
  return Future<First<R>>(std::move(target));
}

}  // namespace troupe
